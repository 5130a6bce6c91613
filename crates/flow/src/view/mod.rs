//! The read model: everything that is shown of a run, folded from its records one at a time.
//!
//! A [`Run`] is what the machine needs to decide. A [`RunView`] is the rest that people and programs see: the steps,
//! their costs, the agents that have ended, the ways that were taken. The terminal, `--json`, the server, diagrams
//! and summaries show the two of them; none of these folds records. A record costs the same however long the run is, and
//! memory is bounded: a few hundred bytes a step, however long prompts and answers are.

mod account;
mod agent;
mod shape;
mod shown;
mod spending;
mod story;
mod trace;

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    diagram::LinkKind,
    graph::EdgeKind,
    id::{AgentId, StateName, StepId},
    machine::{Record, Run, Session, Spent, Started, Step, Via},
    money::Usd,
    policy::Transition,
    text::beginning,
};

pub use account::Accounts;
pub use agent::{AgentFacts, Ended};
pub use shape::{Described, Shape, Shaped};
pub use shown::{Account, Came, StepFacts, described};
pub use spending::{Carried, Spending, Spendings, Way};
pub use story::Story;
pub use trace::{StateTotals, TakenWay, Trace};

/// Costs are added up by quarters of an hour: the days of every time zone begin with one.
const QUARTER_MS: u64 = 15 * 60 * 1000;
/// How many agents that have ended are remembered one by one, the latest.
pub const ENDED_MAX: usize = 1_000;
/// How many steps are remembered one by one, the latest: some 400 bytes each.
const STEPS_MAX: usize = 200_000;
/// How much is remembered of an error or a result.
const TEXT_CHARS_MAX: usize = 400;
/// How many uses of tools that were not allowed are remembered, the first.
const DENIALS_MAX: usize = 10_000;

/// Everything that is shown of a run beyond the [`Run`].
#[derive(Clone, Debug)]
pub struct RunView {
    /// With what it began; `None` if its beginning was not seen.
    pub started: Option<Box<Started>>,
    /// What it cost.
    pub accounts: Accounts,
    /// Where the tokens of its turns went.
    pub turns: Spendings,
    /// What it did, for its graph.
    pub trace: Trace,
    /// Facts about every agent that lives, and about the latest that ended.
    pub agents: BTreeMap<AgentId, AgentFacts>,
    /// The variables of the agents that were forked with some, also of those that have ended.
    pub attributes: BTreeMap<AgentId, BTreeMap<String, String>>,
    /// The beginnings of the inputs of those that were forked without any.
    pub inputs: BTreeMap<AgentId, String>,
    /// The latest steps, in the order in which they began.
    pub steps: Vec<StepFacts>,
    /// How many steps came before those.
    pub forgotten: usize,
    /// How many steps are remembered at most.
    steps_max: usize,
    /// The latest step of each agent: how many came before it.
    latest: BTreeMap<AgentId, usize>,
    /// Agents that have ended, in that order.
    ended: Vec<AgentId>,
    /// When it was last started or resumed, in milliseconds since 1970.
    pub opened_at: u64,
    /// When the last decision was made.
    pub last_at: Option<u64>,
    /// When the run ended, or its agents began to wait for a usage limit.
    pub rests_since: Option<u64>,
    /// How many uses of tools were not allowed.
    pub denied: u64,
    /// The first of them: by which agent, and what.
    pub denials: Vec<(AgentId, String)>,
    /// The ids of the messages that people have sent to agents.
    pub told: BTreeSet<String>,
    /// Costs by quarter of an hour since 1970.
    costs: BTreeMap<u64, Usd>,
}

/// When a decision was made, and where its records are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// In milliseconds since 1970.
    pub ms: u64,
    /// The byte of the journal at which the decision begins.
    pub line: u64,
    /// The byte after it.
    pub offset: u64,
}

impl Default for RunView {
    fn default() -> Self {
        Self::remembering(STEPS_MAX)
    }
}

impl RunView {
    /// A run of which nothing was seen yet. At most so many steps are remembered one by one.
    pub fn remembering(steps_max: usize) -> Self {
        Self {
            started: None,
            accounts: Accounts::default(),
            turns: Spendings::default(),
            trace: Trace::default(),
            agents: BTreeMap::new(),
            attributes: BTreeMap::new(),
            inputs: BTreeMap::new(),
            steps: Vec::new(),
            forgotten: 0,
            steps_max,
            latest: BTreeMap::new(),
            ended: Vec::new(),
            opened_at: 0,
            last_at: None,
            rests_since: None,
            denied: 0,
            denials: Vec::new(),
            told: BTreeSet::new(),
            costs: BTreeMap::new(),
        }
    }

