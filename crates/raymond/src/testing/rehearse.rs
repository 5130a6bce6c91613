//! Runs a case on the real engine.

use std::{collections::BTreeMap, env, ffi::OsString, fs, path::Path, time::Duration};

use raymond_engine::{
    Engine, RunEnd, Runner,
    agent::{Agents, Given, ScriptedAgent},
    asks::PublishedQuestion,
    run::{
        events::{Event, Observer, Seen},
        interrupts::Interrupts,
    },
    store::{layout::StateDir, scope::ScopeSource},
    sys::clock,
};
use raymond_flow::{
    id::RunId,
    machine::{Limits, OnAsk, Run, Settings, Started, Status},
    money::Usd,
    source::Platform,
    view::Story,
};
use tempfile::TempDir;

use super::{
    Case,
    answers::Answers,
    limits::{STATES_MAX, TIMEOUT, Watchdog, whereabouts},
    setup::set_up,
};
use crate::{failure::Failure, report::words::of_halt};

/// A file system in memory, where there is one: a rehearsal need not survive.
const MEMORY: &str = "/dev/shm";

/// The number of finished script steps of a case that keep their files: memory is scarcer than disk space.
const KEPT_SCRIPT_STEPS: usize = 100;

/// What happened in a case.
#[derive(Debug)]
pub(crate) struct Rehearsal {
    pub(crate) run: Run,
    /// The states that each agent has entered.
    pub(crate) paths: BTreeMap<String, Vec<String>>,
    pub(crate) forked: Vec<String>,
    /// What was wrong with each reply that was not accepted.
    pub(crate) reminders: Vec<String>,
    pub(crate) errors: Vec<String>,
    pub(crate) prompts: Vec<Given>,
    /// Replies that no turn needed.
    pub(crate) left_over: Vec<(String, u64)>,
    /// Replies that were needed but are not in the case.
    pub(crate) missing: Vec<String>,
    /// Questions to which the case has no answer, or a wrong one.
    pub(crate) unanswered: Vec<String>,
    /// Answers that no question took.
    pub(crate) answers_left: Vec<(String, u64)>,
    /// Why it was stopped before its end and where it was then, if it was stopped.
    pub(crate) overrun: Option<String>,
    /// Whether the user pressed Ctrl-C.
    pub(crate) is_interrupted: bool,
}

/// Where a case is run, and its observers.
pub(crate) struct Stage<'a> {
    /// The state directory; `None` is a temporary one.
    pub(crate) state_dir: Option<&'a Path>,
    /// The working directory; `None` is a temporary one.
    pub(crate) cwd: Option<&'a Path>,
    /// Whether waits end at once.
    pub(crate) is_hurried: bool,
    pub(crate) interrupts: Option<Interrupts>,
    pub(crate) observers: Vec<Box<dyn Observer>>,
}

/// Collects what happens in a run.
#[derive(Default)]
struct StoryObserver(Story);

impl Observer for StoryObserver {
    fn see(&mut self, seen: &Seen) {
        if let Event::Recorded { record, .. } = &seen.event {
            self.0.add(record);
        }
    }
}

/// Passes events to two observers.
struct Both<'a>(&'a mut StoryObserver, &'a mut Vec<Box<dyn Observer>>);

impl Observer for Both<'_> {
    fn see(&mut self, seen: &Seen) {
        self.0.see(seen);
        self.1.see(seen);
    }
}

