//! `raymond cancel`: cancels a run permanently, after confirmation.

use std::process::ExitCode;

use raymond_engine::load;
use raymond_flow::machine::{Run, Status};

use super::{
    place::state_dir,
    prepare::LoadedProject,
    runs::{self, status_word},
};
use crate::{
    cli::args::Place,
    failure::Failure,
    line::{Line, Style},
    out,
    report::{
        Lines, Next,
        words::{Level, count},
    },
};

/// `raymond cancel ID`
pub(in crate::cli) fn cancel(
    id: &str,
    yes: bool,
    json: bool,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let id = runs::by_id(&state_dir, id, place)?;
    let next = runs::next(&id, place);
    let run = load(&state_dir, &id)?.run;
    let status = status_word(&state_dir, &id, run.status);
    match run.status {
        Status::Completed => {
            let message = format!("run {id} has ended: there is nothing to cancel");
            let hint = format!("show its result: {}", next.command("status"));
            return Err(Failure::refused(message).with_hint(hint));
        }
        Status::Cancelled => {
            out::note(&format!("Run {id} is already cancelled."));
            return runs::changed(&state_dir, &id, json);
        }
        _ if yes => {}
        _ if out::can_ask() => {
            if !is_meant(&run, &status) {
                out::note("Nothing was changed.");
                return Ok(ExitCode::from(1));
            }
        }
        _ => return Err(refused(&status, &next)),
    }
    // A mistake in the settings must not prevent the user from cancelling a run.
    let project = LoadedProject::of(place).or_else(|_| LoadedProject::without_settings(place))?;
    let mut observer = Lines::new(out::people(), Level::Trouble, None);
    let cancelled = project.engine(None)?.cancel(&id, &mut observer)?;
    if cancelled.status != Status::Cancelled {
        let message = format!("run {id} has ended: there is nothing to cancel");
        return Err(Failure::refused(message));
    }
    let was = match run.running_steps() {
        0 => format!("It was {status}"),
        steps => format!("{} stopped", count(steps as u64, "running step")),
    };
    let line = Line::of("Cancelled run ").add(Style::Bold, id.as_str());
    out::people().line(&line.plain(format!(". {was}; it cannot be resumed. Its files stay.")));
    runs::changed(&state_dir, &id, json)
}

/// Asks the user for confirmation.
fn is_meant(run: &Run, status: &str) -> bool {
    let (agents, id) = (count(run.agents.len() as u64, "agent"), &run.id);
    let question = format!(
        "Run {id} is {status} ({agents}, {} spent). Cancel it permanently? [y/N] ",
        run.total_cost_usd
    );
    out::is_agreed(&question)
}

/// A run is not cancelled by accident.
fn refused(status: &str, next: &Next) -> Failure {
    let message =
        format!("run {} is {status}: it was not cancelled, because nobody was asked", next.id);
    let hint = format!("cancel it permanently: {} --yes", next.command("cancel"));
    Failure::usage(message).with_hint(hint)
}
