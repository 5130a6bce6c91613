//! Commands that run workflows.

use std::{
    collections::BTreeMap,
    io::{self, Write as _},
    process::ExitCode,
};

use raymond_engine::{
    RunEnd, clock, interrupts::Interrupts, load, lock::RunLock, scope::ScopeSource,
};
use raymond_flow::{
    id::RunId,
    machine::{Limits, Settings, Started, Status},
};

use super::{
    place::{current_folder, state_dir},
    setup::{agents, change, engine, observers},
};
use crate::{
    cli::args::{Options, Start},
    failure::Failure,
};

/// `raymond start WORKFLOW`
pub(in crate::cli) fn start(arguments: Start) -> Result<ExitCode, Failure> {
    let interrupts = Interrupts::install();
    let Start { workflow, id, input, variables, options } = arguments;
    let workflow = workflow.ok_or_else(|| {
        let message = "a workflow is needed: a state file, a folder or a zip archive";
        Failure::usage(message.to_owned())
    })?;
    let scope = ScopeSource::open(&workflow)?;
    let id = match id {
        Some(id) => RunId::new(&id)?,
        None => fresh_id(&scope.name)?,
    };
    let (mut settings, mut limits) = (Settings::default(), Limits::default());
    change(&options, &mut settings, &mut limits)?;
    let started = Started {
        workflow_id: id.clone(),
        scope_dir: scope.path.to_string_lossy().into_owned(),
        entry: scope.entry,
        cwd: current_folder()?,
        started_at_ms: clock::now_ms(),
        input,
        metadata: variables.into_iter().collect::<BTreeMap<_, _>>(),
        settings,
        limits,
    };
    let state_dir = state_dir(&options.place)?;
    let agents = agents();
    let mut observers = observers(&options, &state_dir, &id);
    let engine = engine(state_dir, &agents, options.warm, interrupts)?;
    finish(&engine.start(started, &mut observers)?)
}

/// `raymond run ID`
pub(in crate::cli) fn resume(id: &str, options: &Options) -> Result<ExitCode, Failure> {
    let interrupts = Interrupts::install();
    let id = RunId::new(id)?;
    // A wrong value is found before anything happens.
    change(options, &mut Settings::default(), &mut Limits::default())?;
    let state_dir = state_dir(&options.place)?;
    let agents = agents();
    let mut observers = observers(options, &state_dir, &id);
    let engine = engine(state_dir, &agents, options.warm, interrupts)?;
    let change = |settings: &mut Settings, limits: &mut Limits| {
        let _ = change(options, settings, limits);
    };
    finish(&engine.resume(&id, change, &mut observers)?)
}

/// `raymond recover`
pub(in crate::cli) fn recover(options: &Options) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(&options.place)?;
    let mut worst = ExitCode::SUCCESS;
    let mut ids = Vec::new();
    for id in state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))? {
        let is_dead = load(&state_dir, &id)
            .is_ok_and(|loaded| loaded.run.status == Status::Running)
            && RunLock::holder(&state_dir.run(&id).lock).is_none();
        ids.extend(is_dead.then_some(id));
    }
    let interrupts = Interrupts::install();
    let agents = agents();
    for id in ids {
        let mut observers = observers(options, &state_dir, &id);
        let engine = engine(state_dir.clone(), &agents, options.warm, interrupts.clone())?;
        // One that cannot be taken up does not keep the others from it.
        match engine.resume(&id, |_, _| {}, &mut observers) {
            Ok(end) if end.run.status == Status::Completed => {}
            Ok(end) => {
                worst = exit_code(&end);
                if end.is_interrupted {
                    break;
                }
            }
            Err(error) => worst = Failure::from(error).show(),
        }
    }
    Ok(worst)
}

/// Standard output carries data only: what `main` handed back.
fn finish(end: &RunEnd) -> Result<ExitCode, Failure> {
    if let (Status::Completed, Some(result)) = (end.run.status, &end.run.result) {
        let mut out = io::stdout().lock();
        writeln!(out, "{result}").map_err(|error| Failure::io("print the result", &error))?;
    }
    Ok(exit_code(end))
}

fn exit_code(end: &RunEnd) -> ExitCode {
    match end.run.status {
        Status::Completed => ExitCode::SUCCESS,
        Status::Stopped => ExitCode::from(3),
        Status::Paused if end.is_interrupted => ExitCode::from(130),
        Status::Paused => ExitCode::from(4),
        Status::Failed | Status::Cancelled | Status::Running => ExitCode::from(1),
    }
}

fn fresh_id(name: &str) -> Result<RunId, Failure> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut prefix: String =
        name.chars().map(|c| if is_allowed(c) { c } else { '-' }).take(200).collect();
    if prefix.is_empty() {
        prefix.push_str("run");
    }
    let suffix = uuid::Uuid::new_v4().simple().to_string();
    Ok(RunId::new(&format!("{prefix}-{}", suffix.get(..8).unwrap_or_default()))?)
}
