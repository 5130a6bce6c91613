//! What steps cost: the total, and by agent, state, model and version of the coding agent.

use std::collections::BTreeMap;

use crate::{
    id::{AgentId, StateName},
    machine::Spent,
};

use super::Account;

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
}

impl Accounts {
    /// Adds a step that has ended.
    pub(super) fn add(&mut self, agent: &AgentId, state: Option<&StateName>, spent: &Spent) {
        fn add<K: Ord + Clone>(to: &mut BTreeMap<K, Account>, key: Option<&K>, spent: &Spent) {
            let Some(key) = key else { return };
            match to.get_mut(key) {
                Some(account) => account.add(spent),
                None => to.entry(key.clone()).or_default().add(spent),
            }
        }
        self.total.add(spent);
        add(&mut self.by_agent, Some(agent), spent);
        add(&mut self.by_state, state, spent);
        add(&mut self.by_model, spent.model.as_ref(), spent);
        add(&mut self.by_version, spent.version.as_ref(), spent);
    }
}
