//! Git worktrees of workers: making them, committing what is left in them, looking at them, landing their branches, removing
//! them. Git itself does it all, as a child process.
//!
//! The worktree of a worker is at `worktrees/RUN/NAME` in the state directory, its branch is `raymond/RUN/NAME`. Beside it,
//! `NAME.claim` says which run it belongs to and, once it is complete, that it was made:
//!
//! | `NAME.claim` | the worktree |
//! |---|---|
//! | missing or empty | nothing of it is ours: what is at its path or has its branch is a stranger's |
//! | the identity of the run | half made: no step has started in it, so it is removed and made again |
//! | and `made` | complete: it is used as it is |
//!
//! The claim is locked while git works, and git inherits the lock: if the orchestrator is killed, the next one waits until
//! the git process that was left behind has ended.

mod checkout;
mod claim;
mod elsewhere;
mod git;
mod jobs;
mod land;
mod left;
mod look;
mod make;
pub mod moving;
mod nested;
mod record;
mod remove;
mod room;
mod save;

pub(crate) use checkout::checkout;
pub use elsewhere::work_for;
pub use git::GitError;
pub(crate) use jobs::{GitDone, GitJobs};
pub use land::{LandError, Landed, Landing};
pub use look::{Diff, WorktreeState, diff, state};
pub(crate) use make::RunWorktrees;
pub use remove::{Removal, remove};
pub(crate) use room::NoRoom;
pub use room::is_disk_full;

#[cfg(test)]
mod tests;