    /// A run of which nothing was seen until now.
    pub fn of(run: &Run, at_ms: u64) -> Self {
        let at = At { ms: at_ms, ..At::default() };
        let mut view = Self { opened_at: at_ms, ..Self::default() };
        for agent in run.agents.values() {
            view.enter(&agent.id, run, at);
            if let Some(step) = agent.phase.step() {
                view.begin(&agent.id, step, at);
            }
        }
        view
    }

    /// Adds the next record. `run` is the run with it.
    pub fn add(&mut self, record: &Record, run: &Run, at: At) {
        self.last_at = Some(at.ms);
        let known = record.agent().and_then(|agent| self.agents.get(agent));
        let from = known.and_then(|facts| facts.state.clone());
        match record {
            Record::Started(started) => {
                self.started = Some(started.clone());
                self.opened_at = at.ms;
                self.enter(&AgentId::main(), run, at);
            }
            Record::Intended { agent, step } => {
                self.begin(agent, step, at);
                self.about(agent, at).waits = None;
            }
            Record::Ended { agent, number: _, spent } => self.end(agent, spent, at),
            Record::Followed { agent, transition, via, workers, .. } => {
                self.follow((agent, transition, *via), workers, from.as_ref(), run, at);
            }
            Record::Joined { agent, .. } => self.joined(agent, from.as_ref(), run, at),
            Record::Overridden { agent, .. } => self.close(agent, "overridden", None, at),
            Record::Reminded { agent, problem, .. } => {
                self.close(agent, "reminded", Some(problem), at);
            }
            Record::Asked { agent, question, .. } => {
                self.close(agent, "asked", Some(&question.text), at);
            }
            Record::Evaluating { agent, .. } => self.close(agent, "evaluating", None, at),
            Record::Retried { agent, why, delay_ms, .. } => {
                self.close(agent, "retried", Some(why), at);
                let until = at.ms.saturating_add(*delay_ms);
                self.about(agent, at).waits = Some((until, why.clone()));
            }
            Record::Failed { agent, error, .. } => {
                if let Some(from) = &from {
                    self.trace.visits.entry(from.clone()).or_default().failures += 1;
                }
                self.close(agent, "failed", Some(error), at);
            }
            Record::Answered { agent, .. }
            | Record::Queued { agent }
            | Record::Called { agent }
            | Record::Placed { agent }
            | Record::WorktreeMade { agent, .. }
            | Record::Woke { agent } => self.about(agent, at).waits = None,
            Record::WorktreeSaved { agent, .. } => {
                self.leave_worktree(agent, from.as_ref(), run, at);
            }
            Record::UsageLimited { .. } | Record::Finished { .. } | Record::Rewound { .. } => {
                self.rests_since = Some(at.ms);
            }
            Record::UsageLimitLifted => self.go_on(at),
            Record::Resumed { .. } => {
                self.opened_at = at.ms;
                self.go_on(at);
            }
            Record::Told { message, .. } => drop(self.told.insert(message.id.clone())),
            Record::Halted { .. }
            | Record::AgentStopped { .. }
            | Record::LimitsChanged { .. }
            | Record::Heard { .. } => {}
        }
        self.locate(record.agent(), run);
    }

    /// Remembers the state of an agent, for the next record about it.
    fn locate(&mut self, agent: Option<&AgentId>, run: &Run) {
        if let Some(agent) = agent
            && let Some(facts) = self.agents.get_mut(agent)
            && let Some(now) = run.agents.get(agent)
            && facts.state.as_ref() != Some(&now.current_state)
        {
            facts.state = Some(now.current_state.clone());
        }
    }

    /// The agents take up their work again.
    fn go_on(&mut self, at: At) {
        self.rests_since = None;
        for facts in self.agents.values_mut().filter(|facts| facts.ended.is_none()) {
            (facts.since_ms, facts.offset) = (at.ms, at.offset);
        }
    }

    fn enter(&mut self, agent: &AgentId, run: &Run, at: At) {
        if let Some(born) = run.agents.get(agent) {
            if !born.fork_attributes.is_empty() {
                self.attributes.insert(agent.clone(), born.fork_attributes.clone());
            }
            self.agents.insert(agent.clone(), AgentFacts::of(born));
        }
        self.about(agent, at);
    }

