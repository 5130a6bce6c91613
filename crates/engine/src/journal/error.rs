//! Why a journal cannot be used.

use std::{
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file system says no.
    #[error("cannot {what} the journal {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// A line is not as it was written, and no crash leaves such a line behind.
    #[error("the journal {} is damaged at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged line starts.
        offset: u64,
    },
    /// The lines are as they were written, but not all of them in their order.
    #[error(
        "the journal {} is out of order at byte {offset}: a line is missing, doubled or moved",
        path.display()
    )]
    OutOfOrder {
        /// The file.
        path: PathBuf,
        /// Where the line starts that does not follow from the one before it.
        offset: u64,
    },
    /// The lines are as they were written, except that an editor or git has converted their ends.
    #[error("the journal {} looks converted to CRLF line ends, from byte {offset} on", path.display())]
    Crlf {
        /// The file.
        path: PathBuf,
        /// Where the first such line starts.
        offset: u64,
    },
    /// Written by a newer program.
    #[error("the journal {} has format version {version}, newer than this program", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

impl JournalError {
    /// For `map_err`: the file system said no when `what` was tried.
    pub(super) fn io(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Io { what, path: path.to_owned(), source }
    }
}
