//! Finds where results lead: back to a caller, to the end of a worker, or to the end of the run.
//!
//! The same state may run in several situations (in a subtask, in a worker, on its own), and its
//! result means something else in each. So the search visits pairs of a state and a situation.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::StateName;

use super::{EdgeKind, Graph, Named, edge::kinds};

/// What a result leads to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ResultEnd {
    /// The end of the run's first agent, and with it the result of the run.
    Run,
    /// The end of a worker.
    Worker,
    /// The state at which a caller continues.
    Caller(StateName),
}

/// Which agent runs a state, and which caller waits for its result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Situation {
    is_worker: bool,
    /// The state at which the caller continues. Outer callers do not matter here: their states are
    /// reached through the results of this one.
    caller: Option<StateName>,
}

impl Situation {
    fn alone(is_worker: bool) -> Self {
        Self { is_worker, caller: None }
    }

    /// The situation after an edge of this kind. `returns_to` is the state at which the caller continues,
    /// as named by the tag that makes the edge.
    fn beyond(&self, kind: EdgeKind, returns_to: Option<&StateName>) -> Option<Self> {
        match kind {
            // The caller continues in its own situation, whatever the subtask does.
            EdgeKind::Goto | EdgeKind::Next | EdgeKind::Join | EdgeKind::Return | EdgeKind::Ask => {
                Some(self.clone())
            }
            EdgeKind::Reset => Some(Self::alone(self.is_worker)),
            EdgeKind::Fork => Some(Self::alone(true)),
            EdgeKind::Call | EdgeKind::Function => returns_to
                .map(|caller| Self { caller: Some(caller.clone()), is_worker: self.is_worker }),
            EdgeKind::Evaluate => None,
        }
    }

    fn end(&self) -> ResultEnd {
        match &self.caller {
            Some(caller) => ResultEnd::Caller(caller.clone()),
            None if self.is_worker => ResultEnd::Worker,
            None => ResultEnd::Run,
        }
    }
}

impl Graph {
    /// For each state that can be entered, where its results lead.
    pub fn result_ends(&self) -> BTreeMap<StateName, BTreeSet<ResultEnd>> {
        let mut seen: BTreeSet<(StateName, Situation)> = BTreeSet::new();
        let first = self.entry.iter().map(|entry| (entry.clone(), Situation::alone(false)));
        let mut waiting: Vec<_> = first.collect();
        while let Some(place) = waiting.pop() {
            let (name, situation) = &place;
            let Some(state) = self.state(name) else { continue };
            if seen.contains(&place) {
                continue;
            }
            for way in &state.ways {
                let (enters, goes_on) = kinds(way.tag);
                let returns_to = way.continuation.as_ref().and_then(Named::state);
                for (named, kind) in [(&way.target, enters), (&way.continuation, goes_on)] {
                    let to = named.as_ref().and_then(Named::state);
                    let beyond = situation.beyond(kind, returns_to);
                    waiting.extend(to.cloned().zip(beyond));
                }
                for choice in &way.choices {
                    let to = choice.state.as_ref().and_then(Named::state);
                    waiting.extend(to.cloned().zip(situation.beyond(goes_on, None)));
                }
            }
            seen.insert(place);
        }
        let mut ends: BTreeMap<StateName, BTreeSet<ResultEnd>> = BTreeMap::new();
        for (state, situation) in seen {
            ends.entry(state).or_default().insert(situation.end());
        }
        ends
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;
    use crate::world::MemoryWorld;

    fn ends<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>, state: &str) -> Vec<String> {
        let graph = Graph::of(&MemoryWorld::new(files), None).unwrap();
        let ends = graph.result_ends().remove(&StateName::new(state)).unwrap_or_default();
        ends.iter().map(|end| format!("{end:?}")).collect()
    }

    #[test]
    fn result_of_a_subtask_leads_to_the_return_state_of_its_caller() {
        let files = [
            ("START.md", "<call return=\"LAST\">SUB</call>"),
            ("SUB.md", "<goto>MORE</goto>"),
            ("MORE.md", "<result>x</result>"),
            ("LAST.md", "<result>y</result>"),
        ];
        assert_eq!(ends(files, "MORE.md"), ["Caller(StateName(\"LAST.md\"))"]);
        assert_eq!(ends(files, "LAST.md"), ["Run"]);
    }

    #[test]
    fn result_of_a_worker_ends_the_worker_also_after_a_reset() {
        let files = [
            ("START.md", "<fork next=\"LAST\">WORK</fork>"),
            ("WORK.md", "<reset>MORE</reset>"),
            ("MORE.md", "<result>x</result>"),
            ("LAST.md", "<result>y</result>"),
        ];
        assert_eq!(ends(files, "MORE.md"), ["Worker"]);
        assert_eq!(ends(files, "LAST.md"), ["Run"]);
    }

    #[test]
    fn state_that_is_called_and_entered_leads_to_both_ends() {
        let files = [
            ("START.md", "<function return=\"LAST\">CHECK</function> or <goto>CHECK</goto>"),
            ("CHECK.md", "<result>x</result>"),
            ("LAST.md", "<result>y</result>"),
        ];
        assert_eq!(ends(files, "CHECK.md"), ["Run", "Caller(StateName(\"LAST.md\"))"]);
    }

    #[test]
    fn subtask_that_calls_itself_comes_to_an_end() {
        let files = [
            ("START.md", "<call return=\"LAST\">SUB</call>"),
            ("SUB.md", "<call return=\"BACK\">SUB</call> or <result>x</result>"),
            ("BACK.md", "<result>x</result>"),
            ("LAST.md", "<result>y</result>"),
        ];
        let both = ["Caller(StateName(\"BACK.md\"))", "Caller(StateName(\"LAST.md\"))"];
        assert_eq!(ends(files, "SUB.md"), both);
        assert_eq!(ends(files, "BACK.md"), both);
    }
}
