//! Checks that only the user who runs Raymond can have written a directory or file.
//!
//! Raymond executes what a state directory says: its settings name programs, and its journals say what
//! to start. In a parent directory that other users can write to, any of them can plant one. So a
//! state directory that belongs to another user, or that another user can write to, is refused until
//! the user declares it trusted. There is no exception: not for root, which has the most to lose, nor
//! for `sudo`, after which the files of a run would belong to root, nor for a directory named on the
//! command line, because a user who names a directory need not know who owns it.

use std::{
    env,
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::sys;

/// The variable that lists trusted paths, separated as in `PATH`. A path includes everything below it.
/// This is not a setting, because the environment is the one place that a project cannot write to.
pub const TRUST_VARIABLE: &str = "RAYMOND_TRUST";

/// Why a directory or file is not trusted.
#[derive(Debug, Error)]
pub enum TrustError {
    /// Another user owns it.
    #[error("{} belongs to another user (uid {owner}; your uid is {user})", path.display())]
    Foreign {
        /// The directory or file.
        path: PathBuf,
        /// The uid of its owner.
        owner: u32,
        /// The uid of this process.
        user: u32,
    },
    /// Other users can write to it.
    #[error("{} can be written to by other users (mode {mode:04o})", path.display())]
    Writable {
        /// The directory or file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Its owner cannot be determined.
    #[error("cannot determine the owner of {}", path.display())]
    Io {
        /// The directory or file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl TrustError {
    /// The directory or file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Foreign { path, .. } | Self::Writable { path, .. } | Self::Io { path, .. } => {
                path
            }
        }
    }
}

/// Checks a directory, if it exists. Of a symbolic link, both the link and its target are checked.
pub fn check_folder(path: &Path) -> Result<(), TrustError> {
    let io = |source| TrustError::Io { path: path.to_owned(), source };
    let own = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(io)?,
    };
    if !own.is_symlink() {
        return check(path, &own);
    }
    // The mode of a link is meaningless.
    check_owner(path, &own)?;
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        metadata => check(path, &metadata.map_err(io)?),
    }
}

/// Checks the open file `file`, named `path`. Checking the open file ensures that the file that was
/// checked is the one that is read.
pub fn check_file(path: &Path, file: &File) -> Result<(), TrustError> {
    let metadata = file.metadata();
    check(path, &metadata.map_err(|source| TrustError::Io { path: path.to_owned(), source })?)
}

fn check(path: &Path, metadata: &Metadata) -> Result<(), TrustError> {
    check_owner(path, metadata)?;
    match sys::writable_by_others(metadata) {
        Some(mode) if !is_trusted(path) => {
            Err(TrustError::Writable { path: path.to_owned(), mode })
        }
        _ => Ok(()),
    }
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), TrustError> {
    let (owner, user) = (sys::owner(metadata), sys::user());
    if owner != user && !is_trusted(path) {
        return Err(TrustError::Foreign { path: path.to_owned(), owner, user });
    }
    Ok(())
}

/// Whether the user has declared `path`, or a directory above it, trusted.
fn is_trusted(path: &Path) -> bool {
    let listed = env::var_os(TRUST_VARIABLE).unwrap_or_default();
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut folders = env::split_paths(&listed).filter(|folder| folder.is_absolute());
    folders.any(|folder| real(path).starts_with(real(&folder)))
}
