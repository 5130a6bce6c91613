//! Commands that send a request to a run, through its door.

use std::{
    path::Path,
    process::ExitCode,
    thread,
    time::{Duration, Instant},
};

use raymond_engine::{run::door::DoorAnswer, store::lock::RunLock};
use raymond_flow::machine::Status;

use super::{place::state_dir, prepare::LoadedProject, runs};
use crate::{
    cli::{args::Place, options::LimitOptions},
    failure::Failure,
    out,
    report::{
        Lines,
        words::{Level, count},
    },
};

/// How long to wait for a run that has nothing to wait for.
const STOP_PATIENCE: Duration = Duration::from_secs(30);
/// How often to look whether it has stopped.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// `raymond stop ID`
pub(in crate::cli) fn stop(
    id: &str,
    now: bool,
    json: bool,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let id = runs::by_id(&state_dir(place)?, id, place)?;
    let next = runs::next(&id, place);
    let project = project(place)?;
    let mut observer = Lines::new(out::people(), Level::Trouble, None);
    let Some(answer) = project.engine(None)?.stop(&id, now, &mut observer)? else {
        let failure = Failure::refused(format!("run {id} is not running"));
        return Err(failure.with_hint(format!("show its status: {}", next.command("status"))));
    };
    let DoorAnswer { status, running_steps, .. } = answer;
    if status == Status::Running && running_steps > 0 && !now {
        let steps = count(running_steps as u64, "running step");
        out::note(&format!("Run {id} is stopping. Waiting for {steps}."));
        out::note(&format!("Stop now: {} --now", next.command("stop")));
    } else {
        // What follows, `resume` above all, finds it stopped.
        let is_over = wait_until_free(&project.state_dir.run(&id).lock);
        let word = if is_over { "has stopped" } else { "is stopping" };
        out::note(&format!("Run {id} {word}. Resume it: {}", next.command("resume")));
    }
    runs::changed(&project.state_dir, &id, json)
}

/// Waits until no orchestrator has the run any more; not for ever, as its disk may be slow.
fn wait_until_free(lock: &Path) -> bool {
    let until = Instant::now() + STOP_PATIENCE;
    while RunLock::holder(lock).is_some() {
        if Instant::now() > until {
            return false;
        }
        thread::sleep(LOOK_INTERVAL);
    }
    true
}

/// `raymond limit ID`
pub(in crate::cli) fn limit(
    id: &str,
    LimitOptions(change): &LimitOptions,
    json: bool,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let id = runs::by_id(&state_dir(place)?, id, place)?;
    let next = runs::next(&id, place);
    let project = project(place)?;
    let mut observer = Lines::new(out::people(), Level::Trouble, None);
    let answer = project.engine(None)?.limit(&id, change, &mut observer)?;
    match answer.status {
        Status::Completed | Status::Cancelled => {
            let why = format!("run {id} is {}: it has no limits to change", answer.status);
            let hint = format!("show its result: {}", next.command("status"));
            return Err(Failure::refused(why).with_hint(hint));
        }
        Status::Running => out::note(&format!("Run {id} has the new limits.")),
        Status::Failed | Status::Stopped | Status::Paused => {
            let resume = next.command("resume");
            out::note(&format!("Run {id} has the new limits. Resume it: {resume}"));
        }
    }
    runs::changed(&project.state_dir, &id, json)
}

/// A mistake in the settings must not prevent the user from stopping a run.
pub(super) fn project(place: &Place) -> Result<LoadedProject, Failure> {
    LoadedProject::of(place).or_else(|_| LoadedProject::without_settings(place))
}
