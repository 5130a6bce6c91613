//! The messages between orchestrator, keeper and reapers.
//!
//! The keeper reads requests on one socket, one JSON object a line, and answers the first with [`ANSWER`].
//! Steps are handed over on another socket, on which idle reapers listen: the reaper that accepts a
//! connection reads a [`StepLaunch`](super::StepLaunch) on one line and starts it at once. The next line on
//! the same connection is the next step, for as long as the orchestrator keeps it open. A reaper that has
//! to clean up after a script closes the connection. A step that follows a turn is for the same child, and
//! the end of the connection is the end of the child. Reapers report with datagrams: the bare name of a
//! step's directory means "check this step".

use serde::{Deserialize, Serialize};

/// The keeper's socket in the run's directory.
pub(super) const KEEPER_SOCKET: &str = "keeper.sock";
/// The socket on which idle reapers accept steps.
pub(super) const STEPS_SOCKET: &str = "steps.sock";
/// Locked by the one keeper of a run for its whole life.
pub(super) const KEEPER_LOCK: &str = "keeper.lock";
/// The keeper's answer to `Hello`. It names the version of this protocol: a keeper that a program of another version has
/// left cannot read these launches. Always three bytes.
pub(super) const ANSWER: &[u8; 3] = b"k2\n";

/// A request of the orchestrator to the keeper.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Always the first: the environment that children inherit, as `NAME=value` bytes. After the answer,
    /// no step is started with another environment.
    Hello { environment: Vec<Vec<u8>> },
    /// End all steps and leave.
    Shutdown,
}
