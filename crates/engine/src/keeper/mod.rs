//! The keeper: the process that starts every child of a run and outlives a killed orchestrator.
//!
//! ```text
//!                  keeper ──fork──┐
//!                                 ▼
//! orchestrator ───StepLaunch───► reaper ──clone, exec──► bash, claude, …
//!      ▲                          │ output directly to files
//!      └────── "step ended" ──────┘ exit record first, then the message
//! ```
//!
//! The keeper (`server`) is the same program under a hidden subcommand, in a session of its own.
//! It is small and single-threaded, so that forking is cheap and safe. Each step has a `reaper`:
//! a fork without exec that adopts every descendant of its step, ends them when they are silent for too
//! long or when a signal asks for it (`patience`), kills what a step leaves behind, and writes the exit
//! record. One reaper is always forked ahead of time and waits in `post` for a connection; on that it gets
//! one step or more. The orchestrator (`client`) connects to the waiting reaper directly, and the reaper
//! reports directly to the orchestrator when a step has ended.
//!
//! Killing any of the three loses nothing: reapers go on without a keeper and without an
//! orchestrator, and if a reaper is killed, the kernel kills its child and the keeper kills the rest.
//! `docs/design/keeper.md` says what holds at every moment.
//!
//! All that needs Linux. Elsewhere `steps::threads` does what is possible in threads of the orchestrator.

mod launch;
mod patience;

#[cfg(not(portable))]
mod client;
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
mod session;

#[cfg(not(portable))]
pub(crate) use client::{Keeper, ReaperLink, kill, stopped};
#[cfg(not(portable))]
pub(crate) use launch::SHORTAGE_INTERVAL;
pub(crate) use launch::{LaunchKind, SessionFiles, StepLaunch};
pub(crate) use patience::{ChildAction, Patience};
#[cfg(not(portable))]
pub use server::serve;

/// There is no keeper on this system.
#[cfg(portable)]
pub fn serve(folder: &std::path::Path) -> std::io::Result<()> {
    let message = format!("no keeper for {} on this system", folder.display());
    Err(std::io::Error::new(std::io::ErrorKind::Unsupported, message))
}

#[cfg(all(test, not(portable)))]
mod tests;
