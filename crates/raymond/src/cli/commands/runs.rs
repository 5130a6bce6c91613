//! Finds runs: by id, by a prefix of it, or the latest. Prints what a change has made of one.

use std::process::ExitCode;

use raymond_engine::{
    load,
    store::{journal::Journal, layout::StateDir, lock::RunLock, user::UserDir},
};
use raymond_flow::{id::RunId, machine::Status};
use serde_json::json;

use super::place::typed;
use crate::{
    cli::{
        args::{Place, WhichRun},
        mistyped,
    },
    failure::Failure,
    out, quote,
    report::Next,
};

/// The most runs that an error lists.
const NAMED_MAX: usize = 5;

/// The run that the user named, or the latest one.
pub(super) fn find(state_dir: &StateDir, run: &WhichRun, place: &Place) -> Result<RunId, Failure> {
    match &run.id {
        Some(id) => by_id(state_dir, id, place),
        None => checked(state_dir, &latest(state_dir)?.ok_or_else(|| no_runs(state_dir))?),
    }
}

/// The run, if none of its directories is a link, or one that other users can write to.
fn checked(state_dir: &StateDir, id: &RunId) -> Result<RunId, Failure> {
    state_dir.check_run(&state_dir.run(id))?;
    Ok(id.clone())
}

/// The run whose id is `typed`, or the only one whose id begins with it.
pub(super) fn by_id(state_dir: &StateDir, word: &str, place: &Place) -> Result<RunId, Failure> {
    let ids = ids(state_dir)?;
    if let Some(id) = ids.iter().find(|id| id.as_str() == word) {
        return checked(state_dir, id);
    }
    let begins = |id: &&RunId| !word.is_empty() && id.as_str().starts_with(word);
    let matching: Vec<_> = ids.iter().filter(begins).collect();
    match matching[..] {
        [id] => return checked(state_dir, id),
        [] => {}
        _ => {
            let message = format!("`{word}` matches {} run ids", matching.len());
            let hint = format!("type more characters of one of them: {}", listed(&matching));
            return Err(Failure::usage(message).with_hint(hint));
        }
    }
    // If the word cannot be an id, that error says more.
    let id = RunId::new(word)?;
    if let Some(there) = elsewhere(state_dir, &id) {
        let message = format!("there is no run `{id}` in {}", state_dir.root().display());
        let option = quote::path(there.root());
        return Err(Failure::not_found(message)
            .with_hint(format!("it is a run of another project: add --data-dir {option}")));
    }
    if ids.is_empty() {
        return Err(no_runs(state_dir));
    }
    let failure = Failure::not_found(format!("there is no run `{id}` in {}", shown(state_dir)));
    Err(match mistyped::nearest(word, ids.iter().map(ToString::to_string)) {
        Some(meant) => failure.with_hint(format!("did you mean `{meant}`?")),
        None => failure.with_hint(format!("list the runs: raymond list{}", typed(place))),
    })
}

/// The state directory of another project of this user that has the run.
fn elsewhere(state_dir: &StateDir, id: &RunId) -> Option<StateDir> {
    let mut others = UserDir::here()?.state_dirs().into_iter();
    others.find(|other| other.root() != state_dir.root() && other.run(id).journal.exists())
}

/// Whether there is a run with exactly this id.
pub(super) fn exists(state_dir: &StateDir, id: &str) -> bool {
    RunId::new(id).is_ok_and(|id| state_dir.run(&id).journal.exists())
}

/// The ids of all runs.
pub(super) fn ids(state_dir: &StateDir) -> Result<Vec<RunId>, Failure> {
    state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))
}

/// The run that was started last. Only the first line of each journal is read.
fn latest(state_dir: &StateDir) -> Result<Option<RunId>, Failure> {
    let started = ids(state_dir)?.into_iter().map(|id| {
        let entry = Journal::first(&state_dir.run(&id).journal).ok().flatten();
        let started = entry.as_ref().and_then(|entry| entry.records.first()?.started());
        (started.map(|started| started.started_at_ms), id)
    });
    Ok(started.max().map(|(_, id)| id))
}

/// The status of a run in one word: `died` if it should be running, but no process owns it.
pub(super) fn status_word(state_dir: &StateDir, id: &RunId, status: Status) -> String {
    let is_dead = || RunLock::holder(&state_dir.run(id).lock).is_none();
    if status == Status::Running && is_dead() { "died".to_owned() } else { status.to_string() }
}

/// The end of a command that has changed a run. For programs it prints what the run is now.
pub(super) fn changed(state_dir: &StateDir, id: &RunId, json: bool) -> Result<ExitCode, Failure> {
    if json {
        let run = load(state_dir, id)?.run;
        let status = status_word(state_dir, id, run.status);
        out::event(&json!({ "run": id, "status": status, "running_steps": run.running_steps() }));
    }
    Ok(ExitCode::SUCCESS)
}

/// The commands for a run.
pub(super) fn next(id: &RunId, place: &Place) -> Next {
    Next { id: id.clone(), place: typed(place) }
}

fn no_runs(state_dir: &StateDir) -> Failure {
    let message = format!("there are no runs in {} yet", shown(state_dir));
    let hint = "start one: raymond WORKFLOW, or see raymond demo";
    Failure::not_found(message).with_hint(hint)
}

/// The path of the state directory for display.
pub(super) fn shown(state_dir: &StateDir) -> String {
    crate::report::near(state_dir.root()).display().to_string()
}

fn listed(ids: &[&RunId]) -> String {
    let names: Vec<_> = ids.iter().take(NAMED_MAX).map(ToString::to_string).collect();
    let more = if ids.len() > NAMED_MAX { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}