/// Runs `case` of the workflow at `workflow`.
pub(crate) fn rehearse(
    workflow: &Path,
    case: &Case,
    mut stage: Stage<'_>,
) -> Result<Rehearsal, Failure> {
    let scope = ScopeSource::open(workflow)?;
    let folder = temporary_folder()?;
    let state_dir = stage.state_dir.map_or_else(|| folder.path().join(".raymond"), Path::to_owned);
    let cwd = stage.cwd.map_or_else(|| folder.path().join("work"), Path::to_owned);
    fs::create_dir_all(&cwd)
        .map_err(|error| Failure::io("create a directory for the case", &error))?;
    let timeout = case.timeout.unwrap_or(TIMEOUT);
    let setup = setup_for(Platform::HERE, case);
    let _left = setup.map(|script| set_up(script, &case.environment, &cwd, timeout)).transpose()?;
    let agent = ScriptedAgent::new(case.replies.clone());
    let agents = Agents::only(Box::new(agent.clone()));
    let answers = Answers::new(&case.answers, &cwd);
    let answerer = |question: &PublishedQuestion| answers.answer(question);
    let program = env::current_exe().map_err(|error| Failure::io("find this program", &error))?;
    let engine = Engine {
        state_dir: StateDir::new(state_dir),
        runner: Runner::here(vec![program.into(), OsString::from("__keeper")]),
        agents: &agents,
        warm_limit: 0,
        is_hurried: stage.is_hurried,
        reset_margin: Duration::ZERO,
        disk_reserve_bytes: 0,
        kept_script_steps: KEPT_SCRIPT_STEPS,
        user_dir: None,
        environment: case.environment.clone().into_iter().collect(),
        answerer: Some(&answerer),
        interrupts: stage.interrupts.clone(),
    };
    let started = started(&scope, case, &cwd)?;
    let mut notes = StoryObserver::default();
    // No time limit for a case that the user watches.
    let watchdog = Watchdog::new(stage.interrupts.as_ref().filter(|_| stage.is_hurried), timeout);
    let end = engine.start(started, &mut Both(&mut notes, &mut stage.observers));
    let RunEnd { run, is_interrupted } = end?;
    let StoryObserver(Story { paths, forked, reminders, mut errors, halts, .. }) = notes;
    errors.extend(halts.iter().map(of_halt));
    let overrun = overrun(case, &run, &paths, watchdog.is_over().then_some(timeout));
    let (prompts, left_over, missing) = (agent.prompts(), agent.left_over(), agent.missing());
    let (unanswered, answers_left) = (answers.missing(), answers.left_over());
    Ok(Rehearsal {
        run,
        paths,
        forked,
        reminders,
        errors,
        prompts,
        left_over,
        missing,
        unanswered,
        answers_left,
        is_interrupted: is_interrupted && overrun.is_none(),
        overrun,
    })
}

/// Why a case was stopped before its end. `timeout` is the limit that it exceeded.
fn overrun(
    case: &Case,
    run: &Run,
    paths: &BTreeMap<String, Vec<String>>,
    timeout: Option<Duration>,
) -> Option<String> {
    let is_endless = run.status == Status::Stopped
        && case.max_iterations.is_none()
        && run.iteration_count >= STATES_MAX;
    let why = match timeout {
        Some(timeout) => format!("the case did not end within {timeout:?} (`timeout`)"),
        None if is_endless => {
            format!("the case did not end within {STATES_MAX} states (`max_iterations`)")
        }
        None => return None,
    };
    Some(format!("{why}{}", whereabouts(paths)))
}

/// The commands that set up a case on `platform`.
fn setup_for(platform: Platform, case: &Case) -> Option<&str> {
    let own = case.setup_windows.as_ref().filter(|_| platform == Platform::Windows);
    own.or(case.setup.as_ref()).map(String::as_str)
}

fn started(scope: &ScopeSource, case: &Case, cwd: &Path) -> Result<Started, Failure> {
    let mut limits = Limits::default();
    if let Some(budget) = case.budget {
        limits.budget_usd = (budget > Usd::ZERO).then_some(budget);
    }
    limits.max_iterations = Some(case.max_iterations.unwrap_or(STATES_MAX)).filter(|m| *m > 0);
    Ok(Started {
        workflow_id: RunId::new("case")?,
        identity: String::new(),
        state_dir: String::new(),
        scope_dir: scope.path.to_string_lossy().into_owned(),
        entry: scope.entry.clone(),
        cwd: cwd.to_string_lossy().into_owned(),
        started_at_ms: clock::now_ms(),
        input: case.input.clone(),
        metadata: case.variables.clone(),
        // No model is used here, whichever a state names. A question without an answer ends the case.
        settings: Settings { on_ask: OnAsk::Pause, ..Settings::default() },
        limits,
    })
}

fn temporary_folder() -> Result<TempDir, Failure> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix("raymond-test-");
    let in_memory = cfg!(unix).then(|| builder.tempdir_in(MEMORY)).and_then(Result::ok);
    let folder = in_memory.map_or_else(|| builder.tempdir(), Ok);
    folder.map_err(|error| Failure::io("create a directory for the case", &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setup_for_windows_is_only_used_there_and_only_if_it_is_given() {
        let text = |word: &str| Some(word.to_owned());
        let both = Case { setup: text("ls"), setup_windows: text("dir"), ..Case::default() };
        assert_eq!(setup_for(Platform::Unix, &both), Some("ls"));
        assert_eq!(setup_for(Platform::Windows, &both), Some("dir"));
        let one = Case { setup: text("echo"), ..Case::default() };
        assert_eq!(setup_for(Platform::Windows, &one), Some("echo"));
        let other = Case { setup_windows: text("dir"), ..Case::default() };
        assert_eq!(setup_for(Platform::Unix, &other), None);
    }
}
