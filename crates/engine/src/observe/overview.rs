//! Everything about a run that is shown to people, kept up to date from its journal in bounded memory: a few hundred
//! bytes a step, however long prompts and answers are. For a process that does not own the run.

use std::collections::BTreeMap;

use raymond_flow::{
    diagram::Trace,
    id::{AgentId, RunId, StateName, StepId},
    machine::{Accounts, Action, Phase, Record, Run, Spent, Started, Step, Tokens},
    money::Usd,
    policy::Transition,
    text::beginning,
};

use crate::{
    observe::follower::{Follower, Read},
    run::{
        error::{EngineError, io_error},
        events::{Before, Event},
    },
    store::{journal::Journal, layout::RunFiles},
};

/// Costs are added up by quarters of an hour: the days of every time zone begin with one.
const QUARTER_MS: u64 = 15 * 60 * 1000;
/// How many agents that have ended are remembered one by one, the latest.
const ENDED_MAX: usize = 1_000;
/// How many steps are remembered one by one, the latest: some 400 bytes each.
const STEPS_MAX: usize = if cfg!(test) { 1_000 } else { 200_000 };
/// How much is remembered of an error or a result.
const TEXT_CHARS_MAX: usize = 400;
/// How many denied uses of tools are remembered of one step.
const DENIED_MAX: usize = 20;

/// A run as far as its journal was read.
#[derive(Debug)]
pub struct Overview {
    follower: Follower,
    /// With what it began.
    pub started: Option<Box<Started>>,
    /// What it cost.
    pub accounts: Accounts,
    /// What it did, for its graph. The totals of states are in `accounts`.
    pub trace: Trace,
    /// Facts about every agent that lives, and about the latest that ended.
    pub agents: BTreeMap<AgentId, AgentFacts>,
    /// The latest steps, in the order in which they began.
    pub steps: Vec<StepFacts>,
    /// How many steps came before those.
    pub forgotten: usize,
    /// The latest step of each agent: how many came before it.
    latest: BTreeMap<AgentId, usize>,
    /// Agents that have ended, in that order.
    ended: Vec<AgentId>,
    /// When the last decision was made, in milliseconds since 1970.
    pub last_at: Option<u64>,
    /// When the run ended, or its agents began to wait for a usage limit.
    pub rests_since: Option<u64>,
    /// How many uses of tools were not allowed.
    pub denied: u64,
    /// Costs by quarter of an hour since 1970.
    costs: BTreeMap<u64, Usd>,
    /// Why the rest of the journal cannot be read.
    pub problem: Option<String>,
}

/// What the journal tells of an agent beyond what the run knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFacts {
    /// Birth order, from 0.
    pub born: u64,
    /// The agent that forked it.
    pub parent: Option<AgentId>,
    /// The variables that it was forked with.
    pub attributes: BTreeMap<String, String>,
    /// Since when it is about what it is about, in milliseconds since 1970.
    pub since_ms: u64,
    /// Until when it waits before it tries again, and why.
    pub waits: Option<(u64, String)>,
    /// Its last transition.
    pub came: Option<Came>,
    /// How many uses of tools were not allowed.
    pub denied: u64,
    /// How it was left, if it has ended.
    pub ended: Option<Ended>,
    /// The journal up to which this is true.
    pub offset: u64,
}

/// An agent that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its last state.
    pub state: StateName,
    /// The beginning of its result.
    pub result: String,
    /// What it cost.
    pub cost_usd: Usd,
    /// How many steps it had.
    pub steps: u32,
}

/// A transition that an agent followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Came {
    /// The state that it left.
    pub from: StateName,
    /// The state that it entered.
    pub to: StateName,
    /// The kind of its link in a diagram.
    pub kind: &'static str,
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFacts {
    /// Which.
    pub id: StepId,
    /// Its state.
    pub state: StateName,
    /// Whether it is a turn of a coding agent, not a script.
    pub is_turn: bool,
    /// How often this work has been started, this time included.
    pub attempt: u32,
    /// When it was recorded, in milliseconds since 1970.
    pub started_ms: u64,
    /// When its end was recorded.
    pub ended_ms: Option<u64>,
    /// How long its process ran.
    pub duration_ms: Option<u64>,
    /// What it cost.
    pub cost_usd: Usd,
    /// Likewise.
    pub tokens: Tokens,
    /// On which model.
    pub model: Option<String>,
    /// By which version of which coding agent.
    pub version: Option<String>,
    /// Uses of tools that were not allowed.
    pub denied: Vec<String>,
    /// What came of it.
    pub end: Option<StepConclusion>,
    /// The byte of the journal at which its intent is.
    line: u64,
    /// The journal up to which this is true.
    pub offset: u64,
}

