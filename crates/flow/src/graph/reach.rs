//! Reachability along edges.

use std::collections::{BTreeMap, BTreeSet};

use crate::{id::StateName, prompt::placeholders};

use super::{EdgeKind, Graph, State};

impl Graph {
    /// The states that can be reached from `roots` along edges that `may_pass` accepts, including the
    /// roots.
    pub fn reachable<'a>(
        &'a self,
        roots: impl IntoIterator<Item = &'a StateName>,
        may_pass: impl Fn(EdgeKind) -> bool,
    ) -> BTreeSet<StateName> {
        self.walk(roots, self.edges().filter(|e| may_pass(e.kind)).map(|e| (e.from, e.to)))
    }

    /// The states from which one of `goals` can be reached along edges that `may_pass` accepts, including
    /// the goals.
    pub fn leading_to<'a>(
        &'a self,
        goals: impl IntoIterator<Item = &'a StateName>,
        may_pass: impl Fn(EdgeKind) -> bool,
    ) -> BTreeSet<StateName> {
        self.walk(goals, self.edges().filter(|e| may_pass(e.kind)).map(|e| (e.to, e.from)))
    }

    fn walk<'a>(
        &self,
        roots: impl IntoIterator<Item = &'a StateName>,
        steps: impl Iterator<Item = (StateName, StateName)>,
    ) -> BTreeSet<StateName> {
        let mut next: BTreeMap<StateName, BTreeSet<StateName>> = BTreeMap::new();
        for (from, to) in steps {
            next.entry(from).or_default().insert(to);
        }
        let mut seen = BTreeSet::new();
        let mut waiting: Vec<StateName> = roots.into_iter().cloned().collect();
        while let Some(state) = waiting.pop() {
            if self.states.contains_key(&state) && seen.insert(state.clone()) {
                waiting.extend(next.get(&state).into_iter().flatten().cloned());
            }
        }
        seen
    }

    /// The states that any agent can enter, starting at the entry state and including everything that is
    /// forked or called; all states if the entry state is unknown.
    pub fn live(&self) -> BTreeSet<StateName> {
        match &self.entry {
            Ok(entry) => self.reachable([entry], |_| true),
            Err(_) => self.states.keys().cloned().collect(),
        }
    }

    /// The states that run while a caller waits for a result.
    pub fn called(&self) -> BTreeSet<StateName> {
        let callees: Vec<_> = self
            .edges()
            .filter(|edge| matches!(edge.kind, EdgeKind::Call | EdgeKind::Function))
            .map(|edge| edge.to)
            .collect();
        self.reachable(&callees, EdgeKind::stays_in_frame)
    }

    /// The state with this name.
    pub fn state(&self, name: &StateName) -> Option<&State> {
        self.states.get(name)
    }

    /// The entry state, if it is a prompt that uses `{{input}}` and does not say that it can do without.
    pub fn needs_input(&self) -> Option<&StateName> {
        let entry = self.entry.as_ref().ok()?;
        let prompt = self.state(entry)?.prompt()?;
        let uses_it = placeholders(&prompt.body).iter().any(|name| name.value == "input");
        (uses_it && !prompt.frontmatter.is_input_optional).then_some(entry)
    }

    /// Whether a state that an agent can enter is [open](State::is_open).
    pub fn has_open_states(&self) -> bool {
        self.live().iter().filter_map(|name| self.state(name)).any(|state| state.is_open)
    }

    /// Whether the transitions of a state that an agent can enter are not completely known.
    pub fn has_uncertain_states(&self) -> bool {
        self.live().iter().filter_map(|name| self.state(name)).any(State::is_uncertain)
    }
}
