//! Commands that show runs and change nothing.

use std::{collections::BTreeMap, process::ExitCode};

use raymond_engine::{
    agent::Activity,
    observe::{
        follower::{Follower, INTERVAL},
        overview::Overview,
        views::of_seen,
        watch::Watch,
    },
    run::events::Event,
    store::{
        journal::{Journal, JournalEnds, UNREADABLE},
        layout::{RunFiles, StateDir},
        results::Results,
    },
    sys::clock,
};
use raymond_flow::{
    id::{AgentId, RunId, StepId},
    machine::{Action, Record, Run, Started, Summary, Turn},
    view::running,
};
use serde_json::{Value, json};

use super::{
    place::state_dir,
    prepare::LoadedProject,
    run::exit_code,
    runs::{self, status_word},
};
use crate::{
    cli::args::{Log, Place, WhichRun},
    failure::Failure,
    line::{Line, Style},
    out::{self, OutputState},
    report::{Narrator, StatusReport, advice, near, status_line, time, words::Level},
};

/// A run in the list.
struct Listed {
    id: RunId,
    run: Result<Known, Unread>,
}

/// Why a run cannot be read, and its status in one word.
struct Unread {
    status: &'static str,
    why: String,
}

impl From<&str> for Unread {
    fn from(why: &str) -> Self {
        Self { status: UNREADABLE, why: why.to_owned() }
    }
}

/// What the list shows of a run.
struct Known {
    started: Started,
    now: Summary,
    status: String,
}

/// Reads the two ends of a journal, however long it is. Whether the rest is intact, `raymond status` says.
fn known(state_dir: &StateDir, id: &RunId) -> Result<Known, Unread> {
    let ends = Journal::ends(&state_dir.run(id).journal);
    let ends = ends.map_err(|it| Unread { status: it.status(), why: it.to_string() })?;
    let JournalEnds { first, now } = ends.ok_or("its journal is empty")?;
    let started = first.records.first().and_then(Record::started);
    let started = started.ok_or("its journal does not begin with its start")?.clone();
    let status = status_word(state_dir, id, now.status);
    Ok(Known { started, now, status })
}

