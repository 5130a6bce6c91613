//! Creates files and directories that only their owner can use, regardless of the umask.
//!
//! Raymond creates all its files here: other users must not read prompts, answers and logs, hold locks
//! on them, or connect to the sockets. Windows has no modes; there a file inherits the permissions of
//! its directory.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use crate::sys;

/// Options that create files with mode 0600, and open none through a link: a cloned repository could have put one where
/// a file of ours belongs.
pub fn options() -> OpenOptions {
    #[allow(unused_mut, reason = "there are no modes on Windows")]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600).custom_flags(libc::O_NOFOLLOW);
    }
    options
}

/// Creates a directory with mode 0700.
pub fn create_dir(path: &Path) -> io::Result<()> {
    folders().create(path)
}

/// The same, including missing parents. Existing directories keep their mode; a link to one is refused.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    folders().recursive(true).create(path)?;
    refuse_link(path)
}

/// Fails if there is a link at `path`.
pub(crate) fn refuse_link(path: &Path) -> io::Result<()> {
    if !path.is_symlink() {
        return Ok(());
    }
    let message = format!("{} is a link", path.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Creates or replaces a file with these contents.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = options().create(true).truncate(true).write(true).open(path)?;
    file.write_all(bytes.as_ref())
}

/// The same, durably; the directory is not.
pub(crate) fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = options().create(true).truncate(true).write(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Gives the file `draft` the name `path`. Fails with `AlreadyExists` if there is such a file: of several
/// processes exactly one succeeds.
pub(crate) fn name_new(draft: &Path, path: &Path) -> io::Result<()> {
    sys::rename_new(draft, path).or_else(|error| match error.kind() {
        // Some systems and file systems have no rename that refuses to overwrite, but can link.
        io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => link_new(draft, path),
        _ => Err(error),
    })
}

fn link_new(draft: &Path, path: &Path) -> io::Result<()> {
    fs::hard_link(draft, path).and_then(|()| fs::remove_file(draft))
}

/// Removes all permissions of other users from a file that this process has made: the mode of a socket is left to the
/// umask.
pub fn tighten(path: &Path) -> io::Result<()> {
    sys::tighten(path, &fs::symlink_metadata(path)?)
}

fn folders() -> DirBuilder {
    #[allow(unused_mut, reason = "there are no modes on Windows")]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_is_created_is_its_owners_alone() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        create_dir_all(&inner).unwrap();
        create_dir_all(&inner).unwrap();
        let file = inner.join("file");
        write(&file, "longer").unwrap();
        write(&file, "text").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "text");
        let modes = [mode(&root.path().join("a")), mode(&inner), mode(&file)];
        assert_eq!(modes, [0o700, 0o700, 0o600]);
        assert_eq!(create_dir(&inner).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn what_others_could_use_is_taken_from_them_and_its_owner_keeps_it() {
        let root = tempfile::tempdir().unwrap();
        let (folder, file) = (root.path().join("folder"), root.path().join("file"));
        fs::create_dir(&folder).unwrap();
        fs::write(&file, "").unwrap();
        for (path, before, after) in [
            (&folder, 0o777, 0o700),
            (&folder, 0o750, 0o700),
            (&folder, 0o500, 0o500),
            (&file, 0o666, 0o600),
            (&file, 0o755, 0o600),
            (&file, 0o400, 0o400),
        ] {
            fs::set_permissions(path, fs::Permissions::from_mode(before)).unwrap();
            tighten(path).unwrap();
            assert_eq!(mode(path), after, "{before:o}");
        }
    }

    #[test]
    fn nothing_is_written_or_made_through_a_link() {
        use std::os::unix::fs::symlink;
        let root = tempfile::tempdir().unwrap();
        let [file, folder, link, way] =
            ["file", "folder", "link", "way"].map(|name| root.path().join(name));
        fs::write(&file, "theirs").unwrap();
        fs::create_dir(&folder).unwrap();
        symlink(&file, &link).unwrap();
        symlink(&folder, &way).unwrap();
        write(&link, "ours").unwrap_err();
        create_dir_all(&way).unwrap_err();
        assert_eq!(fs::read_to_string(&file).unwrap(), "theirs");
    }

    #[test]
    fn name_is_given_once_also_without_a_rename_that_refuses_to_overwrite() {
        for give in [name_new, link_new] {
            let root = tempfile::tempdir().unwrap();
            let [first, second, name] =
                ["first", "second", "name"].map(|name| root.path().join(name));
            fs::write(&first, "1").unwrap();
            fs::write(&second, "2").unwrap();
            give(&first, &name).unwrap();
            assert_eq!(give(&second, &name).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
            assert_eq!(fs::read_to_string(&name).unwrap(), "1");
            assert_eq!((first.exists(), second.exists()), (false, true));
        }
    }
}
