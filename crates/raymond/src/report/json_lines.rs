//! `--json`: one event a line, for programs.

use raymond_engine::{
    events::{Observer, Seen},
    views,
};

use crate::out;

/// Writes a line of JSON for what happens.
#[derive(Debug)]
pub(crate) struct JsonLines;

impl Observer for JsonLines {
    fn see(&mut self, seen: &Seen) {
        out::event(&views::of_seen(seen));
    }

    fn wants_activity(&self) -> bool {
        true
    }
}
