//! The keeper: the process that starts every child of a run and outlives a killed orchestrator.
//!
//! ```text
//!                  keeper ──fork──┐
//!                                 ▼
//! orchestrator ──Launch, go──► reaper ──clone, exec──► bash, claude, …
//!      ▲                          │ output straight to files
//!      └────── "step ended" ──────┘ how it ended, written down before it is told
//! ```
//!
//! The keeper (`server`) is the same program under a hidden subcommand, in a session of its own.
//! It is small and single-threaded, so that forking is cheap and safe. Each step gets a `reaper`:
//! a fork without exec that adopts every descendant of its step, ends them when time is up or
//! somebody asks, sweeps what a step leaves behind, and writes the exit record. Reapers are forked
//! ahead of time and wait at their `post`; one that is done with a step may come back for
//! another. The orchestrator (`client`) hands a step directly to whichever waits, and that one
//! tells it directly how the step ended.
//!
//! Killing any of the three loses nothing: reapers go on without a keeper and without an
//! orchestrator, and if a reaper is killed its child dies with it and the keeper sweeps the rest.
//!
//! All that needs Linux. Elsewhere `steps::threads` does what can be done in the orchestrator's own process.

mod launch;

#[cfg(not(portable))]
mod client;
#[cfg(not(portable))]
mod conversation;
#[cfg(not(portable))]
mod post;
#[cfg(not(portable))]
mod processes;
#[cfg(not(portable))]
mod protocol;
#[cfg(not(portable))]
mod reaper;
#[cfg(not(portable))]
mod server;
#[cfg(not(portable))]
mod spare;

#[cfg(not(portable))]
pub(crate) use client::{Gate, Keeper, kill, stopped};
#[cfg(not(portable))]
pub(crate) use launch::SPARE_FOLDERS;
pub(crate) use launch::{Conversations, Launch};
#[cfg(not(portable))]
pub use server::serve;

/// There is no keeper on this system.
#[cfg(portable)]
pub fn serve(folder: &std::path::Path) -> std::io::Result<()> {
    let message = format!("no keeper for {} on this system", folder.display());
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, message))
}
