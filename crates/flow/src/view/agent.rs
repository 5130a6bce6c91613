//! What is shown of an agent beyond what the run knows.

use crate::{
    id::{AgentId, StateName},
    machine::Agent,
    money::Usd,
};

use super::Came;

/// Facts about an agent that lives or has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentFacts {
    /// Birth order, from 0.
    pub born: u64,
    /// The agent that forked it.
    pub parent: Option<AgentId>,
    /// The state that it is in, or was in last.
    pub(super) state: Option<StateName>,
    /// The targets of the calls and functions that it is in.
    pub(super) calls: Vec<StateName>,
    /// Since when it does what it does, in milliseconds since 1970.
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

impl AgentFacts {
    pub(super) fn of(agent: &Agent) -> Self {
        let (born, parent) = (agent.born, agent.parent.clone());
        let state = Some(agent.current_state.clone());
        Self { born, parent, state, ..Self::default() }
    }
}
