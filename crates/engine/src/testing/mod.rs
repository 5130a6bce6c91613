//! Helpers for the tests of this crate: a workflow on steps in memory, and an observer that records events.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

mod written;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    fs, io,
    path::PathBuf,
    rc::Rc,
    sync::{Arc, Mutex},
    time::Duration,
};

use raymond_flow::{
    coding_agent::Capabilities,
    id::{AgentId, RunId, StateName, StepId},
    machine::{
        Action, Limits, Record, SessionPlan, Settings, Started, Step, Turn, TurnFailure,
        TurnSettings,
    },
    policy::Policy,
    source::{Timeout, TurnOptions},
};
use tempfile::TempDir;

use crate::{
    Engine, EngineError, RunEnd, Runner,
    agent::{
        Activity, Agents, CodingAgent, CostPromise, ProgramAgent, ProgramConfig, TurnCommand,
        TurnEnd, TurnOutput, TurnRequest,
    },
    exec::{
        step::StepFolder,
        steps::memory::{Fate, Memory},
    },
    keeper::StepLaunch,
    run::events::{Event, Observer, Seen, StepEnd},
    store::layout::{RunFiles, StateDir},
};

pub(crate) use written::{
    Written, asked, ended, failed, followed, fork, goto, intended, question, result, retried,
    retried_with,
};

/// The id of every run here.
pub(crate) fn id() -> RunId {
    RunId::new("r").unwrap()
}

/// An engine in which every wait ends at once.
pub(crate) fn engine(state_dir: StateDir, runner: Runner, agents: &Agents) -> Engine<'_> {
    Engine {
        state_dir,
        runner,
        agents,
        warm_limit: 0,
        is_hurried: true,
        disk_reserve_bytes: 0,
        reset_margin: Duration::ZERO,
        kept_script_steps: 0,
        user_dir: None,
        environment: Vec::new(),
        answerer: None,
        interrupts: None,
    }
}

/// A run of the workflow in `scope_dir` that begins with `START.sh`.
pub(crate) fn started(scope_dir: &str) -> Started {
    Started {
        workflow_id: id(),
        identity: "5f".to_owned(),
        state_dir: String::new(),
        scope_dir: scope_dir.to_owned(),
        entry: StateName::new("START.sh"),
        cwd: "/".to_owned(),
        started_at_ms: 1,
        input: None,
        metadata: BTreeMap::new(),
        settings: Settings::default(),
        limits: Limits::default(),
    }
}

/// The steps of `main` by their numbers.
pub(crate) fn step_id(number: u32) -> StepId {
    StepId { agent: AgentId::main(), number }
}

fn step(state: &str, action: Action) -> Step {
    Step { number: 1, state: StateName::new(state), digest: None, attempt: 1, action }
}

/// The first step of an agent, if that is a script.
pub(crate) fn script_step() -> Step {
    step("START.sh", Action::Script { timeout: Timeout::DEFAULT })
}

/// A turn in this session that asks for nothing in particular.
pub(crate) fn turn(session: SessionPlan) -> Turn {
    let settings = TurnSettings {
        agent: None,
        model: None,
        effort: None,
        timeout: Timeout::DEFAULT,
        skip_permissions: false,
        granted: Vec::new(),
        budget_usd: None,
        options: TurnOptions::default(),
        tools: None,
        permissions: None,
    };
    let (policy, prompt_digest) = (Policy::default(), String::new());
    Turn {
        session,
        settings,
        policy,
        prompt_digest,
        recovers: false,
        given: Vec::new(),
        stand_in: None,
        spent_share: false,
        budget_usd: None,
    }
}

/// The first step of an agent, if that is this turn.
pub(crate) fn turn_step(turn: Turn) -> Step {
    step("START.md", Action::Turn(turn))
}

/// An observer that remembers what it saw; its clones share their memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    seen: Rc<RefCell<Vec<Seen>>>,
    /// Whether it wants to see what turns do.
    pub(crate) is_curious: bool,
}

