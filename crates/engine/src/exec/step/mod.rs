//! The directory of one step: the files that must survive a crash, and which process owns them.
//!
//! ```text
//! steps/<agent>.<number>/
//!     intent    the step as the orchestrator meant it, and what its process had spent before it (turns only)
//!     prompt    the child's standard input (turns only)
//!     exit      created once: the claim. Line 1 names reaper and run, line 2 says how the step ended
//!     stdout    written directly by the child
//!     stderr    written directly by the child
//!     output-is-at  where the output is until the step ends, if the child was kept from an earlier turn
//!     told-…    messages for the running turn, by their ids
//!     values/   values that do not fit into a script's environment
//! ```
//!
//! The reaper holds a lock on `exit` for as long as it lives. So the state of a step can be read from
//! its directory, without asking any process:
//!
//! - no `exit` file: the step was never started;
//! - the first line has the identity of another run: a deleted run with the same id left the directory;
//! - a second line: the step ended, or is damaged if its output is incomplete;
//! - locked, without a second line: the step is running;
//! - neither: its outcome is lost.

mod exit_record;
mod folder;
mod output;
pub(crate) mod survivors;
mod told;

pub(crate) use exit_record::{Claim, ExitRecord, HowEnded};
#[cfg(any(test, not(portable)))]
pub(crate) use folder::place_output;
#[cfg(not(portable))]
pub(crate) use folder::run_of;
pub(crate) use folder::{StepFolder, StepState, step_name};
pub(crate) use output::scan_output;
pub use told::LiveMessage;
#[cfg(not(portable))]
pub(crate) use told::messages;