/// `raymond list`
pub(in crate::cli) fn list(is_json: bool, place: &Place) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let read = |id: RunId| Listed { run: known(&state_dir, &id), id };
    let mut runs: Vec<_> = runs::ids(&state_dir)?.into_iter().map(read).collect();
    runs.sort_by_key(|listed| {
        std::cmp::Reverse(listed.run.as_ref().map_or(0, |run| run.started.started_at_ms))
    });
    if is_json {
        let runs: Vec<_> = runs.iter().map(listed_json).collect();
        out::data(&format!("{}\n", out::escaped(&format!("{:#}", Value::from(runs)))))?;
    } else if runs.is_empty() {
        let message = format!("There are no runs in {} yet.", runs::shown(&state_dir));
        out::people().line(&Line::of(message));
        out::people().line(&advice("Start one:", "raymond WORKFLOW"));
    } else {
        out::lines(&table(&runs))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn table(runs: &[Listed]) -> Vec<Line> {
    /// The width of `✓ completed`, of which a symbol has three bytes.
    const STATUS: usize = "✓ completed".len() - 2;
    let now_ms = clock::now_ms();
    let widest = |texts: &mut dyn Iterator<Item = String>| {
        texts.map(|text| console::measure_text_width(&text)).max().unwrap_or(0)
    };
    let ids = widest(&mut runs.iter().map(|listed| listed.id.to_string())).max("RUN".len());
    let known = || runs.iter().filter_map(|listed| listed.run.as_ref().ok());
    let costs = widest(&mut known().map(|run| run.now.cost_usd.to_string())).max(4);
    let columns = |id: Line, status: Line, age: &str, cost: &str| {
        let line = id.pad(ids).plain("  ").then(status).pad(ids + 2 + STATUS);
        line.dim(format!("  {age:>4}")).plain(format!("  {cost:>costs$}  "))
    };
    let head = format!(
        "{:<ids$}  {:<STATUS$}  {:>4}  {:>costs$}  WORKFLOW",
        "RUN", "STATUS", "AGE", "COST"
    );
    let mut lines = vec![Line::new().dim(head)];
    for Listed { id, run } in runs {
        let name = Line::new().add(Style::Bold, id.as_str());
        lines.push(match run {
            Ok(Known { started, now, status }) => {
                let age = time::age(now_ms.saturating_sub(started.started_at_ms));
                let cost = now.cost_usd.to_string();
                let workflow = near(std::path::Path::new(&started.scope_dir)).display().to_string();
                columns(name, status_line(status, now.halts), &age, &cost).plain(workflow)
            }
            Err(Unread { status, why }) => {
                let status = Line::new().add(Style::Bad, format!("✗ {status}"));
                columns(name, status, "", "").plain(why)
            }
        });
    }
    lines
}

fn listed_json(Listed { id, run }: &Listed) -> Value {
    match run {
        Ok(Known { started, now, status }) => json!({
            "run": id, "status": status, "workflow": started.scope_dir,
            "started_at": started.started_at_ms, "total_cost_usd": now.cost_usd,
        }),
        Err(Unread { status, why }) => json!({ "run": id, "status": status, "error": why }),
    }
}

/// `raymond status [ID]`
pub(in crate::cli) fn status(
    run: &WhichRun,
    is_json: bool,
    place: &Place,
) -> Result<ExitCode, Failure> {
    let state_dir = state_dir(place)?;
    let id = runs::find(&state_dir, run, place)?;
    let files = state_dir.run(&id);
    let overview = Overview::load(id.clone(), files.clone())?;
    let run = overview.known()?;
    let status = status_word(&state_dir, &id, run.status);
    let is_live = status == "running";
    let activities = if is_live { latest(place, &files, run) } else { BTreeMap::new() };
    let (next, now_ms) = (runs::next(&id, place), clock::now_ms());
    let standing =
        StatusReport { run, overview: &overview, status: &status, activities, now_ms, next: &next };
    if is_json {
        out::data(&format!("{}\n", out::escaped(&format!("{:#}", standing.json()))))?;
    } else {
        out::lines(&standing.lines())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The latest activity of each running turn.
fn latest(place: &Place, files: &RunFiles, run: &Run) -> BTreeMap<AgentId, Activity> {
    // A mistake in the settings must not prevent the user from looking at a run.
    let project = LoadedProject::of(place).or_else(|_| LoadedProject::without_settings(place));
    let Ok(LoadedProject { agents, .. }) = project else { return BTreeMap::new() };
    let mut watch = Watch::new(files.clone());
    let turns = turns(run).into_iter().filter_map(|(id, turn)| {
        let activity = watch.latest(&id, turn, &agents)?;
        Some((id.agent, activity))
    });
    turns.collect()
}

/// The running turns.
pub(super) fn turns(run: &Run) -> Vec<(StepId, &Turn)> {
    let turns = running(run).filter_map(|(id, step)| match &step.action {
        Action::Turn(turn) => Some((id, turn)),
        Action::Script { .. } => None,
    });
    turns.collect()
}

/// `raymond log [ID]`
pub(in crate::cli) fn log(arguments: &Log) -> Result<ExitCode, Failure> {
    let Log { run, follow, all, json, place } = arguments;
    let state_dir = state_dir(place)?;
    let id = runs::find(&state_dir, run, place)?;
    let files = state_dir.run(&id);
    let level = if *all { Level::Detail } else { Level::News };
    let mut narrator = Narrator::new(level, Some(files.clone()));
    let results = Results::of(&files);
    let mut follower = Follower::new(id, files);
    loop {
        let is_alive = follower.is_alive();
        let mut lines = Vec::new();
        let mut events = String::new();
        follower.read(|read| {
            let seen = read.seen;
            if *json {
                let whole = results.restored(seen);
                let event = of_seen(whole.as_ref().unwrap_or(seen));
                events.extend([&out::escaped(&event.to_string()), "\n"]);
            } else if let Event::Recorded { record, before, running, .. } = &seen.event {
                let at = Line::new().dim(format!("{} ", time::stamp(seen.at_ms)));
                let told = narrator.tell(record, before.as_deref(), *running);
                lines.extend(told.into_iter().map(|line| at.clone().then(line)));
            }
        })?;
        let is_last = !follow || !is_alive;
        if is_last {
            lines.extend(narrator.rest());
        }
        let reader = if *json { out::data(&events)? } else { out::lines(&lines)? };
        if reader == OutputState::Closed || is_last {
            break;
        }
        std::thread::sleep(INTERVAL);
    }
    let code = if *follow { exit_code(follower.run()?) } else { 0 };
    Ok(ExitCode::from(code))
}
