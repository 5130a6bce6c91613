//! `raymond trust`: takes over what lies in a project and was not written by this user's Raymond, and asks for that before a
//! run begins.

use std::{env, process::ExitCode};

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
    machine::{Action, Agent, OnAsk, Phase, Record, Run, TurnSettings, Work, Worktree, replay},
    policy::Transition,
};

use super::place::{state_dir, typed};
use crate::{
    cli::{args::Place, upkeep::Trust},
    config::{Config, Origin},
    failure::Failure,
    out, quote,
    report::words::{count, of_limits},
};

/// The power of a run or a turn that was started with `--dangerously-skip-permissions`.
const UNASKED: &str = "coding agents may use every tool without asking";

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

/// Says that there are runs which this user's Raymond did not write, where a command has found none that it is for.
pub(super) fn note_foreign(state_dir: &StateDir, place: &Place) -> Result<(), Failure> {
    let foreign = foreign_runs(state_dir)?;
    if !foreign.is_empty() {
        let runs = count(foreign.len() as u64, "foreign run");
        let place = typed(place);
        out::note(&format!(
            "{runs} came with the project: look at what it has, and take it over: raymond trust{place}"
        ));
    }
    Ok(())
}

/// Whether a setting says what is started.
fn starts_something(name: &str) -> bool {
    let starts = ["program", "arguments", "acp", "mcp", "command"];
    name.split('.').any(|part| starts.contains(&part))
}

/// The settings that wait for trust, a line each, with what differs from the version that was trusted before. First those
/// that start something.
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
    let (first, others): (Vec<_>, Vec<_>) =
        config.withheld.iter().partition(|(name, ..)| starts_something(name));
    first.into_iter().chain(others).map(line).collect()
}

/// A run that came with the project: how it stands, its workflow, what it may do, and where it would go on.
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
    let Ok(run) = replay(records.iter().cloned()) else {
        return format!("run      {id}  damaged, of {scope} in {cwd}\n");
    };
    let head = format!("run      {id}  {}, of {scope} in {cwd}\n", run.status);
    let lines = powers(&run).into_iter().chain(plans(&run));
    let lines = lines.map(|line| format!("         {}\n", out::one_line(&line)));
    std::iter::once(head).chain(lines).collect()
}

/// What a run may do when it goes on.
fn powers(run: &Run) -> Vec<String> {
    let settings = &run.settings;
    let mut lines = Vec::new();
    if settings.skip_permissions {
        lines.push(UNASKED.to_owned());
    }
    lines.extend(settings.agent.as_ref().map(|agent| format!("coding agent {agent}")));
    if !settings.failover.order.is_empty() {
        lines.push(format!("failover to {}", settings.failover.order.join(", ")));
    }
    match settings.on_ask {
        OnAsk::Wait | OnAsk::Pause => {}
        OnAsk::Default => lines.push("its questions get their default answers".to_owned()),
        OnAsk::Fail => lines.push("its questions fail".to_owned()),
    }
    lines.push(format!("{}; {} spent", of_limits(&run.limits), run.total_cost_usd));
    let worktrees = run.worktrees.iter();
    lines.extend(worktrees.map(|(agent, Worktree { path, branch, repository, .. })| {
        format!("worktree of {agent}: {path}, branch {branch} of {repository}")
    }));
    lines
}

/// Where the agents of a run go on, and with what.
fn plans(run: &Run) -> Vec<String> {
    let chosen = |next: &Transition| Some(format!("has chosen {}", serde_json::json!(next)));
    let plan = |agent: &&Agent| {
        let Agent { id, current_state, cwd, phase, fork_attributes, stack, .. } = agent;
        let next = match (phase, phase.work()) {
            (Phase::Asking { question, .. }, _) => Some(format!("asks: {}", question.text)),
            (Phase::Held { asked, .. }, _) => chosen(asked),
            (_, Some(Work::Follow { transition, .. })) => chosen(transition),
            _ => None,
        };
        let settings = settings_of(phase);
        let skips = settings.is_some_and(|own| own.skip_permissions).then_some(UNASKED.to_owned());
        let own = settings.and_then(|own| own.agent.as_ref());
        let own = own.map(|agent| format!("coding agent {agent}"));
        let tools = settings.map(|own| own.tools.iter().chain([&own.granted]).flatten());
        let tools = tools.into_iter().flatten().map(|tool| format!("allowed: {tool}"));
        let head = format!("{id} goes on in {}, in {cwd}", current_state.as_str());
        let given = stack.iter().map(|frame| &frame.arguments).chain([fork_attributes]).flatten();
        let given = given.map(|(name, value)| format!("variable {name}={value}"));
        let parts = [Some(head), next, skips, own].into_iter().flatten().chain(tools).chain(given);
        parts.collect::<Vec<_>>().join("; ")
    };
    run.agents_by_birth().iter().map(plan).collect()
}

/// The settings of the turns that the agent is in the middle of.
fn settings_of(phase: &Phase) -> Option<&TurnSettings> {
    if let Some(Action::Turn(turn)) = phase.step().map(|step| &step.action) {
        return Some(&turn.settings);
    }
    let visit = match (phase, phase.work()) {
        (Phase::Asking { question, .. }, _) => question.continues.as_deref(),
        (_, Some(Work::Remind(reminder))) => Some(&reminder.visit),
        (_, Some(Work::Evaluate(evaluation))) => Some(&evaluation.visit),
        _ => None,
    };
    visit.map(|visit| &visit.settings)
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
    let mut hint = format!("look at them and take them over: raymond trust{}", typed(place));
    if env::join_paths([state_dir.root()]).is_ok() {
        hint.push_str("\nin CI, list the directory of the project in RAYMOND_TRUST");
    }
    Err(Failure::refused(message).with_hint(hint))
}
