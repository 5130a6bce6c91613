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
//!     values/   what does not fit into a script's environment
//! ```
//!
//! The reaper holds a lock on `exit` for its life. So the states of a step can be told apart without
//! asking any process: no `exit` file, nothing was started; locked, it runs; a second line, it ended so,
//! or is damaged if its output is not all there; neither, its outcome is lost; a first line with the
//! identity of another run, a deleted run of the same id left it.

mod exit_record;
mod folder;
mod output;
pub(crate) mod survivors;

pub(crate) use exit_record::{Claim, ExitRecord, HowEnded};
#[cfg(not(portable))]
pub(crate) use folder::OUTPUT_IS_AT;
pub(crate) use folder::{StepFolder, StepState, step_name};
pub(crate) use output::scan_output;