impl Observer for Recorder {
    fn see(&mut self, seen: &Seen) {
        self.seen.borrow_mut().push(seen.clone());
    }

    fn wants_activity(&self) -> bool {
        self.is_curious
    }
}

impl Recorder {
    /// What `select` makes of each event.
    pub(crate) fn all<T>(&self, select: impl FnMut(&Event) -> Option<T>) -> Vec<T> {
        let seen = self.seen.borrow();
        seen.iter().map(|seen| &seen.event).filter_map(select).collect()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.all(|event| match event {
            Event::Recorded { record, .. } => Some(record.clone()),
            _ => None,
        })
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        self.all(|event| match event {
            Event::Trouble(text) => Some(text.clone()),
            _ => None,
        })
    }
}

/// A program that speaks the protocol of `ProgramAgent`. It is never started.
pub(crate) fn shell() -> ProgramConfig {
    ProgramConfig {
        name: "program".to_owned(),
        program: vec!["sh".to_owned()],
        model: None,
        capabilities: Capabilities::FULL,
        prices: None,
        promises_cost: CostPromise::None,
    }
}

/// A coding agent that says every line that it prints.
pub(crate) struct Talkative;

impl CodingAgent for Talkative {
    fn name(&self) -> &'static str {
        "talkative"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        ProgramAgent::new(shell()).command(request)
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        ProgramAgent::new(shell()).outcome(output)
    }

    fn activity(&self, line: &[u8]) -> Option<Activity> {
        let text = String::from_utf8_lossy(line).into_owned();
        (!text.is_empty()).then_some(Activity::Says(text))
    }
}

/// What was said.
pub(crate) fn words(activity: Activity) -> String {
    match activity {
        Activity::Says(text) => text,
        other => panic!("{other:?}"),
    }
}

/// A result that ends a run.
pub(crate) const RESULT: &str = "<result>done</result>";

/// A workflow whose steps have the outcomes that a test gives them.
pub(crate) struct Stage {
    pub(crate) folder: TempDir,
    pub(crate) memory: Memory,
    pub(crate) seen: Recorder,
    pub(crate) agents: Agents,
    pub(crate) warm_limit: usize,
    pub(crate) started: Started,
}

/// The file name of the state that a launch carries out.
pub(crate) fn state(launch: &StepLaunch) -> String {
    let of_turn = launch.environment.iter().find(|(name, _)| name == "RAYMOND_STATE");
    let script = || launch.program.last().unwrap().rsplit('/').next().unwrap().to_owned();
    of_turn.map_or_else(script, |(_, value)| value.clone())
}

pub(crate) fn variable(launch: &StepLaunch, name: &str) -> String {
    let found = launch.environment.iter().find(|(own, _)| own == name);
    found.map(|(_, value)| value.clone()).unwrap_or_default()
}

/// The last line of a turn with this answer.
pub(crate) fn says(text: &str) -> Fate {
    Fate::prints(&serde_json::json!({ "result": text, "cost_usd": 0.5 }).to_string())
}

pub(crate) fn fails(class: &str) -> Fate {
    Fate::prints(&serde_json::json!({ "error": "no", "class": class }).to_string())
}

/// The outcomes of each state, in order; the last one repeats.
pub(crate) fn fates(
    mut script: BTreeMap<&'static str, Vec<Fate>>,
) -> impl FnMut(&StepLaunch) -> Fate + Send + 'static {
    move |launch| {
        let fates = script.get_mut(&*state(launch)).unwrap();
        if fates.len() > 1 { fates.remove(0) } else { fates[0].clone() }
    }
}

