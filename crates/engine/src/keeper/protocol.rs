//! What orchestrator, keeper and reapers say to each other.
//!
//! The keeper hears requests on one socket, one JSON object a line, and answers the first with
//! `ok`. A step is handed over on another socket, which spare reapers listen on: whoever takes the
//! call reads a [`Launch`](super::Launch) on one line, gets everything ready, and starts when the next line says
//! `go`. A call that ends before is a step that must not start. After a script, the reaper waits for
//! another on the same call for as long as the caller keeps it open; it hangs up if it has to
//! clean up first. If a turn's child can be kept for another turn, that one comes on the same call,
//! and the end of the call is the end of the child. What becomes of steps comes as datagrams from
//! the reapers: the bare name of a step's folder, meaning "look at it".

use serde::{Deserialize, Serialize};

/// The keeper's socket in the run's folder.
pub(super) const KEEPER_SOCKET: &str = "keeper.sock";
/// Where spare reapers wait for steps.
pub(super) const STEPS_SOCKET: &str = "steps.sock";
/// What a reaper waits for before it starts anything.
pub(super) const GO: &[u8] = b"go\n";
/// Held for life by the one keeper of a run.
pub(super) const KEEPER_LOCK: &str = "keeper.lock";

/// A wish of the orchestrator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Always the first: the environment that children inherit, as `NAME=value` bytes. Once it is
    /// answered, no step gets another.
    Hello { environment: Vec<Vec<u8>> },
    /// End everything and go.
    Shutdown,
}