impl StepFacts {
    /// The byte of the journal at which the decision with its intent begins.
    pub fn line(&self) -> u64 {
        self.line
    }
}

/// What came of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepConclusion {
    /// In a word, as in `docs/api.md`.
    pub word: &'static str,
    /// The tag that was followed.
    pub tag: Option<&'static str>,
    /// The state that was entered.
    pub to: Option<StateName>,
    /// The agent that a fork started.
    pub worker: Option<AgentId>,
    /// Why, or the beginning of a result.
    pub text: Option<String>,
}

impl Overview {
    /// The run with these files, of which nothing was read yet.
    pub fn new(id: RunId, files: RunFiles) -> Self {
        Self {
            follower: Follower::new(id, files),
            started: None,
            accounts: Accounts::default(),
            trace: Trace::default(),
            agents: BTreeMap::new(),
            steps: Vec::new(),
            forgotten: 0,
            latest: BTreeMap::new(),
            ended: Vec::new(),
            last_at: None,
            rests_since: None,
            denied: 0,
            costs: BTreeMap::new(),
            problem: None,
        }
    }

    /// Reads what is new in the journal. If the journal was replaced, the run is read anew. What cannot be read is
    /// told by `problem`.
    pub fn refresh(&mut self) {
        if std::fs::metadata(self.files().journal.as_path())
            .is_ok_and(|journal| journal.len() < self.offset())
        {
            *self = Self::new(self.id().clone(), self.files().clone());
        }
        if let Err(error) = self.read() {
            if self.offset() > 0 && self.problem.is_none() {
                // Not the journal that it was, or damaged: what can be read of it from its beginning counts.
                let mut anew = Self::new(self.id().clone(), self.files().clone());
                let read = anew.read();
                *self = anew;
                self.problem = read.err().map(|error| chain(&error));
                return;
            }
            self.problem = Some(chain(&error));
        } else {
            self.problem = None;
        }
    }

