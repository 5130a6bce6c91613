//! `raymond rewind` and `raymond fork-run`: a new run from the past or present of another one.

use std::{path::Path, process::ExitCode};

use raymond_engine::{
    load,
    run::rewind::{self, RewindError},
};
use raymond_flow::id::{AgentId, RunId, StepId};

use super::{prepare::LoadedProject, run::fresh_id, runs};
use crate::{
    cli::args::{Place, WhichRun},
    failure::Failure,
    out,
};

/// `raymond rewind RUN STEP`
pub(in crate::cli) fn rewind(
    run: &str,
    step: &str,
    id: Option<&str>,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let wrong = || {
        Failure::usage(format!("`{step}` is not a step"))
            .with_hint("name it as in `main.3`, or `3` for main")
    };
    let (agent, number) = step.rsplit_once('.').unwrap_or(("main", step));
    let agent = AgentId::new(agent);
    let number = number.parse().map_err(|_| wrong())?;
    make(&WhichRun { id: Some(run.to_owned()) }, Some(&StepId { agent, number }), id, place)
}

/// `raymond fork-run RUN`
pub(in crate::cli) fn fork_run(
    run: &WhichRun,
    id: Option<&str>,
    place: &Place,
) -> Result<ExitCode, Failure> {
    make(run, None, id, place)
}

fn make(
    run: &WhichRun,
    step: Option<&StepId>,
    id: Option<&str>,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let project = LoadedProject::of(place)?;
    let old = runs::find(&project.state_dir, run, place)?;
    let new = if let Some(id) = id {
        RunId::for_new_run(id)?
    } else {
        let scope = load(&project.state_dir, &old)?.run.scope_dir;
        let name = Path::new(&scope).file_stem().unwrap_or_default();
        fresh_id(&name.to_string_lossy())?
    };
    rewind::rewind(&project.state_dir, &old, step, &new, &project.agents).map_err(|error| {
        let next = runs::next(&old, place);
        let hint = match &error {
            RewindError::NoSuchStep { .. } => {
                format!("list its steps: {} --all", next.command("log"))
            }
            RewindError::Over { .. } => {
                format!("go back to one of its steps: raymond rewind {old} STEP")
            }
            RewindError::WentOn { .. } => {
                "choose the first step of a state that is entered by <reset>, <function> or <fork>"
                    .to_owned()
            }
            RewindError::InWorktree { .. } => {
                format!("choose an earlier or later step: {} --all", next.command("log"))
            }
            RewindError::Engine(_) => String::new(),
        };
        match error {
            RewindError::Engine(error) => error.into(),
            error => Failure::usage(error.to_string()).with_hint(hint),
        }
    })?;
    let moment = step.map_or("is now".to_owned(), |step| {
        format!("was before step {}.{}", step.agent, step.number)
    });
    let resume = runs::next(&new, place).command("resume");
    out::note(&format!(
        "Run {new} is {old} as it {moment}, in branches of its sessions. Files in working directories stay as they \
         are now; workers in worktrees get new ones, from their last recorded commits. Continue it: {resume}"
    ));
    out::data(&format!("{new}\n"))?;
    Ok(ExitCode::SUCCESS)
}
