//! The two pure halves of a step, one on each side of the child process.
//!
//! [`prepare`] turns an agent's work into a step to start: resolve, read, choose, render. [`conclude`] turns
//! the outcome of a step into its meaning: parse, judge, evaluate. Both read the world and change nothing;
//! both end in an [`Input`](crate::machine::Input) for the machine.

mod conclude;
mod failover;
mod own_question;
mod prepare;
mod variables;

pub use conclude::{Exit, Outcome, conclude};
pub use own_question::{OwnOption, OwnQuestion};
pub use prepare::{Preparation, prepare};