    /// The facts about an agent, which are about to change.
    fn about(&mut self, agent: &AgentId, at: At) -> &mut AgentFacts {
        let facts = self.agents.entry(agent.clone()).or_default();
        (facts.since_ms, facts.offset) = (at.ms, at.offset);
        facts
    }

    fn begin(&mut self, agent: &AgentId, step: &Step, at: At) {
        if self.steps.len() >= self.steps_max {
            self.steps.drain(..self.steps_max / 2);
            self.forgotten += self.steps_max / 2;
        }
        let index = self.forgotten + self.steps.len();
        self.latest.insert(agent.clone(), index);
        self.steps.push(StepFacts::new(agent, step, index, at));
    }

    fn end(&mut self, agent: &AgentId, spent: &Spent, at: At) {
        self.denied += spent.denied.len() as u64;
        let room = DENIALS_MAX.saturating_sub(self.denials.len());
        let denials = spent.denied.iter().take(room).map(|what| (agent.clone(), what.clone()));
        self.denials.extend(denials);
        *self.costs.entry(at.ms / QUARTER_MS).or_default() += spent.cost_usd;
        self.about(agent, at).denied += spent.denied.len() as u64;
        let latest = self.latest.get(agent).and_then(|index| index.checked_sub(self.forgotten));
        let step = latest.and_then(|index| self.steps.get_mut(index));
        self.accounts.add(agent, step.as_ref().map(|step| &step.state), spent);
        let Some(step) = step else { return };
        step.finish(spent, at);
        self.trace.ended(&step.state, spent);
        if let Some(plan) = step.plan.take() {
            let calls = self.agents.get(agent).map_or(&[][..], |facts| &facts.calls);
            self.turns.add((agent, calls), &step.state, &plan, spent);
        }
    }

    fn follow(
        &mut self,
        (agent, transition, via): (&AgentId, &Transition, Via),
        workers: &[AgentId],
        from: Option<&StateName>,
        run: &Run,
        at: At,
    ) {
        for worker in workers {
            self.fork((agent, worker), from, run, at);
        }
        let to = entered(run, agent);
        let text = if let Transition::Result { payload } = transition {
            Some(payload.beginning(TEXT_CHARS_MAX))
        } else {
            None
        };
        if let Some(step) = self.latest_step(agent) {
            (step.end, step.tag) = (Some("followed"), Some(transition.kind().name()));
            (step.to, step.worker, step.text) =
                (to.clone(), workers.first().cloned(), text.clone());
            step.offset = at.offset;
        }
        self.about(agent, at);
        let Some(from) = from else { return };
        if let Some(kind) = trace::link_kind(transition, via) {
            self.go(agent, (from, to), kind);
        }
        self.walk(agent, transition, from, run);
        if !run.agents.contains_key(agent) {
            self.leave(agent, at.ms, from, text.unwrap_or_default());
        }
    }

    /// Follows the calls of an agent, and what it carries along in its session.
    fn walk(&mut self, agent: &AgentId, transition: &Transition, from: &StateName, run: &Run) {
        let Some(facts) = self.agents.get_mut(agent) else { return };
        match transition {
            Transition::Call { target, .. } | Transition::Function { target, .. } => {
                facts.calls.push(target.clone());
            }
            Transition::Result { .. } => drop(facts.calls.pop()),
            Transition::Reset { .. } => facts.calls.clear(),
            Transition::Goto { target, .. } if facts.calls.is_empty() => {
                let session = run.agents.get(agent).map(|agent| &agent.session);
                if let Some(Session::Open(session)) = session {
                    self.turns.carry(session, from, target);
                }
            }
            Transition::Goto { .. }
            | Transition::Fork { .. }
            | Transition::Join(_)
            | Transition::Ask(_) => {}
        }
    }

    /// An agent took a way.
    fn go(&mut self, agent: &AgentId, (from, to): (&StateName, Option<StateName>), kind: LinkKind) {
        if let (Some(to), Some(facts)) = (&to, self.agents.get_mut(agent)) {
            let (from, to) = (from.clone(), to.clone());
            facts.came = Some(Came { from, to, kind: kind.name() });
        }
        self.trace.take(agent, (from, to), kind);
    }

    /// Remembers what a worker is about that has no variables.
    fn keep_input(&mut self, worker: &AgentId, run: &Run) {
        let worker = run.agents.get(worker).filter(|worker| worker.fork_attributes.is_empty());
        if let Some((id, input)) = worker.and_then(|it| Some((&it.id, it.input.as_ref()?))) {
            self.inputs.insert(id.clone(), beginning(input, TEXT_CHARS_MAX));
        }
    }

