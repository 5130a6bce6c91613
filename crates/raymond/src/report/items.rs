//! What each worker is about, in a few words: the values that its fork gave it.

use std::collections::BTreeMap;

use raymond_flow::{
    id::AgentId,
    machine::{Record, Run},
};

use crate::line::excerpt;

/// The most characters of an item.
const ITEM_CHARS_MAX: usize = 28;

/// The items of all workers, also of those that have ended.
#[derive(Debug, Default)]
pub(crate) struct Items(BTreeMap<AgentId, String>);

impl Items {
    /// The items of the agents of a run.
    pub(crate) fn open(&mut self, run: &Run) {
        for agent in run.agents.values() {
            self.add(&agent.id, &agent.fork_attributes);
        }
    }

    /// Adds the workers that a record forks.
    pub(crate) fn record(&mut self, record: &Record) {
        let Record::Followed { transition, worker, more_workers, .. } = record else { return };
        for (worker, forked) in worker.iter().chain(more_workers).zip(transition.workers()) {
            self.add(worker, &forked.attributes);
        }
    }

    /// The item of an agent; empty if it has none.
    pub(crate) fn of(&self, agent: &AgentId) -> &str {
        self.0.get(agent).map_or("", String::as_str)
    }

    fn add(&mut self, agent: &AgentId, attributes: &BTreeMap<String, String>) {
        let item = words(attributes);
        if !item.is_empty() {
            self.0.insert(agent.clone(), item);
        }
    }
}

/// The values of attributes, short.
pub(crate) fn words(attributes: &BTreeMap<String, String>) -> String {
    let values = attributes.values().map(|value| excerpt(value)).filter(|value| !value.is_empty());
    short(&values.collect::<Vec<_>>().join(", "))
}

/// The beginning of a text, or the end of a path: its name is there.
fn short(text: &str) -> String {
    let count = text.chars().count();
    if count <= ITEM_CHARS_MAX {
        return text.to_owned();
    }
    if text.contains('/') && !text.contains(' ') {
        let end: String = text.chars().skip(count + 1 - ITEM_CHARS_MAX).collect();
        return format!("…{end}");
    }
    let beginning: String = text.chars().take(ITEM_CHARS_MAX - 1).collect();
    format!("{}…", beginning.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_shows_the_values_and_of_a_long_path_its_end() {
        let of = |pairs: &[(&str, &str)]| {
            words(&pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
        };
        assert_eq!(of(&[("item", "src/a.rs"), ("part", "2")]), "src/a.rs, 2");
        assert_eq!(
            of(&[("item", "crates/raymond/src/report/items.rs")]),
            "…raymond/src/report/items.rs"
        );
        assert_eq!(
            of(&[("task", "remove all warnings of the linter")]),
            "remove all warnings of the…"
        );
        assert_eq!(of(&[("a", " "), ("b", "x\ny")]), "x\\ny");
        assert_eq!(of(&[]), "");
    }
}
