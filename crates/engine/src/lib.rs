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
//! so there is no asynchronous runtime here. This crate never prints: whoever wants to see
//! something is an [`Observer`](events::Observer).
//!
//! What to read, in this order: `run_loop`, `perform`, `keeper`, `step`, `journal`, `open`.

pub mod agent;
pub mod answers;
pub mod background;
pub mod clock;
pub mod debug;
pub mod events;
mod inbox;
pub mod interrupts;
pub mod journal;
pub mod keeper;
pub mod layout;
pub mod lock;
mod open;
mod outcome;
mod perform;
pub mod private;
mod programs;
pub mod regular;
mod room;
mod run_loop;
pub mod scope;
mod state_file;
mod step;
mod sys;
mod tails;
mod timers;
pub mod trust;
mod usage_limit;
mod warm;

pub use open::{Engine, EngineError, Loaded, RunEnd, load};
