//! Where everything arrives that a run loop waits for, one message at a time.
//!
//! Reapers leave the names of their steps; threads of this process leave word of signals and of
//! the keeper's end by the same way. So the loop waits in one place, and what a reaper says wakes
//! it directly.

#[cfg(portable)]
mod channel;
#[cfg(not(portable))]
mod socket;

#[cfg(portable)]
pub(crate) use channel::{Inbox, Outbox};
#[cfg(not(portable))]
pub(crate) use socket::{Inbox, Notifier, Outbox, REAPER_GONE, socket_path};

/// Something that came from outside the loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A reaper says that there is something to see in the folder of this name.
    Step(String),
    /// This connection to a keeper is over: it is gone.
    KeeperGone(u32),
    /// A reaper was killed, and nobody knows with which step.
    ReaperGone,
    /// A process that could be given another turn is gone.
    ProcessGone(u32),
    /// Ctrl-C or a polite signal.
    Interrupt,
    /// Somebody gives the run up.
    Cancel,
}
