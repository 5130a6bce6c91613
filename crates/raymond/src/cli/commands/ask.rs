//! Commands that ask a run for something, through its door.

use std::process::ExitCode;

use raymond_engine::door::{Answer, LimitChange};
use raymond_flow::{id::RunId, machine::Status, money::Usd};

use super::prepare::Surroundings;
use crate::{
    cli::args::{LimitOptions, Place},
    failure::Failure,
    out,
    report::{Lines, words::Level},
};

/// `raymond stop ID`
pub(in crate::cli) fn stop(id: &str, now: bool, place: &Place) -> Result<ExitCode, Failure> {
    let id = RunId::new(id)?;
    let surroundings = surroundings(place)?;
    let mut observer = Lines::new(out::people(), Level::Trouble);
    match surroundings.engine(None)?.stop(&id, now, &mut observer)? {
        Some(Answer { status: Status::Running, running_steps, .. }) if running_steps > 0 => {
            let steps = if running_steps == 1 { "step" } else { "steps" };
            out::note(&format!("run {id} stops; waiting for {running_steps} running {steps}"));
            if !now {
                out::note(&format!("to stop them now: raymond stop {id} --now"));
            }
        }
        Some(_) => out::note(&format!("run {id} stops; resume it: raymond run {id}")),
        None => {
            let why = format!("run {id} is not running; see: raymond status {id}");
            return Err(Failure::usage(why));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `raymond limit ID`
pub(in crate::cli) fn limit(
    id: &str,
    limits: &LimitOptions,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let id = RunId::new(id)?;
    let budget_usd = limits.budget.map(|dollars| {
        let why = || Failure::usage(format!("`--budget {dollars}` is no amount of dollars"));
        Usd::from_dollars(dollars).ok_or_else(why)
    });
    let change = LimitChange {
        budget_usd: budget_usd.transpose()?,
        max_iterations: limits.max_iterations,
        max_parallel: limits.max_parallel,
        max_retries: limits.retries,
    };
    let surroundings = surroundings(place)?;
    let mut observer = Lines::new(out::people(), Level::Trouble);
    let answer = surroundings.engine(None)?.limit(&id, &change, &mut observer)?;
    match answer.status {
        Status::Completed | Status::Cancelled => {
            let why = format!("run {id} is {}: it has no limits to change", answer.status);
            return Err(Failure::usage(why));
        }
        Status::Running => out::note(&format!("run {id} has the new limits")),
        Status::Failed | Status::Stopped | Status::Paused => {
            out::note(&format!("run {id} has the new limits; resume it: raymond run {id}"));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A mistake in the settings must not keep a user from stopping a run.
fn surroundings(place: &Place) -> Result<Surroundings, Failure> {
    Surroundings::of(place).or_else(|_| Surroundings::without_settings(place))
}
