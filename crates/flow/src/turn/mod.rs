//! The two pure halves of a step, one on each side of the child process.
//!
//! [`prepare`] goes from an agent's work to what is started: resolve, read, choose, render.
//! [`conclude`] goes from what came out to what it means: parse, judge, evaluate. Both read the
//! world and change nothing; both end in an [`Input`](crate::machine::Input) for the machine.

mod conclude;
mod prepare;

pub use conclude::{Exit, Outcome, conclude};
pub use prepare::{Preparation, prepare};
