//! What a run did, for display in a diagram: states entered, transitions followed, failures.

use std::collections::BTreeMap;

use crate::{
    graph::EdgeKind,
    id::{AgentId, StateName},
    machine::{Accounts, Record, ReplayError, Run, Via, apply},
    money::Usd,
    policy::Transition,
};

use super::LinkKind;

/// What a run did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// What it did in each state.
    pub visits: BTreeMap<StateName, StateTotals>,
    /// How often each transition was followed.
    pub ways: BTreeMap<TakenWay, u64>,
}

/// What a run did in a state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateTotals {
    /// The number of steps that ended there.
    pub steps: u64,
    /// Their total cost.
    pub cost_usd: Usd,
    /// Their total duration.
    pub duration_ms: u64,
    /// How often an agent failed there.
    pub failures: u64,
}

/// A transition that was followed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TakenWay {
    /// The state that it leaves.
    pub from: StateName,
    /// The state that it enters; `None` is the end of the agent.
    pub to: Option<StateName>,
    /// Its kind.
    pub kind: LinkKind,
    /// Whether a worker followed it.
    pub is_worker: bool,
}

impl Trace {
    /// Replays `records`, the records of a run's journal.
    pub fn of<'r>(records: impl IntoIterator<Item = &'r Record>) -> Result<Self, ReplayError> {
        let mut records = records.into_iter();
        let mut run = match records.next() {
            Some(Record::Started(started)) => Run::new(started),
            Some(_) => return Err(ReplayError::NoStart),
            None => return Err(ReplayError::Empty),
        };
        let mut trace = Self::default();
        let mut accounts = Accounts::default();
        for (number, record) in (2..).zip(records) {
            accounts.add(record);
            let from = record.agent().and_then(|agent| state_of(&run, agent));
            apply(&mut run, record).map_err(|source| ReplayError::Unfit { number, source })?;
            if let Some(from) = from {
                trace.add(&run, from, record);
            }
        }
        Ok(trace.with(&accounts))
    }

    /// The same with the totals of each state. Failures are its own.
    #[must_use]
    pub fn with(mut self, accounts: &Accounts) -> Self {
        for (state, account) in &accounts.by_state {
            let visit = self.visits.entry(state.clone()).or_default();
            visit.steps = account.steps;
            visit.cost_usd = account.cost_usd;
            visit.duration_ms = account.duration_ms;
        }
        self
    }

    /// Adds one record, for a reader that replays a run itself. `run` is the run after it, `from` the agent's state
    /// before it.
    pub fn add(&mut self, run: &Run, from: StateName, record: &Record) {
        match record {
            Record::Followed { agent, transition, via, workers, .. } => {
                let is_worker = *agent != AgentId::main();
                let mut take = |to: Option<StateName>, kind| {
                    let way = TakenWay { from: from.clone(), to, kind, is_worker };
                    *self.ways.entry(way).or_default() += 1;
                };
                for worker in workers {
                    take(state_of(run, worker), LinkKind::Way(EdgeKind::Fork));
                }
                let kind = match transition {
                    Transition::Goto { .. } if *via == Via::Answer => LinkKind::Way(EdgeKind::Ask),
                    Transition::Goto { .. } => LinkKind::Way(EdgeKind::Goto),
                    Transition::Reset { .. } => LinkKind::Way(EdgeKind::Reset),
                    Transition::Call { .. } => LinkKind::Way(EdgeKind::Call),
                    Transition::Function { .. } => LinkKind::Way(EdgeKind::Function),
                    Transition::Fork { .. } => LinkKind::Way(EdgeKind::Next),
                    // The way is gone when the workers have been joined.
                    Transition::Join(_) => return,
                    Transition::Ask(_) => LinkKind::Way(EdgeKind::Ask),
                    Transition::Result { .. } => LinkKind::Result,
                };
                take(state_of(run, agent), kind);
            }
            Record::Joined { agent, .. } => {
                let is_worker = *agent != AgentId::main();
                let kind = LinkKind::Way(EdgeKind::Join);
                let way = TakenWay { from, to: state_of(run, agent), kind, is_worker };
                *self.ways.entry(way).or_default() += 1;
            }
            Record::Failed { .. } => self.visits.entry(from).or_default().failures += 1,
            Record::Started(_)
            | Record::Intended { .. }
            | Record::Queued { .. }
            | Record::Called { .. }
            | Record::Placed { .. }
            | Record::WorktreeMade { .. }
            | Record::WorktreeSaved { .. }
            | Record::Ended { .. }
            | Record::Overridden { .. }
            | Record::Asked { .. }
            | Record::Answered { .. }
            | Record::Reminded { .. }
            | Record::Evaluating { .. }
            | Record::Retried { .. }
            | Record::Woke { .. }
            | Record::Halted { .. }
            | Record::UsageLimited { .. }
            | Record::AgentStopped { .. }
            | Record::UsageLimitLifted
            | Record::Finished { .. }
            | Record::Resumed { .. }
            | Record::Told { .. }
            | Record::Heard { .. }
            | Record::LimitsChanged { .. }
            | Record::Rewound { .. } => {}
        }
    }
}

impl StateTotals {
    /// A summary for the user: how often, how long and at what cost.
    pub fn label(&self) -> String {
        let cost = (self.cost_usd > Usd::ZERO).then(|| format!(", {}", self.cost_usd));
        let failed = if self.failures > 0 { ", failed" } else { "" };
        let (steps, duration) = (self.steps, duration(self.duration_ms));
        format!("{steps}×, {duration}{}{failed}", cost.unwrap_or_default())
    }
}

fn duration(ms: u64) -> String {
    let seconds = ms / 1000;
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0) => format!("{ms} ms"),
        (0, 0, seconds) => format!("{seconds}.{} s", ms % 1000 / 100),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

fn state_of(run: &Run, agent: &AgentId) -> Option<StateName> {
    let agent = run.agents.get(agent).filter(|agent| !agent.is_ending())?;
    Some(agent.current_state.clone())
}
