//! Which worker had the last turn of each session. The next turn is offered to that one, which has the session's files.

use std::collections::BTreeMap;

use raymond_flow::id::SessionId;

use crate::messages::Home;

/// The workers of sessions.
#[derive(Debug, Default)]
pub(crate) struct Homes(BTreeMap<SessionId, Home>);

impl Homes {
    /// The worker that has a session, if it also has these labels.
    pub(crate) fn of(&self, session: &SessionId, labels: &[String]) -> Option<&Home> {
        let home = self.0.get(session)?;
        labels.iter().all(|label| home.labels.contains(label)).then_some(home)
    }

    /// Remembers the worker of a turn that has ended, for its session and for those that the agent has by now: a coding
    /// agent may have given the session another id.
    pub(crate) fn settle_in(
        &mut self,
        session: &SessionId,
        others: impl IntoIterator<Item = SessionId>,
        home: &Home,
    ) {
        self.0.insert(session.clone(), home.clone());
        for session in others {
            self.0.entry(session).or_insert_with(|| home.clone());
        }
    }

    /// Forgets the worker of a session, because it is gone.
    pub(crate) fn forget(&mut self, session: &SessionId) {
        self.0.remove(session);
    }

    /// The workers of these sessions.
    pub(crate) fn among(
        &self,
        sessions: impl IntoIterator<Item = SessionId>,
    ) -> Vec<(SessionId, Home)> {
        let mut known = BTreeMap::new();
        for session in sessions {
            if let Some(home) = self.0.get(&session) {
                known.insert(session, home.clone());
            }
        }
        known.into_iter().collect()
    }
}

impl FromIterator<(SessionId, Home)> for Homes {
    fn from_iter<I: IntoIterator<Item = (SessionId, Home)>>(homes: I) -> Self {
        Self(homes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(worker: &str, labels: &[&str]) -> Home {
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        Home { worker: worker.to_owned(), labels }
    }

    fn session(id: &str) -> SessionId {
        SessionId::new(id)
    }

    #[test]
    fn turn_that_needs_labels_is_not_offered_to_a_worker_without_them() {
        let homes: Homes = [(session("s"), home("one", &["gpu"]))].into_iter().collect();
        let gpu = ["gpu".to_owned()];
        assert_eq!(homes.of(&session("s"), &gpu).map(|home| &*home.worker), Some("one"));
        assert!(homes.of(&session("s"), &[]).is_some());
        assert!(homes.of(&session("s"), &["big".to_owned()]).is_none());
        assert!(homes.of(&session("other"), &[]).is_none());
    }

    #[test]
    fn session_under_another_id_is_where_its_turn_was_and_older_ones_stay() {
        let mut homes: Homes = [(session("old"), home("one", &[]))].into_iter().collect();
        homes.settle_in(&session("asked"), [session("given"), session("old")], &home("two", &[]));
        let worker = |id: &str| homes.of(&session(id), &[]).map(|home| home.worker.clone());
        assert_eq!(worker("asked").as_deref(), Some("two"));
        assert_eq!(worker("given").as_deref(), Some("two"));
        assert_eq!(worker("old").as_deref(), Some("one"));
        homes.forget(&session("given"));
        let known = homes.among([session("old"), session("given"), session("old")]);
        assert_eq!(known.len(), 1, "{known:?}");
    }
}
