//! What a run did, for display in a diagram: states entered, transitions followed, failures.

use std::collections::BTreeMap;

use crate::{
    diagram::LinkKind,
    graph::EdgeKind,
    id::{AgentId, StateName},
    machine::{Spent, Via},
    money::Usd,
    policy::Transition,
};

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
    /// Adds a way that `agent` took.
    pub(super) fn take(
        &mut self,
        agent: &AgentId,
        (from, to): (&StateName, Option<StateName>),
        kind: LinkKind,
    ) {
        let is_worker = *agent != AgentId::main();
        let way = TakenWay { from: from.clone(), to, kind, is_worker };
        *self.ways.entry(way).or_default() += 1;
    }

    /// Adds a step that has ended.
    pub(super) fn ended(&mut self, state: &StateName, spent: &Spent) {
        let visit = self.visits.entry(state.clone()).or_default();
        visit.steps += 1;
        visit.cost_usd += spent.cost_usd;
        visit.duration_ms = visit.duration_ms.saturating_add(spent.duration_ms);
    }
}

/// The kind of the line that a transition takes; `None` for a join, whose way is gone when the workers have been joined.
pub(super) fn link_kind(transition: &Transition, via: Via) -> Option<LinkKind> {
    Some(LinkKind::Way(match transition {
        Transition::Goto { .. } if via == Via::Answer => EdgeKind::Ask,
        Transition::Goto { .. } => EdgeKind::Goto,
        Transition::Reset { .. } => EdgeKind::Reset,
        Transition::Call { .. } => EdgeKind::Call,
        Transition::Function { .. } => EdgeKind::Function,
        Transition::Fork { .. } => EdgeKind::Next,
        Transition::Join(_) => return None,
        Transition::Ask(_) => EdgeKind::Ask,
        Transition::Result { .. } => return Some(LinkKind::Result),
    }))
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
