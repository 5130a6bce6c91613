//! Runs as JSON, for `--json` and for the server: small views that are whole by themselves. `docs/events.md` and
//! `docs/api.md` describe them; they follow neither the journal nor the types of the machine.

mod event;
mod row;
mod run;
mod shown;
mod step;
#[cfg(test)]
mod tests;
mod words;

pub use event::{closed, of_seen};
pub use row::{Group, group, row};
pub use run::{LiveFacts, agent, agents, cost, run, status, status_word};
pub use shown::described;
pub use step::{lanes, step_name};
pub use words::{clock_time, of_activity, of_halt, wait};

use serde::Serialize;
use serde_json::Value;

/// What programs see, as JSON.
fn value(shown: &impl Serialize) -> Value {
    serde_json::to_value(shown).unwrap_or_default()
}
