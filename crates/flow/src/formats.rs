//! The durable formats: the journal's records, the state file, and what travels between machines.
//!
//! Each is the serde form of the types themselves, in [`machine`](crate::machine), [`policy`](crate::policy) and
//! [`source`](crate::source): attributes fix the names, and samples in `tests/fixtures` guard them. Within a version a field may be
//! added if it has a default; nothing is renamed, removed or given another meaning. A version 2 begins with a copy of the
//! types as they were.

use serde::Serialize;

use crate::machine::Run;

/// The version of the formats.
pub const VERSION: u32 = 1;

/// Whether a field can be left out.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A run as its state file: a snapshot for users and scripts. The journal is the source of truth.
#[derive(Debug, Serialize)]
pub struct Snapshot<'r> {
    version: u32,
    #[serde(flatten)]
    run: &'r Run,
    journal_offset: u64,
}

impl<'r> Snapshot<'r> {
    /// The run, and the number of journal bytes that are applied in it.
    pub fn new(run: &'r Run, journal_offset: u64) -> Self {
        Self { version: VERSION, run, journal_offset }
    }

    /// The text of the file, ending in a newline.
    pub fn to_json(&self) -> serde_json::Result<String> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }
}
