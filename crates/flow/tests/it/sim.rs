//! A run in memory: the real machine, with scripted children instead of processes.
//!
//! After every decision it checks the invariants: the journal replays to the same run, the
//! state file reads back as the same run, and `pending` returns exactly the outstanding effects.

use std::collections::{BTreeMap, BTreeSet};

use raymond_flow::{
    formats::Snapshot,
    id::{AgentId, AskId, RunId, SessionId, StateName, StepId},
    machine::{
        Action, Agent, Decision, Effect, Input, Launch, Limits, MadeWorktree, Message, Phase,
        Prepared, Record, Response, Run, SavedWork, SessionPlan, Settings, Spent, Started, Status,
        Step, Summary, Turn, Worktree, apply, decide, pending, replay, settle, start,
    },
    money::Usd,
    policy::{Question, WorktreePlan},
    tag::parse,
    turn::{Exit, Outcome, conclude, prepare},
    view::{At, RunView},
    world::MemoryWorld,
};

/// One child that was started and has not ended.
#[derive(Clone, Debug)]
pub(crate) struct Child {
    pub(crate) step: Step,
    pub(crate) cwd: String,
    pub(crate) launch: Launch,
}

impl Child {
    pub(crate) fn turn(&self) -> &Turn {
        match &self.step.action {
            Action::Turn(turn) => turn,
            Action::Script { .. } => panic!("{} is a script", self.step.state),
        }
    }

    pub(crate) fn session(&self) -> &SessionPlan {
        &self.turn().session
    }

    pub(crate) fn prompt(&self) -> &str {
        match &self.launch {
            Launch::Turn { prompt, .. } => prompt,
            Launch::Script { .. } => panic!("{} is a script", self.step.state),
        }
    }

    pub(crate) fn continuation(&self) -> &str {
        match &self.launch {
            Launch::Turn { continuation, .. } => continuation,
            Launch::Script { .. } => panic!("{} is a script", self.step.state),
        }
    }

    pub(crate) fn environment(&self) -> BTreeMap<&str, &str> {
        match &self.launch {
            Launch::Script { environment } => environment
                .iter()
                .map(|(name, value)| (&**name, value.as_text().unwrap()))
                .collect(),
            Launch::Turn { .. } => panic!("{} is a prompt", self.step.state),
        }
    }
}

pub(crate) struct Sim {
    pub(crate) world: MemoryWorld,
    pub(crate) run: Run,
    pub(crate) journal: Vec<Record>,
    pub(crate) children: BTreeMap<StepId, Child>,
    /// Agents that wait before another try.
    pub(crate) waits: BTreeMap<AgentId, u64>,
    pub(crate) waits_for_usage_limit: bool,
    /// Questions that a person has been asked and not answered.
    pub(crate) questions: BTreeMap<AskId, Question>,
    /// Messages that running turns can take, by their ids.
    pub(crate) told: BTreeMap<String, StepId>,
    /// Whether worktrees are made and saved only when the test says so.
    pub(crate) holds_git: bool,
    /// Worktrees that are to be made.
    pub(crate) making: BTreeMap<AgentId, WorktreePlan>,
    /// Workers whose work is to be committed.
    pub(crate) saving: BTreeSet<AgentId>,
    /// Names in prompts that no variable had.
    pub(crate) unknown_variables: Vec<String>,
    sessions: u32,
    /// Performing a `Prepare` is put off while this is set.
    pub(crate) holds_prepare: bool,
    pub(crate) unprepared: Vec<AgentId>,
}

pub(crate) fn started(entry: &str) -> Started {
    Started {
        workflow_id: RunId::new("test-00000001").unwrap(),
        identity: String::new(),
        state_dir: String::new(),
        scope_dir: "/flows/test".to_owned(),
        entry: StateName::new(entry),
        cwd: "/project".to_owned(),
        started_at_ms: 1_700_000_000_000,
        input: None,
        metadata: BTreeMap::new(),
        settings: Settings::default(),
        limits: Limits::default(),
    }
}

