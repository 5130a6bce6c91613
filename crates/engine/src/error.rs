//! Why a run cannot be opened, or cannot go on.

use std::{
    io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    id::RunId,
    machine::{ApplyError, ReplayError},
};
use thiserror::Error;

use crate::{journal::JournalError, lock::LockError, scope::ScopeError, trust::TrustError};

/// Why a run cannot be opened or cannot go on. Whatever it was, nothing that finished is lost.
#[derive(Debug, Error)]
pub enum EngineError {
    /// There is no such run.
    #[error("there is no run `{id}`")]
    NoSuchRun {
        /// The id.
        id: RunId,
    },
    /// There is such a run already.
    #[error("there is a run `{id}` already")]
    Exists {
        /// The id.
        id: RunId,
    },
    /// The state folder is not, or not only, the user's own.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The run was cancelled.
    #[error("run `{id}` is cancelled")]
    Cancelled {
        /// The id.
        id: RunId,
    },
    /// Another process runs it.
    #[error("run `{id}` cannot be taken over: {source}")]
    Lock {
        /// The id.
        id: RunId,
        /// Who, or why.
        source: LockError,
    },
    /// The run may have a second owner.
    #[error("run `{id}` was stopped, because {source}: another process may run it, too")]
    LockLost {
        /// The id.
        id: RunId,
        /// How.
        source: LockError,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal does not make sense.
    #[error("the journal of `{id}` does not describe a run")]
    Replay {
        /// The id.
        id: RunId,
        /// Why not.
        source: ReplayError,
    },
    /// The workflow's files cannot be used.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// A file or folder of the run cannot be made.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something on this machine failed in the middle of a run.
    #[error("cannot {what}")]
    AtWork {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A decision does not fit its run: a bug of ours.
    #[error("a decision does not fit the run; this is a bug")]
    Inconsistent(#[source] ApplyError),
    /// The coding agent that the run was started with is not configured.
    #[error(
        "run `{id}` is carried out by the coding agent `{agent}`, which is not configured here"
    )]
    NoAgent {
        /// The run.
        id: RunId,
        /// The coding agent.
        agent: String,
    },
    /// No shell.
    #[error("`bash` is not installed")]
    NoShell,
}

/// An error of the file system in the middle of a run.
pub(crate) fn at_work(what: &'static str, source: io::Error) -> EngineError {
    EngineError::AtWork { what, source }
}

/// An error about one file or folder of a run.
pub(crate) fn io_error(what: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::Io { what, path: path.to_owned(), source }
}