    fn read(&mut self) -> Result<(), EngineError> {
        let empty = Follower::new(self.id().clone(), self.files().clone());
        let mut follower = std::mem::replace(&mut self.follower, empty);
        let read = follower.read(|read| self.add(read));
        self.follower = follower;
        read
    }

    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.follower.id
    }

    /// Its files.
    pub fn files(&self) -> &RunFiles {
        &self.follower.files
    }

    /// The run; `None` if nothing of its journal could be read.
    pub fn run(&self) -> Option<&Run> {
        self.follower.run().ok()
    }

    /// How many bytes of the journal were read.
    pub fn offset(&self) -> u64 {
        self.follower.offset()
    }

    /// Whether an orchestrator runs it. Ask before [`refresh`](Self::refresh).
    pub fn is_alive(&self) -> bool {
        self.follower.is_alive()
    }

    /// What was paid from this time on, in milliseconds since 1970.
    pub fn cost_since(&self, at_ms: u64) -> Usd {
        self.costs.range(at_ms.div_ceil(QUARTER_MS)..).map(|(_, cost)| *cost).sum()
    }

    /// The facts about a step, and its index.
    pub fn step(&self, id: &StepId) -> Option<(usize, &StepFacts)> {
        self.steps.iter().enumerate().find(|(_, step)| step.id == *id)
    }

    /// The intent of a step, from the journal.
    pub fn intent(&self, facts: &StepFacts) -> Result<Option<Step>, EngineError> {
        let path = &self.files().journal;
        let entry = Journal::entry_at(path, facts.line);
        let entry = entry.map_err(|source| io_error("read", path, source))?;
        let mut records = entry.into_iter().flat_map(|entry| entry.records);
        Ok(records.find_map(|record| match record {
            Record::Intended { agent, step }
                if agent == facts.id.agent && step.number == facts.id.number =>
            {
                Some(*step)
            }
            _ => None,
        }))
    }

    fn add(&mut self, read: &Read<'_>) {
        let Event::Recorded { record, before, .. } = &read.seen.event else { return };
        let (at_ms, before) = (read.seen.at_ms, before.as_deref());
        self.last_at = Some(at_ms);
        self.accounts.add(record);
        if let Some(before) = before {
            self.trace.add(read.run, before.state.clone(), record);
        }
        match record {
            Record::Started(started) => {
                self.started = Some(started.clone());
                self.enter(&AgentId::main(), read);
            }
            Record::Intended { agent, step } => {
                self.begin(agent, step, read);
                self.about(agent, read).waits = None;
            }
            Record::Ended { agent, number: _, spent } => self.end(agent, spent, read),
            Record::Followed { agent, transition, workers, .. } => {
                let from = before.map(|before| &before.state);
                for worker in workers {
                    self.fork(worker, from, read);
                }
                self.follow(agent, transition, workers.first(), before, read);
            }
            Record::Joined { agent, .. } => {
                let to = read.run.agents.get(agent).map(|agent| agent.current_state.clone());
                let from = before.map(|before| before.state.clone());
                let left = self.about(agent, read);
                left.came = from.zip(to).map(|(from, to)| Came { from, to, kind: "join" });
            }
            Record::Overridden { agent, .. } => self.close(agent, "overridden", None, read),
            Record::Reminded { agent, problem, .. } => {
                self.close(agent, "reminded", Some(problem), read);
            }
            Record::Asked { agent, question, .. } => {
                self.close(agent, "asked", Some(&question.text), read);
            }
            Record::Answered { agent, .. } => self.about(agent, read).waits = None,
            Record::Evaluating { agent, .. } => self.close(agent, "evaluating", None, read),
            Record::Retried { agent, why, delay_ms, .. } => {
                self.close(agent, "retried", Some(why), read);
                let until = at_ms.saturating_add(*delay_ms);
                self.about(agent, read).waits = Some((until, why.clone()));
            }
            Record::Failed { agent, error, .. } => self.close(agent, "failed", Some(error), read),
            Record::Queued { agent }
            | Record::Called { agent }
            | Record::Placed { agent }
            | Record::WorktreeMade { agent, .. }
            | Record::Woke { agent } => {
                self.about(agent, read).waits = None;
            }
            Record::WorktreeSaved { agent, .. } => self.leave_worktree(agent, before, read),
            Record::UsageLimited { .. } | Record::Finished { .. } | Record::Rewound { .. } => {
                self.rests_since = Some(at_ms);
            }
            Record::UsageLimitLifted | Record::Resumed { .. } => {
                self.rests_since = None;
                for facts in self.agents.values_mut().filter(|facts| facts.ended.is_none()) {
                    (facts.since_ms, facts.offset) = (at_ms, read.offset);
                }
            }
            Record::Halted { .. }
            | Record::AgentStopped { .. }
            | Record::LimitsChanged { .. }
            | Record::Told { .. }
            | Record::Heard { .. } => {}
        }
    }

    fn enter(&mut self, agent: &AgentId, read: &Read<'_>) {
        if let Some(born) = read.run.agents.get(agent) {
            let attributes = born.fork_attributes.clone();
            let (born, parent) = (born.born, born.parent.clone());
            let facts = AgentFacts { born, parent, attributes, ..AgentFacts::default() };
            self.agents.insert(agent.clone(), facts);
        }
        self.about(agent, read);
    }

    /// The facts about an agent, which are about to change.
    fn about(&mut self, agent: &AgentId, read: &Read<'_>) -> &mut AgentFacts {
        let facts = self.agents.entry(agent.clone()).or_default();
        (facts.since_ms, facts.offset) = (read.seen.at_ms, read.offset);
        facts
    }

    fn begin(&mut self, agent: &AgentId, step: &Step, read: &Read<'_>) {
        if self.steps.len() >= STEPS_MAX {
            self.steps.drain(..STEPS_MAX / 2);
            self.forgotten += STEPS_MAX / 2;
        }
        self.latest.insert(agent.clone(), self.forgotten + self.steps.len());
        self.steps.push(StepFacts {
            id: StepId { agent: agent.clone(), number: step.number },
            state: step.state.clone(),
            is_turn: matches!(step.action, Action::Turn(_)),
            attempt: step.attempt,
            started_ms: read.seen.at_ms,
            ended_ms: None,
            duration_ms: None,
            cost_usd: Usd::ZERO,
            tokens: Tokens::default(),
            model: None,
            version: None,
            denied: Vec::new(),
            end: None,
            line: read.line,
            offset: read.offset,
        });
    }

    fn end(&mut self, agent: &AgentId, spent: &Spent, read: &Read<'_>) {
        let denied = spent.denied.len() as u64;
        self.denied += denied;
        *self.costs.entry(read.seen.at_ms / QUARTER_MS).or_default() += spent.cost_usd;
        self.about(agent, read).denied += denied;
        if let Some(step) = self.latest_step(agent) {
            step.ended_ms = Some(read.seen.at_ms);
            // No process takes no time: 0 is what is recorded if nobody has measured it.
            step.duration_ms = Some(spent.duration_ms).filter(|ms| *ms > 0);
            step.cost_usd = spent.cost_usd;
            step.tokens = spent.tokens;
            step.model.clone_from(&spent.model);
            step.version.clone_from(&spent.version);
            step.denied = spent.denied.iter().take(DENIED_MAX).cloned().collect();
            step.offset = read.offset;
        }
    }

    fn follow(
        &mut self,
        agent: &AgentId,
        transition: &Transition,
        worker: Option<&AgentId>,
        before: Option<&Before>,
        read: &Read<'_>,
    ) {
        let after = read.run.agents.get(agent);
        let to = after.filter(|agent| !agent.is_ending()).map(|agent| agent.current_state.clone());
        let text = match transition {
            Transition::Result { payload } => Some(payload.beginning(TEXT_CHARS_MAX)),
            _ => None,
        };
        let tag = transition.kind().name();
        if let Some(step) = self.latest_step(agent) {
            let (to, worker, text) = (to.clone(), worker.cloned(), text.clone());
            step.end = Some(StepConclusion { word: "followed", tag: Some(tag), to, worker, text });
            step.offset = read.offset;
        }
        let from = before.map(|before| before.state.clone());
        let left = self.about(agent, read);
        let is_gone = !matches!(transition, Transition::Join(_));
        if let (Some(from), Some(to), true) = (from.clone(), to, is_gone) {
            // The diagram calls the way on after a fork `next`.
            let kind = if worker.is_some() { "next" } else { tag };
            left.came = Some(Came { from, to, kind });
        }
        if let (None, Some(from)) = (after, &from) {
            let (at_ms, result) = (read.seen.at_ms, text.unwrap_or_default());
            self.leave(agent, at_ms, from, result);
        }
    }

    /// A worker was forked by an agent in the state `from`.
    fn fork(&mut self, worker: &AgentId, from: Option<&StateName>, read: &Read<'_>) {
        self.enter(worker, read);
        let to = read.run.agents.get(worker).map(|agent| agent.current_state.clone());
        if let (Some(from), Some(to)) = (from.cloned(), to) {
            self.about(worker, read).came = Some(Came { from, to, kind: "fork" });
        }
    }

    /// The work of a worker is saved, so it ends; one that has failed stays.
    fn leave_worktree(&mut self, agent: &AgentId, before: Option<&Before>, read: &Read<'_>) {
        self.about(agent, read).waits = None;
        if let (None, Some(before)) = (read.run.agents.get(agent), before) {
            let end = self.latest_step(agent).and_then(|step| step.end.as_ref());
            let result = end.and_then(|end| end.text.clone()).unwrap_or_default();
            self.leave(agent, read.seen.at_ms, &before.state, result);
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
    fn close(
        &mut self,
        agent: &AgentId,
        word: &'static str,
        text: Option<&String>,
        read: &Read<'_>,
    ) {
        let text = text.map(|text| beginning(text, TEXT_CHARS_MAX));
        if let Some(step) = self.latest_step(agent) {
            let is_open = step.end.is_none();
            if is_open {
                step.end = Some(StepConclusion { word, tag: None, to: None, worker: None, text });
                step.offset = read.offset;
            }
        }
        self.about(agent, read).waits = None;
    }

    fn latest_step(&mut self, agent: &AgentId) -> Option<&mut StepFacts> {
        let index = self.latest.get(agent)?.checked_sub(self.forgotten)?;
        self.steps.get_mut(index)
    }

    /// The steps that run: turns whose output can be watched, and scripts.
    pub fn running(&self) -> impl Iterator<Item = (StepId, &Step)> {
        let agents = self.run().into_iter().flat_map(|run| run.agents.values());
        agents.filter_map(|agent| match &agent.phase {
            Phase::Running { step, .. } => {
                Some((StepId { agent: agent.id.clone(), number: step.number }, &**step))
            }
            _ => None,
        })
    }
}

fn chain(error: &EngineError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests;
