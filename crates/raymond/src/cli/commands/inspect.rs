//! Commands that look at runs and change nothing.

use std::{process::ExitCode, time::Duration};

use raymond_engine::{
    EngineError,
    journal::{Journal, Position},
    layout::StateDir,
    load,
    lock::RunLock,
};
use raymond_flow::{id::RunId, machine::Status};

use super::place::state_dir;
use crate::{
    cli::args::Place,
    failure::Failure,
    out::{self, Reader},
    report::{describe, time, words},
};

/// How often `log --follow` looks for more. Nobody can wait for a file of another process.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// `raymond list`
pub(in crate::cli) fn list(place: &Place) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    for id in state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))? {
        let line = match load(&state_dir, &id) {
            Ok(loaded) => {
                let run = loaded.run;
                let status = status_word(&state_dir, &id, run.status);
                format!("{id}  {status}  {}  {} agents", run.total_cost_usd, run.agents.len())
            }
            Err(error) => format!("{id}  unreadable: {error}"),
        };
        if out::text(&format!("{}\n", out::hanging(&line)))? == Reader::Gone {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// `raymond status ID`
pub(in crate::cli) fn status(id: &str, place: &Place) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let id = RunId::new(id)?;
    let loaded = load(&state_dir, &id)?;
    let text = describe(&loaded, &status_word(&state_dir, &id, loaded.run.status));
    out::text(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// `raymond log ID`
pub(in crate::cli) fn log(id: &str, follow: bool, place: &Place) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let id = RunId::new(id)?;
    let files = state_dir.run(&id);
    if !files.journal.exists() {
        return Err(EngineError::NoSuchRun { id }.into());
    }
    let mut position = Position::START;
    loop {
        // Asked before reading: whatever it wrote last is read, then.
        let is_alive = RunLock::holder(&files.lock).is_some();
        let (entries, end) =
            Journal::read_from(&files.journal, position).map_err(EngineError::from)?;
        position = end;
        for entry in &entries {
            let at = time::stamp(entry.at_ms);
            for (_, line) in entry.records.iter().flat_map(words::of_record) {
                let line = out::hanging(&format!("{at} {line}"));
                if out::text(&format!("{line}\n"))? == Reader::Gone {
                    return Ok(ExitCode::SUCCESS);
                }
            }
        }
        if !follow || !is_alive {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(FOLLOW_INTERVAL);
    }
}

fn status_word(state_dir: &StateDir, id: &RunId, status: Status) -> String {
    let is_dead = || RunLock::holder(&state_dir.run(id).lock).is_none();
    if status == Status::Running && is_dead() { "died".to_owned() } else { status.to_string() }
}
