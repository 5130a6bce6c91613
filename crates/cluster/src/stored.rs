//! Sessions and checkouts that move with the agents of a run between workers, as the workflow remembers them. Pure: it has only names of what
//! is in the store.

use std::collections::BTreeMap;

use raymond_flow::{
    id::{AgentId, SessionId, StepId},
    machine::{Action, Run, Step},
};

use crate::{
    checkouts::branch,
    messages::{CheckoutOrder, Repository, StoredAgents, StoredCheckout, StoredSession},
};

impl StoredAgents {
    /// Remembers a session of an agent as it was after a turn.
    pub(crate) fn keep_session(&mut self, agent: &AgentId, session: StoredSession) {
        self.0.entry(agent.clone()).or_default().sessions.insert(session.id, session.files);
    }

    /// Forgets a session of an agent.
    pub(crate) fn forget_session(&mut self, agent: &AgentId, session: &SessionId) {
        if let Some(own) = self.0.get_mut(agent) {
            own.sessions.remove(session);
        }
    }

    /// The sessions that a running step needs: its own, and the one that it branches off.
    pub(crate) fn sessions_for(&self, run: &Run, id: &StepId) -> BTreeMap<SessionId, String> {
        let Some((_, Step { action: Action::Turn(turn), .. })) = run.running_step(id) else {
            return BTreeMap::new();
        };
        let Some(own) = self.0.get(&id.agent) else { return BTreeMap::new() };
        let needed = [Some(turn.session.id()), turn.session.source()].into_iter().flatten();
        let known = |id: &SessionId| Some((id.clone(), own.sessions.get(id)?.clone()));
        needed.filter_map(known).collect()
    }

    /// Remembers the checkout of an agent as it was after a step.
    pub(crate) fn keep_checkout(&mut self, agent: &AgentId, checkout: StoredCheckout) {
        self.0.entry(agent.clone()).or_default().checkout = Some(checkout);
    }

    /// Gives every new agent a checkout: that of the agent that forked it, as it is at this moment.
    pub(crate) fn take_in(&mut self, run: &Run, repository: &Repository) {
        for agent in
            run.agents.values().filter(|agent| !self.has_checkout(&agent.id)).collect::<Vec<_>>()
        {
            let parent = agent.parent.as_ref().and_then(|parent| self.0.get(parent));
            let from = parent.and_then(|parent| parent.checkout.as_ref());
            let checkout = StoredCheckout {
                branch: branch(&run.id, &agent.id),
                commit: from.map_or(&repository.commit, |from| &from.commit).clone(),
                bundles: from.map_or_else(Vec::new, |from| from.bundles.clone()),
                problem: None,
            };
            let own = self.0.entry(agent.id.clone()).or_default();
            own.checkout = Some(checkout);
            own.parent.clone_from(&agent.parent);
        }
    }

    fn has_checkout(&self, agent: &AgentId) -> bool {
        self.0.get(agent).is_some_and(|own| own.checkout.is_some())
    }

    /// Gives the branch of an agent another name.
    pub(crate) fn rename_branch(&mut self, agent: &AgentId, name: &str) {
        if let Some(own) = self.0.get_mut(agent).and_then(|own| own.checkout.as_mut()) {
            name.clone_into(&mut own.branch);
        }
    }

    /// The checkout of an agent.
    pub(crate) fn checkout(&self, agent: &AgentId) -> Option<&StoredCheckout> {
        self.0.get(agent)?.checkout.as_ref()
    }

    /// All that a worker needs for a step of an agent in its checkout.
    pub(crate) fn checkout_for(
        &self,
        agent: &AgentId,
        repository: &Repository,
    ) -> Option<CheckoutOrder> {
        let own = self.checkout(agent)?.clone();
        let workers = self.0.values().filter(|own| own.parent.as_ref() == Some(agent));
        let workers = workers.filter_map(|own| own.checkout.clone()).collect();
        Some(CheckoutOrder { repository: repository.clone(), own, workers })
    }

    /// The checkouts of all agents that have commits of their own or work that is in none, also of those that have ended.
    pub(crate) fn work(&self, repository: &Repository) -> Vec<StoredCheckout> {
        let all = self.0.values().filter_map(|own| own.checkout.clone());
        all.filter(|own| own.commit != repository.commit || own.problem.is_some()).collect()
    }

    /// Forgets what no agent will need again. The work of agents that have ended stays.
    pub(crate) fn tidy(&mut self, run: &Run) {
        self.0.retain(|id, own| {
            let agent = run.agents.get(id);
            own.sessions.retain(|id, _| agent.is_some_and(|agent| agent.remembers(id)));
            !own.sessions.is_empty() || own.checkout.is_some()
        });
    }
}
