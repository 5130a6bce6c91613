//! A run that this process owns: opening it, its loop and everything the loop waits for, and how other processes reach it.
//!
//! Suggested reading order: `run_loop`, `ledger`, `open`.

pub mod door;
pub(crate) mod error;
pub mod events;
pub(crate) mod inbox;
pub mod interrupts;
pub(crate) mod ledger;
pub mod mirror;
pub(crate) mod open;
pub mod rewind;
pub(crate) mod run_loop;
pub(crate) mod timers;
pub(crate) mod usage_limit;
