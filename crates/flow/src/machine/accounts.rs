//! Adds up costs by agent, state, model and version of the coding agent from the records of a run.

use std::collections::BTreeMap;

use crate::{
    id::{AgentId, StateName},
    money::Usd,
};

use super::{Record, Spent, Tokens};

/// The total cost of some steps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// In money.
    pub cost_usd: Usd,
    /// In tokens.
    pub tokens: Tokens,
    /// How many steps.
    pub steps: u64,
    /// The sum of their durations.
    pub duration_ms: u64,
}

impl Account {
    pub(super) fn add(&mut self, spent: &Spent) {
        self.cost_usd += spent.cost_usd;
        self.tokens += spent.tokens;
        self.steps += 1;
        self.duration_ms = self.duration_ms.saturating_add(spent.duration_ms);
    }
}

/// The costs of a run: the total, and by agent, state, model and version of the coding agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounts {
    /// All steps.
    pub total: Account,
    /// By agent, including agents that have ended.
    pub by_agent: BTreeMap<AgentId, Account>,
    /// By state.
    pub by_state: BTreeMap<StateName, Account>,
    /// By model, as the coding agent reports it; scripts have none.
    pub by_model: BTreeMap<String, Account>,
    /// By coding agent and its version, where that is known.
    pub by_version: BTreeMap<String, Account>,
    /// The state of the running step of each agent.
    under_way: BTreeMap<AgentId, StateName>,
}

impl Accounts {
    /// The accounts after `records`, from the beginning of a run.
    pub fn of<'a>(records: impl IntoIterator<Item = &'a Record>) -> Self {
        let mut accounts = Self::default();
        for record in records {
            accounts.add(record);
        }
        accounts
    }

    /// Adds what the next record says.
    pub fn add(&mut self, record: &Record) {
        match record {
            Record::Intended { agent, step } => {
                self.under_way.insert(agent.clone(), step.state.clone());
            }
            Record::Ended { agent, spent, .. } => {
                self.total.add(spent);
                self.by_agent.entry(agent.clone()).or_default().add(spent);
                if let Some(state) = self.under_way.remove(agent) {
                    self.by_state.entry(state).or_default().add(spent);
                }
                if let Some(model) = &spent.model {
                    self.by_model.entry(model.clone()).or_default().add(spent);
                }
                if let Some(version) = &spent.version {
                    self.by_version.entry(version.clone()).or_default().add(spent);
                }
            }
            Record::Started(_)
            | Record::Queued { .. }
            | Record::Told { .. }
            | Record::Heard { .. }
            | Record::Called { .. }
            | Record::Joined { .. }
            | Record::Placed { .. }
            | Record::WorktreeMade { .. }
            | Record::WorktreeSaved { .. }
            | Record::Followed { .. }
            | Record::Overridden { .. }
            | Record::Asked { .. }
            | Record::Answered { .. }
            | Record::Reminded { .. }
            | Record::Evaluating { .. }
            | Record::Retried { .. }
            | Record::Woke { .. }
            | Record::Failed { .. }
            | Record::Halted { .. }
            | Record::UsageLimited { .. }
            | Record::AgentStopped { .. }
            | Record::UsageLimitLifted
            | Record::Finished { .. }
            | Record::Resumed { .. }
            | Record::LimitsChanged { .. }
            | Record::Rewound { .. } => {}
        }
    }
}
