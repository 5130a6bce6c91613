//! What the tests of this crate share: a run to begin, and an observer that remembers.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{cell::RefCell, rc::Rc};

use raymond_flow::{
    id::{RunId, StateName},
    machine::{Limits, Record, Settings, Started},
};

use crate::events::{Event, Observer, Seen};

/// A run of the workflow in `scope_dir` that begins with `START.sh`.
pub(crate) fn started(scope_dir: &str) -> Started {
    Started {
        workflow_id: RunId::new("r").unwrap(),
        identity: "5f".to_owned(),
        scope_dir: scope_dir.to_owned(),
        entry: StateName::new("START.sh"),
        cwd: "/".to_owned(),
        started_at_ms: 1,
        input: None,
        metadata: std::collections::BTreeMap::new(),
        settings: Settings::default(),
        limits: Limits::default(),
    }
}

/// An observer that remembers what it saw; its clones share their memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    seen: Rc<RefCell<Vec<Seen>>>,
}

impl Observer for Recorder {
    fn see(&mut self, seen: &Seen) {
        self.seen.borrow_mut().push(seen.clone());
    }
}

impl Recorder {
    /// What `select` makes of each event.
    pub(crate) fn all<T>(&self, select: impl FnMut(&Event) -> Option<T>) -> Vec<T> {
        let seen = self.seen.borrow();
        seen.iter().map(|seen| &seen.event).filter_map(select).collect()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.all(|event| match event {
            Event::Recorded { record, .. } => Some(record.clone()),
            _ => None,
        })
    }

    pub(crate) fn troubles(&self) -> Vec<String> {
        self.all(|event| match event {
            Event::Trouble(text) => Some(text.clone()),
            _ => None,
        })
    }
}
