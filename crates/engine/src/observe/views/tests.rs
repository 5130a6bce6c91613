//! What people and programs see of runs, from journals that the tests write.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

mod documents;
mod events;
mod rows;
mod runs;
mod steps;

use raymond_flow::machine::{Halt, Record, Status};

use super::LiveFacts;
use crate::store::lock::Owner;

/// An orchestrator runs the run.
fn alive() -> LiveFacts {
    LiveFacts { owner: Some(Owner { pid: 7, since_ms: 900 }), ..LiveFacts::default() }
}

/// No orchestrator does.
fn dead() -> LiveFacts {
    LiveFacts::default()
}

/// The run halts and ends in this way.
fn over(why: Halt, status: Status) -> [Record; 2] {
    [Record::Halted { why }, Record::Finished { status }]
}