pub(crate) fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars).unwrap()
}

pub(crate) fn agent(name: &str) -> AgentId {
    AgentId::new(name)
}

pub(crate) fn session(name: &str) -> SessionId {
    SessionId::new(name)
}

/// An answer that a person gave with the command line.
pub(crate) fn response(result: &str) -> Response {
    Response {
        result: result.to_owned(),
        comment: String::new(),
        files: None,
        by: "anna".to_owned(),
        how: "command".to_owned(),
        at_ms: 1_700_000_060_000,
        attachments: Vec::new(),
    }
}

/// Another run of the user has reached the limit of a coding agent.
pub(crate) fn known_limit(coding_agent: Option<&str>, resets_at: Option<u64>) -> Input {
    Input::UsageLimited { coding_agent: coding_agent.map(str::to_owned), resets_at }
}

impl Sim {
    /// A run that starts at the first of `files`.
    pub(crate) fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files: Vec<_> = files.into_iter().collect();
        Self::with(started(files[0].0), MemoryWorld::new(files))
    }

    pub(crate) fn with(started: Started, world: MemoryWorld) -> Self {
        let decision = start(started.clone());
        let mut sim = Self {
            world,
            run: Run::new(&started),
            journal: decision.records,
            children: BTreeMap::new(),
            waits: BTreeMap::new(),
            waits_for_usage_limit: false,
            questions: BTreeMap::new(),
            told: BTreeMap::new(),
            holds_git: false,
            making: BTreeMap::new(),
            saving: BTreeSet::new(),
            unknown_variables: Vec::new(),
            sessions: 0,
            holds_prepare: false,
            unprepared: Vec::new(),
        };
        sim.perform(decision.effects);
        sim
    }

    /// Everything that is shown of the run, folded from its journal.
    pub(crate) fn view(&self) -> RunView {
        let Some((Record::Started(started), rest)) = self.journal.split_first() else {
            panic!("the journal does not begin with its start");
        };
        let (mut run, mut view) = (Run::new(started), RunView::default());
        view.add(&self.journal[0], &run, At::default());
        for record in rest {
            apply(&mut run, record).unwrap();
            view.add(record, &run, At::default());
        }
        view
    }

    pub(crate) fn main(&self) -> &Agent {
        &self.run.agents[&AgentId::main()]
    }

    pub(crate) fn agent(&self, name: &str) -> &Agent {
        &self.run.agents[&agent(name)]
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.run.agents_by_birth().iter().map(|agent| agent.id.as_str()).collect()
    }

    /// The step of `name` that is under way.
    pub(crate) fn step(&self, name: &str) -> StepId {
        self.children
            .keys()
            .find(|id| id.agent.as_str() == name)
            .unwrap_or_else(|| panic!("{name} has no child; there are {:?}", self.children))
            .clone()
    }

    pub(crate) fn child(&self, name: &str) -> &Child {
        &self.children[&self.step(name)]
    }

    pub(crate) fn state(&self, name: &str) -> &str {
        self.child(name).step.state.as_str()
    }

    pub(crate) fn error(&self, name: &str) -> &str {
        match &self.agent(name).phase {
            Phase::Failed { error, .. } => error,
            other => panic!("{name} did not fail: {other:?}"),
        }
    }

    pub(crate) fn reply(&mut self, name: &str, text: &str) {
        self.reply_costing(name, text, 0.0);
    }

    pub(crate) fn reply_costing(&mut self, name: &str, text: &str, dollars: f64) {
        self.end(name, Outcome::Reply { text: text.to_owned() }, dollars);
    }

    pub(crate) fn prints(&mut self, name: &str, text: &str) {
        self.exits(name, text, Exit::Code(0));
    }

    pub(crate) fn exits(&mut self, name: &str, text: &str, exit: Exit) {
        self.end(name, Outcome::Script { exit, tag: parse(text) }, 0.0);
    }

    pub(crate) fn end(&mut self, name: &str, outcome: Outcome, dollars: f64) {
        self.end_in(name, outcome, dollars, None);
    }

    /// Ends the step of `name`, whose coding agent reports `session`.
    pub(crate) fn end_in(
        &mut self,
        name: &str,
        outcome: Outcome,
        dollars: f64,
        session: Option<&str>,
    ) {
        let session = session.map(SessionId::new);
        let spent = Spent { cost_usd: usd(dollars), session, ..Spent::default() };
        self.end_spending(name, outcome, spent);
    }

    /// Ends the step of `name`, whose coding agent took these messages while it ran.
    pub(crate) fn end_hearing(&mut self, name: &str, outcome: Outcome, heard: &[&str]) {
        let heard = heard.iter().map(|id| (*id).to_owned()).collect();
        self.end_spending(name, outcome, Spent { heard, ..Spent::default() });
    }

    pub(crate) fn end_spending(&mut self, name: &str, outcome: Outcome, spent: Spent) {
        let id = self.step(name);
        self.children.remove(&id);
        self.told.retain(|_, step| *step != id);
        let far = self.elsewhere(&id.agent);
        let far = conclude(&far, &id, outcome.clone(), spent.clone(), &self.world);
        let input = conclude(&self.run, &id, outcome, spent, &self.world);
        assert_eq!(far, input, "another machine concludes the same");
        self.input(input);
    }

    pub(crate) fn input(&mut self, input: Input) {
        let json = serde_json::to_string(&input).unwrap();
        let read: Input = serde_json::from_str(&json).unwrap();
        assert_eq!(read, input, "{json}");
        let decision = decide(&self.run, input);
        self.commit(decision);
    }

    /// The only question that `name` has asked and that is open.
    pub(crate) fn question(&self, name: &str) -> (AskId, &Question) {
        let mut own = self.questions.iter().filter(|(id, _)| id.agent.as_str() == name);
        let found = own.next().unwrap_or_else(|| panic!("{name} asks nothing"));
        assert!(own.next().is_none(), "an agent asks one question at a time");
        (found.0.clone(), found.1)
    }

    /// A person answers the open question of `name`.
    pub(crate) fn answer(&mut self, name: &str, result: &str) {
        let id = self.question(name).0;
        self.questions.remove(&id);
        self.input(Input::Answered { id, response: Box::new(response(result)) });
    }

    /// A person sends a message, whose id is its text, to `name`.
    pub(crate) fn tell(&mut self, name: &str, text: &str) {
        let (id, text) = (text.to_owned(), text.to_owned());
        let message = Message { id, text, by: "anna".to_owned() };
        self.input(Input::Told { agent: agent(name), message });
    }

    pub(crate) fn wake(&mut self, name: &str) {
        self.waits.remove(&agent(name)).expect("it waits");
        self.input(Input::Woke { agent: agent(name) });
    }

    /// What `raymond run ID` does, with the limits as they are.
    pub(crate) fn resume(&mut self) {
        self.resume_with(self.run.limits.clone());
    }

    pub(crate) fn resume_with(&mut self, limits: Limits) {
        let settings = self.run.settings.clone();
        self.input(Input::Resume { settings, limits });
        self.open();
    }

    /// The orchestrator died and another takes over: nothing is known but the journal, and
    /// children go on in their keeper.
    pub(crate) fn crash(&mut self) {
        self.run = replay(self.journal.clone()).unwrap();
        self.open();
    }

    fn open(&mut self) {
        self.waits.clear();
        self.questions.clear();
        self.told.clear();
        self.making.clear();
        self.saving.clear();
        self.waits_for_usage_limit = false;
        self.unprepared.clear();
        let decision = settle(&self.run);
        self.commit(decision);
        let effects = pending(&self.run);
        self.perform(effects);
    }

    pub(crate) fn prepare_all(&mut self) {
        self.holds_prepare = false;
        for agent in std::mem::take(&mut self.unprepared) {
            self.perform(vec![Effect::Prepare { agent }]);
        }
    }

    /// What `pending` names is what was asked for and not answered yet.
    pub(crate) fn check_pending(&self) {
        let mut children = Vec::new();
        let mut waits = BTreeMap::new();
        let mut prepares = Vec::new();
        let (mut questions, mut told) = (BTreeMap::new(), BTreeMap::new());
        let (mut making, mut saving) = (BTreeMap::new(), BTreeSet::new());
        let mut waits_for_usage_limit = false;
        for effect in pending(&self.run) {
            match effect {
                Effect::Prepare { agent } => prepares.push(agent),
                Effect::Reattach { id, .. } => children.push(id),
                Effect::Wait { agent, delay_ms } => drop(waits.insert(agent, delay_ms)),
                Effect::Ask { id, question, .. } => drop(questions.insert(id, *question)),
                Effect::Tell { step, message } => drop(told.insert(message.id, step)),
                Effect::MakeWorktree { agent, plan } => drop(making.insert(agent, *plan)),
                Effect::SaveWorktree { agent, .. } => drop(saving.insert(agent)),
                Effect::WaitForUsageLimit { .. } => waits_for_usage_limit = true,
                other @ Effect::Launch { .. } => panic!("{other:?}"),
            }
        }
        if self.run.is_open() {
            children.sort();
            assert_eq!(children, self.children.keys().cloned().collect::<Vec<_>>());
            assert_eq!(waits, self.waits);
            assert_eq!(questions, self.questions);
            assert_eq!(told, self.told);
            assert_eq!((making, saving), (self.making.clone(), self.saving.clone()));
            assert_eq!(waits_for_usage_limit, self.waits_for_usage_limit);
            // An agent whose coding agent is not available is prepared again only to find that out.
            if self.run.stopped.is_empty() {
                assert_eq!(prepares.is_empty(), self.unprepared.is_empty());
            }
        }
    }

    fn commit(&mut self, mut decision: Decision) {
        let mut effects = Vec::new();
        while !decision.is_empty() {
            let json = serde_json::to_string(&decision.records).unwrap();
            let read: Vec<Record> = serde_json::from_str(&json).unwrap();
            assert_eq!(read, decision.records, "{json}");
            for record in &decision.records {
                apply(&mut self.run, record).unwrap();
                if let Record::Intended { step, .. } = record
                    && matches!(step.action, Action::Turn(_))
                {
                    self.check_budget();
                }
            }
            self.journal.append(&mut decision.records);
            effects.append(&mut decision.effects);
            decision = settle(&self.run);
        }
        self.perform(effects);
        self.check();
    }

    /// What the turns in flight may spend, added up.
    pub(crate) fn reserved(&self) -> Usd {
        let steps = self.run.agents.values().filter_map(|agent| agent.phase.step());
        let shares = steps.filter_map(|step| match &step.action {
            Action::Turn(turn) => turn.budget_usd,
            Action::Script { .. } => None,
        });
        shares.sum()
    }

    /// A turn is started only if its share and those of the others fit into what is left.
    fn check_budget(&self) {
        let (Some(left), reserved) = (self.run.budget_left(), self.reserved()) else { return };
        assert!(reserved <= left, "{reserved} are reserved, and {left} are left");
    }

    fn perform(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Prepare { agent } if self.holds_prepare => self.unprepared.push(agent),
                Effect::Prepare { agent } => {
                    self.sessions += 1;
                    let fresh = session(&format!("s{}", self.sessions));
                    let preparation = prepare(&self.run, &agent, &self.world, fresh);
                    self.unknown_variables.extend(preparation.unknown_variables);
                    self.input(preparation.input);
                }
                Effect::Launch { id, step, cwd, launch } => {
                    self.check_launch_elsewhere(&id, &step, &launch);
                    let child = Child { step: *step, cwd, launch };
                    assert!(self.children.insert(id, child).is_none(), "started twice");
                }
                Effect::Reattach { id, step } => {
                    assert_eq!(self.children[&id].step, *step, "the intent is what was started");
                }
                Effect::Wait { agent, delay_ms } => {
                    self.waits.insert(agent, delay_ms);
                }
                Effect::Ask { id, question, .. } => {
                    assert!(self.questions.insert(id, *question).is_none(), "asked twice");
                }
                Effect::Tell { step, message } => {
                    assert!(self.children.contains_key(&step), "only a running turn is told");
                    self.told.insert(message.id, step);
                }
                Effect::MakeWorktree { agent, plan } => {
                    // Asked for again when a usage limit is lifted.
                    self.making.insert(agent.clone(), *plan);
                    if !self.holds_git {
                        self.make_worktree(agent.as_str());
                    }
                }
                Effect::SaveWorktree { agent, .. } => {
                    assert!(self.saving.insert(agent.clone()), "saved twice");
                    if !self.holds_git {
                        self.save_worktree(agent.as_str(), Some("c2"), None);
                    }
                }
                Effect::WaitForUsageLimit { .. } => self.waits_for_usage_limit = true,
            }
        }
    }

    /// The worktree of `name` is made, as the engine would.
    pub(crate) fn make_worktree(&mut self, name: &str) {
        let agent = agent(name);
        let plan = self.making.remove(&agent).expect("it is to be made");
        let own = plan.name_for(name);
        let path = format!("/worktrees/{own}");
        let cwd = format!("{path}/{}", plan.inside).trim_end_matches('/').to_owned();
        let worktree = Worktree {
            path,
            branch: format!("raymond/r/{own}"),
            repository: plan.repository,
            base: plan.commit,
            head: None,
            problem: None,
        };
        self.input(Input::WorktreeMade {
            agent,
            made: Ok(MadeWorktree { worktree: Box::new(worktree), cwd }),
        });
    }

    pub(crate) fn save_worktree(&mut self, name: &str, head: Option<&str>, problem: Option<&str>) {
        assert!(self.saving.remove(&agent(name)), "it is to be saved");
        let (head, problem) = (head.map(str::to_owned), problem.map(str::to_owned));
        let saved = SavedWork { head, problem };
        self.input(Input::WorktreeSaved { agent: agent(name), saved });
    }

    /// What a machine that only carries out steps knows of the run.
    fn elsewhere(&self, agent: &AgentId) -> Run {
        let json = serde_json::to_string(&self.run.excerpt(agent)).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    /// Another machine, which knows of the run only that the step is intended, gives the child the same.
    fn check_launch_elsewhere(&self, id: &StepId, step: &Step, launch: &Launch) {
        let planned = match &step.action {
            Action::Turn(turn) => turn.session.id().clone(),
            Action::Script { .. } => session("none"),
        };
        let input = prepare(&self.elsewhere(&id.agent), &id.agent, &self.world, planned).input;
        let Input::Prepared { prepared: Ok(Prepared::Start { launch: far, .. }), .. } = input
        else {
            panic!("{id} is not prepared elsewhere: {input:?}");
        };
        assert_eq!(far, *launch, "{id}");
    }

    fn check(&self) {
        assert_eq!(replay(self.journal.clone()).unwrap(), self.run, "replay differs");
        let summary = Summary::BEGUN.after(&self.journal);
        let halts = self.run.halt.is_some();
        let own = Summary { status: self.run.status, cost_usd: self.run.total_cost_usd, halts };
        assert_eq!(summary, own, "the summary differs");
        let json = Snapshot::new(&self.run, 42).to_json().unwrap();
        assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), self.run, "{json}");
        assert!(self.run.status == Status::Running || self.children.is_empty(), "ended too early");
    }
}
