//! Commands that look at runs and change nothing.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use raymond_engine::{layout::StateDir, load, lock::RunLock};
use raymond_flow::{
    id::RunId,
    machine::{Phase, Status},
};

use super::place::state_dir;
use crate::{cli::args::Place, failure::Failure};

/// `raymond list`
pub(in crate::cli) fn list(place: &Place) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let mut out = io::stdout().lock();
    for id in state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))? {
        let line = match load(&state_dir, &id) {
            Ok(loaded) => {
                let run = loaded.run;
                let status = status_word(&state_dir, &id, run.status);
                format!("{id}  {status}  {}  {} agents", run.total_cost_usd, run.agents.len())
            }
            Err(error) => format!("{id}  unreadable: {error}"),
        };
        writeln!(out, "{line}").map_err(|error| Failure::io("print", &error))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `raymond status ID`
pub(in crate::cli) fn status(id: &str, place: &Place) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let id = RunId::new(id)?;
    let run = load(&state_dir, &id)?.run;
    let mut text = format!(
        "run {id}: {}\nworkflow {}\nspent {}, {} states entered\n",
        status_word(&state_dir, &id, run.status),
        run.scope_dir,
        run.total_cost_usd,
        run.iteration_count,
    );
    for agent in run.agents_by_birth() {
        let about = match &agent.phase {
            Phase::Running { step, .. } => format!("step {} runs", step.number),
            Phase::Ready { .. } | Phase::Called { .. } => "about to start".to_owned(),
            Phase::Queued { .. } => "waits for a place".to_owned(),
            Phase::Waiting { .. } => "waits to try again".to_owned(),
            Phase::Held { asked, .. } => format!("held by a limit before {asked}"),
            Phase::Failed { error, .. } => format!("failed: {error}"),
        };
        let depth = agent.stack.len();
        let (id, state) = (agent.id.as_str(), agent.current_state.as_str());
        text.extend([id, "  ", state, "  depth ", &depth.to_string(), "  ", &about, "\n"]);
    }
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).map_err(|error| Failure::io("print", &error))?;
    Ok(ExitCode::SUCCESS)
}

fn status_word(state_dir: &StateDir, id: &RunId, status: Status) -> &'static str {
    match status {
        Status::Running if RunLock::holder(&state_dir.run(id).lock).is_none() => "died",
        Status::Running => "running",
        Status::Completed => "completed",
        Status::Failed => "failed",
        Status::Stopped => "stopped",
        Status::Paused => "paused",
        Status::Cancelled => "cancelled",
    }
}
