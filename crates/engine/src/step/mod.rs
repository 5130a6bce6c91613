//! The folder of one step: what must survive a crash, and who owns it.
//!
//! ```text
//! steps/<agent>.<number>/
//!     intent    the step as it was meant (turns only)
//!     prompt    what the child reads on its standard input (turns only)
//!     exit      gets its name only once: the claim. Line 1 names reaper and run, line 2 tells how it ended
//!     stdout    straight from the child
//!     stderr    straight from the child
//!     output-is-at  where it is meanwhile, if the child had a step before: its files are that step's
//!     before    what the child had spent then
//! ```
//!
//! The reaper holds a lock on `exit` for its life. So anybody can tell the four states of a step
//! apart without asking any process: no `exit` file, nothing was started; locked, it runs; a second
//! line, it ended so; neither, its outcome is lost.

mod exit_record;
mod folder;
mod output;
pub(crate) mod survivors;

pub(crate) use exit_record::{Claim, ExitRecord, HowEnded};
#[cfg(not(portable))]
pub(crate) use folder::OUTPUT_IS_AT;
pub(crate) use folder::{StepFolder, StepState};
pub(crate) use output::scan_output;
