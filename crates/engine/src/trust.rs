//! Whether a folder or file can only have been written by the user who runs this program.
//!
//! A state folder is obeyed: its settings name programs, its journals say what is started. In a
//! parent folder that others can write to, anybody can put one in the way. So one that belongs to
//! another user, or that another user can write to, is refused until the user says that it is
//! trusted. Nobody is an exception: not root, who has most to lose, nor `sudo`, after which the files
//! of a run would belong to root, nor a folder that was named on the command line, because to name a
//! folder is not to know whose it is.

use std::{
    env,
    fs::{self, File, Metadata},
    io,
    path::{Path, PathBuf},
};

use thiserror::Error;

use crate::sys;

/// The variable that lists what the user trusts, like `PATH`. It counts with everything below. The
/// environment is the one place for it that a project cannot write to.
pub const TRUST_VARIABLE: &str = "RAYMOND_TRUST";

/// Why a folder or file is not obeyed.
#[derive(Debug, Error)]
pub enum TrustError {
    /// Somebody else made it.
    #[error("{} belongs to another user (number {owner}; you are {user})", path.display())]
    Foreign {
        /// The folder or file.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Who runs this program.
        user: u32,
    },
    /// Somebody else may have changed it.
    #[error("{} can be written to by other users (mode {mode:04o})", path.display())]
    Writable {
        /// The folder or file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// It cannot be looked at.
    #[error("cannot find out whose {} is", path.display())]
    Io {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl TrustError {
    /// The folder or file.
    pub fn path(&self) -> &Path {
        match self {
            Self::Foreign { path, .. } | Self::Writable { path, .. } | Self::Io { path, .. } => {
                path
            }
        }
    }
}

/// Checks a folder, if it is there. A symbolic link counts as well as what it points to.
pub fn check_folder(path: &Path) -> Result<(), TrustError> {
    let io = |source| TrustError::Io { path: path.to_owned(), source };
    let own = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(io)?,
    };
    if !own.is_symlink() {
        return check(path, &own);
    }
    // The mode of a link means nothing.
    check_owner(path, &own)?;
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        metadata => check(path, &metadata.map_err(io)?),
    }
}

/// Checks a file that is open at `path`. What was checked is what is read, then.
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

/// Whether the user has said that `path`, or a folder above it, is trusted.
fn is_trusted(path: &Path) -> bool {
    let listed = env::var_os(TRUST_VARIABLE).unwrap_or_default();
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut folders = env::split_paths(&listed).filter(|folder| folder.is_absolute());
    folders.any(|folder| real(path).starts_with(real(&folder)))
}
