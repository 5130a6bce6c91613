//! Performs the effects of a workflow run on one machine.
//!
//! [`Engine`] opens a run. Its run loop is the only place that decides the order of events:
//!
//! ```text
//! decide ─► append ─► apply ─► (make durable) ─► perform ─► the outcome comes back as a message
//! ```
//!
//! No effect is performed before the records that ask for it are durable. Everything that the
//! loop waits for arrives in one inbox; child processes belong to the [`keeper`], not to this
//! process, so there is no asynchronous runtime here. This crate never prints: progress is reported
//! to an [`Observer`](events::Observer).
//!
//! Suggested reading order: `run_loop`, `ledger`, `perform`, `steps`, `keeper`, `step`, `journal`, `open`.

pub mod agent;
pub mod answers;
pub mod asks;
pub mod clock;
pub mod debug;
pub mod door;
mod error;
pub mod events;
pub mod follower;
pub mod handshake;
pub mod host;
mod inbox;
pub mod interrupts;
pub mod journal;
pub mod keeper;
pub mod layout;
mod ledger;
pub mod lock;
pub mod marks;
pub mod mirror;
mod open;
pub mod overview;
mod perform;
pub mod private;
pub mod processes;
pub mod programs;
pub mod prune;
pub mod regular;
pub mod results;
mod retention;
pub mod rewind;
mod room;
mod run_loop;
pub mod scope;
pub mod seal;
mod state_file;
mod step;
mod steps;
mod sys;
mod tails;
#[cfg(test)]
mod testing;
mod timers;
pub mod transcript;
pub mod trust;
mod usage_limit;
pub mod user;
pub mod views;
mod warm;
pub mod watch;
pub mod worktree;

pub use error::EngineError;
pub use open::{Engine, Loaded, RunEnd, load};
pub use steps::Runner;
pub use usage_limit::wait as usage_limit_wait;
