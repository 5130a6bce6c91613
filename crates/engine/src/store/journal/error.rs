//! Why a journal cannot be used.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// The status of a run that cannot be read.
pub const UNREADABLE: &str = "unreadable";

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// An operation of the file system failed.
    #[error("cannot {what} the journal {}", path.display())]
    Io {
        /// The operation, as a verb: `open`, `read`.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// A line was changed after it was written. A crash never leaves such a line behind.
    #[error("the journal {} is damaged at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The start of the damaged line.
        offset: u64,
    },
    /// Every line is intact, but a line is missing, repeated or in the wrong place.
    #[error(
        "the journal {} is out of order at byte {offset}: a line is missing, duplicated or moved",
        path.display()
    )]
    OutOfOrder {
        /// The file.
        path: PathBuf,
        /// The start of the first line whose `prev` does not match the line before it.
        offset: u64,
    },
    /// The lines are intact except for their line endings, which an editor or git has converted.
    #[error("the journal {} has CRLF line endings from byte {offset} on: it was converted", path.display())]
    Crlf {
        /// The file.
        path: PathBuf,
        /// The start of the first converted line.
        offset: u64,
    },
    /// A line has no seal of this user: the journal was cloned, copied from another machine or written by another program.
    #[error("the journal {} was not written by your Raymond (byte {offset})", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The start of the first line without the seal.
        offset: u64,
    },
    /// A newer version of Raymond wrote the journal.
    #[error("the journal {} has format version {version}, newer than this program", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// The format version in the journal.
        version: u32,
    },
}

impl JournalError {
    /// The status of a run whose journal fails like this, in one word.
    pub fn status(&self) -> &'static str {
        if matches!(self, Self::Foreign { .. }) { "foreign" } else { UNREADABLE }
    }

    /// For `map_err`: makes an [`Io`](Self::Io) error of the operation `what`.
    pub(super) fn io(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }
}
