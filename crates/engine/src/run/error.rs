//! Why a run cannot be opened, or cannot continue.

use std::{
    io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    id::RunId,
    machine::{ApplyError, ReplayError},
};
use thiserror::Error;

use crate::{
    run::mirror::Origin,
    store::{
        journal::{JournalError, UNREADABLE},
        lock::LockError,
        scope::ScopeError,
    },
    trust::TrustError,
};

/// Why a run cannot be opened or cannot continue. Nothing that finished is lost in any case.
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
    /// The state directory belongs to another user, or other users can write to it.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Its files are a copy: two orchestrators would do the same work in the same directory.
    #[error("run `{id}` is a copy of run `{original}` in {}, which is still there", .state_dir.display())]
    Copied {
        /// The id.
        id: RunId,
        /// The id of the original.
        original: RunId,
        /// The state directory of the original.
        state_dir: PathBuf,
        /// The journal of the copy.
        journal: PathBuf,
    },
    /// The run was cancelled.
    #[error("run `{id}` is cancelled")]
    Cancelled {
        /// The id.
        id: RunId,
    },
    /// Another process owns the run.
    #[error("{}", describe_lock(id, source))]
    Lock {
        /// The id.
        id: RunId,
        /// The owner, or why the lock cannot be used.
        source: LockError,
    },
    /// The run may have a second owner.
    #[error("run `{id}` was stopped, because {source}: another process may run it, too")]
    LockLost {
        /// The id.
        id: RunId,
        /// The reason.
        source: LockError,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The records of the journal contradict each other.
    #[error("the journal of `{id}` does not describe a run")]
    Replay {
        /// The id.
        id: RunId,
        /// The journal.
        journal: PathBuf,
        /// The record that does not fit.
        source: ReplayError,
    },
    /// The workflow's files cannot be used.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// A file or directory of the run cannot be created.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An operation of the system failed in the middle of a run.
    #[error("cannot {what}")]
    AtWork {
        /// The operation that failed.
        what: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A decision does not fit its run: a bug in Raymond.
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
    /// Another machine decides about the run, and no process here mirrors it.
    #[error("run `{id}` is carried out by a cluster, and nothing mirrors it here")]
    Mirrored {
        /// The run.
        id: RunId,
        /// Where it is carried out.
        origin: Box<Origin>,
    },
    /// The shell for scripts is not installed.
    #[error("`bash` is not installed")]
    NoShell,
}

impl EngineError {
    /// The status of a run that cannot be read because of this, in one word.
    pub fn status(&self) -> &'static str {
        if let Self::Journal(error) = self { error.status() } else { UNREADABLE }
    }
}

fn describe_lock(id: &RunId, error: &LockError) -> String {
    match error {
        LockError::Owned { .. } => format!("run `{id}` is already running ({error})"),
        _ => format!("run `{id}` cannot be locked"),
    }
}

/// An error of the file system in the middle of a run.
pub(crate) fn at_work(what: &'static str, source: io::Error) -> EngineError {
    EngineError::AtWork { what, source }
}

/// An error about one file or directory of a run.
pub(crate) fn io_error(what: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::Io { what, path: path.to_owned(), source }
}
