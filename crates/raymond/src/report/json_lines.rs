//! `--json`: one event a line, for programs.

use raymond_engine::{
    observe::views,
    run::events::{Observer, Seen},
    store::{layout::RunFiles, results::Results},
};

use crate::out;

/// Writes a line of JSON for what happens.
#[derive(Debug)]
pub(crate) struct JsonLines {
    results: Option<Results>,
}

impl JsonLines {
    /// For the run with these files. Without them, of long results only the beginning is printed.
    pub(crate) fn new(files: Option<&RunFiles>) -> Self {
        Self { results: files.map(Results::of) }
    }
}

impl Observer for JsonLines {
    fn see(&mut self, seen: &Seen) {
        let whole = self.results.as_ref().and_then(|results| results.restored(seen));
        out::event(&views::of_seen(whole.as_ref().unwrap_or(seen)));
    }

    fn wants_activity(&self) -> bool {
        true
    }
}