impl Stage {
    pub(crate) fn new(
        files: &[&str],
        script: impl IntoIterator<Item = (&'static str, Vec<Fate>)>,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let flow = folder.path().join("flow");
        fs::create_dir(&flow).unwrap();
        for name in files {
            fs::write(flow.join(name), "Do it.").unwrap();
        }
        if files[0] == "START.md" {
            let policy =
                "---\nallowed_transitions: [{ tag: result }, { tag: goto, target: NEXT }]\n---\n";
            fs::write(flow.join(files[0]), format!("{policy}Do it.")).unwrap();
        }
        let mut started = started(flow.to_str().unwrap());
        started.entry = StateName::new(files[0]);
        started.cwd = folder.path().to_str().unwrap().to_owned();
        let program = ProgramAgent::new(shell());
        Self {
            memory: Memory::new(fates(script.into_iter().collect())),
            seen: Recorder::default(),
            agents: Agents::new(vec![Box::new(program)]),
            warm_limit: 0,
            started,
            folder,
        }
    }

    /// The path of a file of the workflow.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("flow").join(name)
    }

    /// Gives every step the fate that `oracle` gives it, and remembers what was launched.
    pub(crate) fn note_launches(
        &mut self,
        mut oracle: impl FnMut(&StepLaunch) -> Fate + Send + 'static,
    ) -> Arc<Mutex<Vec<StepLaunch>>> {
        let launches = Arc::new(Mutex::new(Vec::new()));
        let notes = Arc::clone(&launches);
        self.memory = Memory::new(move |launch| {
            notes.lock().unwrap().push(launch.clone());
            oracle(launch)
        });
        launches
    }

    pub(crate) fn state_dir(&self) -> StateDir {
        StateDir::new(self.folder.path().join(".raymond"))
    }

    pub(crate) fn files(&self) -> RunFiles {
        self.state_dir().run(&id())
    }

    pub(crate) fn engine(&self) -> Engine<'_> {
        Engine {
            warm_limit: self.warm_limit,
            ..engine(self.state_dir(), Runner::memory(self.memory.clone()), &self.agents)
        }
    }

    pub(crate) fn try_start(&self) -> Result<RunEnd, EngineError> {
        self.engine().start(self.started.clone(), &mut self.seen.clone())
    }

    #[track_caller]
    pub(crate) fn start(&self) -> RunEnd {
        self.try_start().unwrap()
    }

    #[track_caller]
    pub(crate) fn resume(&self) -> RunEnd {
        self.engine().resume(&id(), |_, _| {}, &mut self.seen.clone()).unwrap()
    }

    pub(crate) fn step(&self, name: &str) -> StepFolder {
        let (agent, number) = name.rsplit_once('.').unwrap();
        let (agent, number) = (AgentId::new(agent), number.parse().unwrap());
        StepFolder::new(&self.files().steps, &StepId { agent, number })
    }

    /// The calls to the runner, without the closing one.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.memory.asked().into_iter().filter(|what| what != "close all").collect()
    }

    pub(crate) fn launches(&self) -> usize {
        self.asked().iter().filter(|what| what.starts_with("launch ")).count()
    }

    pub(crate) fn records(&self, is_meant: fn(&Record) -> bool) -> usize {
        self.seen.records().iter().filter(|record| is_meant(record)).count()
    }

    /// The errors with which agents failed.
    pub(crate) fn failures(&self) -> Vec<String> {
        self.seen.all(|event| match event {
            Event::Recorded { record: Record::Failed { error, .. }, .. } => Some(error.clone()),
            _ => None,
        })
    }

    /// The ends of all steps, in order.
    pub(crate) fn ends(&self) -> Vec<(String, StepEnd)> {
        self.seen.all(|event| match event {
            Event::StepEnded { id, end, .. } => Some((id.to_string(), *end)),
            _ => None,
        })
    }

    /// Checks that every step that was started or found was reported to have ended exactly once.
    #[track_caller]
    pub(crate) fn check_ends(&self) {
        let mut starts = self.seen.all(|event| match event {
            Event::StepStarted { id, .. } => Some(id.to_string()),
            _ => None,
        });
        starts.sort();
        let mut ends: Vec<_> = self.ends().into_iter().map(|(id, _)| id).collect();
        ends.sort();
        assert_eq!(starts, ends);
    }
}