    /// An agent in the state `from` forked a worker.
    fn fork(
        &mut self,
        (parent, worker): (&AgentId, &AgentId),
        from: Option<&StateName>,
        run: &Run,
        at: At,
    ) {
        self.enter(worker, run, at);
        self.keep_input(worker, run);
        let Some(from) = from else { return };
        let (kind, to) = (LinkKind::Way(EdgeKind::Fork), entered(run, worker));
        self.trace.take(parent, (from, to.clone()), kind);
        if let (Some(to), Some(facts)) = (to, self.agents.get_mut(worker)) {
            facts.came = Some(Came { from: from.clone(), to, kind: kind.name() });
        }
    }

    fn joined(&mut self, agent: &AgentId, from: Option<&StateName>, run: &Run, at: At) {
        self.about(agent, at);
        if let Some(from) = from {
            self.go(agent, (from, entered(run, agent)), LinkKind::Way(EdgeKind::Join));
        }
    }

    /// The work of a worker is saved, so it ends; one that has failed stays.
    fn leave_worktree(&mut self, agent: &AgentId, from: Option<&StateName>, run: &Run, at: At) {
        self.about(agent, at).waits = None;
        if let (false, Some(from)) = (run.agents.contains_key(agent), from) {
            let result = self.latest_step(agent).and_then(|step| step.text.clone());
            let result = result.unwrap_or_default();
            self.leave(agent, at.ms, from, result);
        }
    }

    /// An agent has ended. Only the latest of them are remembered.
    fn leave(&mut self, agent: &AgentId, at_ms: u64, state: &StateName, result: String) {
        let account = self.accounts.by_agent.get(agent).cloned().unwrap_or_default();
        if let Some(facts) = self.agents.get_mut(agent) {
            facts.ended = Some(Ended {
                at_ms,
                state: state.clone(),
                result,
                cost_usd: account.cost_usd,
                steps: u32::try_from(account.steps).unwrap_or(u32::MAX),
            });
        }
        self.ended.push(agent.clone());
        self.latest.remove(agent);
        if self.ended.len() > 2 * ENDED_MAX {
            for agent in self.ended.drain(..ENDED_MAX) {
                self.agents.remove(&agent);
            }
        }
    }

    /// What came of the latest step of an agent, unless that is known.
    fn close(&mut self, agent: &AgentId, word: &'static str, text: Option<&String>, at: At) {
        let text = text.map(|text| beginning(text, TEXT_CHARS_MAX));
        if let Some(step) = self.latest_step(agent).filter(|step| step.end.is_none()) {
            (step.end, step.text, step.offset) = (Some(word), text, at.offset);
        }
        self.about(agent, at).waits = None;
    }

    fn latest_step(&mut self, agent: &AgentId) -> Option<&mut StepFacts> {
        let index = self.latest.get(agent)?.checked_sub(self.forgotten)?;
        self.steps.get_mut(index)
    }

    /// The step in which an agent has failed: its latest, if that has ended and led to nothing.
    pub fn failed_step(&self, agent: &AgentId) -> Option<&StepFacts> {
        let index = self.latest.get(agent)?.checked_sub(self.forgotten)?;
        let step = self.steps.get(index)?;
        (step.ended_at.is_some() && step.end != Some("followed")).then_some(step)
    }

    /// The facts about a step.
    pub fn step(&self, id: &StepId) -> Option<&StepFacts> {
        self.steps.iter().find(|step| step.number == id.number && step.agent == id.agent)
    }

    /// What was paid from this time on, in milliseconds since 1970.
    pub fn cost_since(&self, at_ms: u64) -> Usd {
        self.costs.range(at_ms.div_ceil(QUARTER_MS)..).map(|(_, cost)| *cost).sum()
    }
}

/// The state that an agent has entered; `None` if it has ended or is about to.
fn entered(run: &Run, agent: &AgentId) -> Option<StateName> {
    let agent = run.agents.get(agent).filter(|agent| !agent.is_ending())?;
    Some(agent.current_state.clone())
}

/// The steps that run: turns whose output can be watched, and scripts.
pub fn running(run: &Run) -> impl Iterator<Item = (StepId, &Step)> {
    run.agents.values().filter_map(|agent| {
        let step = agent.phase.step()?;
        Some((StepId { agent: agent.id.clone(), number: step.number }, step))
    })
}
