//! Checks that only the user who runs Raymond can have written a directory or file.
//!
//! Raymond executes what a state directory says: its settings name programs, and its journals say what
//! to start. In a parent directory that other users can write to, any of them can plant one. So a
//! state directory that belongs to another user, or that another user can write to, is refused until
//! the user declares it trusted. There is no exception: not for root, which has the most to lose, nor
//! for `sudo`, after which the files of a run would belong to root, nor for a directory named on the
//! command line, because a user who names a directory need not know who owns it.

pub mod private;
pub mod regular;
pub mod seal;

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
    /// It is a link: whoever made the project chose where it leads.
    #[error("{} is a link to {}", path.display(), to.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        to: PathBuf,
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
            Self::Foreign { path, .. }
            | Self::Writable { path, .. }
            | Self::Link { path, .. }
            | Self::Io { path, .. } => path,
        }
    }
}

/// Checks a directory, if it exists. A link must have been declared trusted; then its target is checked.
pub fn check_folder(path: &Path) -> Result<(), TrustError> {
    let io = |source| TrustError::Io { path: path.to_owned(), source };
    let own = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(io)?,
    };
    if !own.is_symlink() {
        return check(path, &own);
    }
    if !is_trusted(path) {
        let to = fs::read_link(path).map_err(io)?;
        return Err(TrustError::Link { path: path.to_owned(), to });
    }
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        metadata => check(path, &metadata.map_err(io)?),
    }
}

/// Checks that nothing in a directory is a link, if there is such a directory.
pub(crate) fn refuse_links_in(folder: &Path) -> Result<(), TrustError> {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            check_folder(&entry.path())?;
        }
    }
    Ok(())
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
pub fn is_trusted(path: &Path) -> bool {
    let listed = env::var_os(TRUST_VARIABLE).unwrap_or_default();
    let real = |path: &Path| fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut folders = env::split_paths(&listed).filter(|folder| folder.is_absolute());
    folders.any(|folder| real(path).starts_with(real(&folder)))
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    use super::*;

    fn folder(root: &Path, name: &str, mode: u32) -> PathBuf {
        let path = root.join(name);
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn folder_that_others_can_write_to_is_refused_and_so_is_every_link() {
        let root = tempfile::tempdir().unwrap();
        let own = folder(root.path(), "own", 0o755);
        let open = folder(root.path(), "open", 0o757);
        check_folder(&own).unwrap();
        check_folder(&root.path().join("not there yet")).unwrap();
        let refused = check_folder(&open).unwrap_err();
        assert!(matches!(&refused, TrustError::Writable { mode: 0o757, .. }), "{refused}");
        assert_eq!(refused.path(), open);
        for target in [&own, &open, &root.path().join("nothing")] {
            let link = root.path().join("link");
            symlink(target, &link).unwrap();
            let refused = check_folder(&link).unwrap_err();
            assert!(matches!(&refused, TrustError::Link { to, .. } if to == target), "{refused}");
            fs::remove_file(link).unwrap();
        }
    }

    #[test]
    fn group_that_is_the_owners_own_may_write() {
        let root = tempfile::tempdir().unwrap();
        let path = folder(root.path(), "shared", 0o770);
        let metadata = fs::metadata(&path).unwrap();
        let is_own_group = std::os::unix::fs::MetadataExt::gid(&metadata) == sys::user();
        assert_eq!(check_folder(&path).is_ok(), is_own_group);
        // Root may give it to any group.
        if sys::user() == 0 {
            chown(&path, None, Some(4711)).unwrap();
            assert!(matches!(check_folder(&path), Err(TrustError::Writable { mode: 0o770, .. })));
        }
    }

    #[test]
    fn what_belongs_to_another_user_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = folder(root.path(), "theirs", 0o700);
        // Only root can make something another user's; for everybody else it is root's.
        let theirs = if sys::user() == 0 {
            chown(&path, Some(4711), None).unwrap();
            path
        } else {
            PathBuf::from("/")
        };
        assert!(matches!(check_folder(&theirs), Err(TrustError::Foreign { .. })));
    }

    #[test]
    fn file_is_checked_as_it_was_opened() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("file");
        fs::write(&path, "").unwrap();
        let file = File::open(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        check_file(&path, &file).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        // Another file under its name says nothing about this one.
        fs::rename(&path, root.path().join("away")).unwrap();
        fs::write(&path, "").unwrap();
        assert!(matches!(check_file(&path, &file), Err(TrustError::Writable { .. })));
    }

    #[test]
    fn folder_whose_owner_cannot_be_told_is_refused() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("file"), "").unwrap();
        let refused = check_folder(&root.path().join("file/below")).unwrap_err();
        assert!(matches!(refused, TrustError::Io { .. }), "{refused}");
    }
}
