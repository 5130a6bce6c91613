//! Carrying out steps: effects become child processes, and what they leave becomes inputs again.
//!
//! Suggested reading order: `perform`, `steps`, `step`.

pub mod host;
pub(crate) mod perform;
pub mod processes;
pub mod programs;
pub(crate) mod step;
pub(crate) mod steps;
