//! Files and folders that only their owner can use, whatever the umask.
//!
//! Everything that Raymond makes is made here: prompts, answers and logs are for nobody else, nobody
//! else may hold a lock on them, and nobody else may reach the sockets. Windows has no modes; there a
//! file inherits the rights of its folder.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    path::Path,
};

use crate::sys;

/// Options with which a new file gets the mode 0600.
pub fn options() -> OpenOptions {
    #[allow(unused_mut, reason = "there are no modes on Windows")]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder with the mode 0700.
pub fn create_dir(path: &Path) -> io::Result<()> {
    folders().create(path)
}

/// The same with the folders above it. Those that are there stay as they are.
pub fn create_dir_all(path: &Path) -> io::Result<()> {
    folders().recursive(true).create(path)
}

/// Writes a whole file.
pub fn write(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut file = options().create(true).truncate(true).write(true).open(path)?;
    file.write_all(bytes.as_ref())
}

/// Takes all rights on a file or folder from everybody else, if it is there: earlier versions left
/// that to the umask.
pub(crate) fn tighten(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) => sys::tighten(path, &metadata),
    }
}

fn folders() -> DirBuilder {
    #[allow(unused_mut, reason = "there are no modes on Windows")]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}
