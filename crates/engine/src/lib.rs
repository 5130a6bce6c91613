//! Makes the effects of a workflow happen on one machine.
//!
//! [`Engine`] opens a run, and its run loop is the one place where things happen in an order:
//!
//! ```text
//! decide ─► append ─► apply ─► (make durable) ─► perform ─► what happens comes back as a message
//! ```
//!
//! Nothing touches the world before the records that ask for it are durable. Everything that the
//! loop waits for arrives in one inbox; children belong to the [`keeper`], not to this process,
//! so there is no asynchronous runtime here. This crate never prints: an
//! [`Observer`](events::Observer) is told what happens.
//!
//! What to read, in this order: `run_loop`, `ledger`, `perform`, `steps`, `keeper`, `step`, `journal`, `open`.

pub mod agent;
pub mod answers;
pub mod clock;
pub mod debug;
mod error;
pub mod events;
mod inbox;
pub mod interrupts;
pub mod journal;
pub mod keeper;
pub mod layout;
mod ledger;
pub mod lock;
mod open;
mod perform;
pub mod private;
mod programs;
pub mod regular;
mod room;
mod run_loop;
pub mod scope;
mod state_file;
mod step;
mod steps;
mod sys;
mod tails;
#[cfg(test)]
mod testing;
mod timers;
pub mod trust;
mod usage_limit;
mod warm;

pub use error::EngineError;
pub use open::{Engine, Loaded, RunEnd, load};
pub use steps::Runner;
