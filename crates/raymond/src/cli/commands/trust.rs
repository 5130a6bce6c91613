//! `raymond trust`: takes over what lies in a project and was not written by this user's Raymond, and asks for that before a
//! run begins.

use std::process::ExitCode;

use raymond_engine::{
    EngineError, load,
    store::{
        journal::{Journal, JournalError},
        layout::StateDir,
    },
    trust::seal,
};
use raymond_flow::{
    id::RunId,
    machine::{Record, replay},
};

use super::place::{state_dir, typed};
use crate::{
    cli::{args::Place, upkeep::Trust},
    config::{Config, Origin},
    failure::Failure,
    out, quote,
    report::words::count,
};

/// `raymond trust [DIR]`
pub(in crate::cli) fn trust(arguments: &Trust) -> Result<ExitCode, Failure> {
    let place = Place { data_dir: arguments.place.data_dir.clone() };
    let state_dir = match &arguments.folder {
        Some(folder) => {
            let folder = std::path::absolute(folder);
            let folder = folder.map_err(|error| Failure::io("find that directory", &error))?;
            StateDir::of_project(&folder)
        }
        None => state_dir(&place)?,
    };
    state_dir.check()?;
    let config = Config::load(state_dir.root())?;
    let foreign = foreign_runs(&state_dir)?;
    if config.withheld.is_empty() && foreign.is_empty() {
        out::note(&format!("Nothing in {} waits for your trust.", state_dir.root().display()));
        return Ok(ExitCode::SUCCESS);
    }
    for line in settings(&config) {
        out::data(&line)?;
    }
    for id in &foreign {
        out::data(&shown(&state_dir, id))?;
    }
    let is_meant = arguments.yes
        || (out::can_ask() && out::is_agreed_with_a_key("Take all of this over as yours? [y/N] "));
    if !is_meant {
        if !out::can_ask() {
            let folder = arguments.folder.as_ref();
            let folder = folder.map_or_else(|| typed(&place), |it| format!(" {}", quote::path(it)));
            out::note(&format!("Take it over: raymond trust --yes{folder}"));
        }
        out::note("Nothing was changed.");
        return Ok(ExitCode::from(1));
    }
    seal::prepare().map_err(|error| Failure::io("seal anything", &error))?;
    config.trust_project()?;
    let taken = foreign.iter().map(|id| (id, Journal::take_over(&state_dir.run(id).journal)));
    let refused = taken.filter_map(|(id, taken)| Some(format!("run {id}: {}", taken.err()?)));
    let refused: Vec<_> = refused.collect();
    if refused.is_empty() {
        out::note("It is yours now.");
        return Ok(ExitCode::SUCCESS);
    }
    let runs = count(refused.len() as u64, "run");
    let message = format!(
        "{runs} cannot be taken over, and nothing of them was changed:\n{}",
        refused.join("\n")
    );
    Err(Failure::refused(message)
        .with_hint("everything else is yours now; get a whole copy of what is damaged"))
}

/// The runs that this user's Raymond did not write.
fn foreign_runs(state_dir: &StateDir) -> Result<Vec<RunId>, Failure> {
    let ids = state_dir.run_ids().map_err(|error| Failure::io("list the runs", &error))?;
    let is_foreign = |id: &RunId| {
        let loaded = load(state_dir, id);
        matches!(loaded, Err(EngineError::Journal(JournalError::Foreign { .. })))
    };
    Ok(ids.into_iter().filter(is_foreign).collect())
}

/// The settings that wait for trust, a line each, with what differs from the version that was trusted before.
fn settings(config: &Config) -> Vec<String> {
    let line = |(name, value, origin): &(String, String, Origin)| {
        let change = match config.trusted_before.as_ref().map(|before| before.get(name)) {
            None => String::new(),
            Some(None) => ", new".to_owned(),
            Some(Some(before)) if before == value => String::new(),
            Some(Some(before)) => format!(", was {}", out::one_line(before)),
        };
        let [name, value, origin] = [name, value, &origin.to_string()].map(|it| out::one_line(it));
        format!("setting  {name} = {value}  ({origin}{change})\n")
    };
    config.withheld.iter().map(line).collect()
}

/// A run that came with the project: how it stands, its workflow, and where it would go on.
fn shown(state_dir: &StateDir, id: &RunId) -> String {
    let entries = match Journal::read_foreign(&state_dir.run(id).journal) {
        Ok(entries) => entries,
        Err(error) => {
            return format!("run      {id}  damaged: {}\n", out::one_line(&error.to_string()));
        }
    };
    let records: Vec<_> = entries.into_iter().flat_map(|entry| entry.records).collect();
    let Some(started) = records.first().and_then(Record::started) else {
        return format!("run      {id}\n");
    };
    let [scope, cwd] = [&started.scope_dir, &started.cwd].map(|path| out::one_line(path));
    let status = replay(records.iter().cloned());
    let status = status.map_or_else(|_| "damaged".to_owned(), |run| run.status.to_string());
    format!("run      {id}  {status}, of {scope} in {cwd}\n")
}

/// Asks for the settings of the project that give power, before anything of it is started: a user at a terminal, once for
/// each version of the file. Elsewhere the command is refused.
pub(super) fn admit(
    config: &mut Config,
    state_dir: &StateDir,
    place: &Place,
) -> Result<(), Failure> {
    if config.withheld.is_empty() {
        return Ok(());
    }
    if out::can_ask() {
        out::note(&format!(
            "{} has settings that start programs, spend money or loosen limits:",
            state_dir.root().display()
        ));
        for line in settings(config) {
            out::note(line.trim_end());
        }
        if out::is_agreed_with_a_key("Are they yours? [y/N] ") {
            config.trust_project()?;
            *config = Config::load(state_dir.root())?;
            return Ok(());
        }
    }
    let settings = count(config.withheld.len() as u64, "setting");
    let message = format!(
        "{} has {settings} that you have not trusted: {}",
        state_dir.root().display(),
        config.withheld.iter().map(|(name, ..)| name.as_str()).collect::<Vec<_>>().join(", ")
    );
    let hint = format!(
        "look at them and take them over: raymond trust{}\n\
         in CI, list the directory of the project in RAYMOND_TRUST",
        typed(place)
    );
    Err(Failure::refused(message).with_hint(hint))
}
