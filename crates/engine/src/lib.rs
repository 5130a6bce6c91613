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
//! to an [`Observer`](run::events::Observer).
//!
//! Suggested reading order: `run::run_loop`, `run::ledger`, `exec::perform`, `exec::steps`, `keeper`, `exec::step`, `store::journal`, `run::open`.

pub mod agent;
pub mod asks;
pub mod exec;
pub mod keeper;
pub mod observe;
pub mod run;
pub mod store;
pub mod sys;
#[cfg(test)]
mod testing;
pub mod trust;
pub mod worktree;

pub use exec::steps::Runner;
pub use run::{
    error::EngineError,
    open::{Engine, Loaded, RunEnd, load},
    usage_limit::wait as usage_limit_wait,
};
