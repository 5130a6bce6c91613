//! Receives everything that a run loop waits for, one message at a time.
//!
//! Reapers send the names of their steps; threads of this process send signals and the end of the keeper in
//! the same way. So the loop waits in one place, and a reaper wakes it directly.

#[cfg(any(portable, test))]
#[cfg_attr(not(portable), allow(dead_code, reason = "only its own tests use it on Linux"))]
mod channel;
#[cfg(not(portable))]
mod socket;

#[cfg(portable)]
pub(crate) use channel::{Inbox, Outbox};
#[cfg(not(portable))]
pub(crate) use socket::{Inbox, Notifier, Outbox, REAPER_GONE, socket_path};

/// A message to the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A reaper reports that the state of the step in the directory of this name has changed.
    Step(String),
    /// The connection with this number is closed: its keeper is gone.
    #[cfg_attr(portable, expect(dead_code, reason = "only a keeper keeps processes"))]
    KeeperGone(u32),
    /// A reaper was killed; which step it had is unknown.
    ReaperGone,
    /// A process that could be given another turn is gone.
    #[cfg_attr(portable, expect(dead_code, reason = "only a keeper keeps processes"))]
    ProcessGone(u32),
    /// Ctrl-C or another signal that asks the orchestrator to stop.
    Interrupt,
    /// A git command for a worktree has ended.
    Git,
    /// Another process has put a request at the run's door.
    Door,
}
