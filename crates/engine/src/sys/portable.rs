//! Replacements for Linux system calls on systems that do not have them.

#[cfg(portable)]
use std::fs::File;
#[cfg(any(portable, unix))]
use std::io;
#[cfg(all(portable, unix))]
use std::path::Path;
#[cfg(unix)]
use std::process::{Child, Command, ExitStatus};

/// Reserves disk space for `bytes` by writing them.
#[cfg(portable)]
pub(crate) fn reserve(file: &File, bytes: u32) -> io::Result<()> {
    super::write_all_at(file, &vec![0; bytes as usize], 0)
}

/// Renames a file unless the new name exists: there is no system call for it.
#[cfg(all(portable, unix))]
pub(crate) fn rename_new(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A child and all processes in its process group.
#[cfg(unix)]
#[derive(Debug)]
pub struct Tree {
    group: super::Pid,
}

#[cfg(unix)]
impl Tree {
    /// Starts a child that can be killed together with its process group.
    pub fn spawn(command: &mut Command) -> io::Result<(Child, Self)> {
        std::os::unix::process::CommandExt::process_group(command, 0);
        let child = command.spawn()?;
        let group = super::Pid::try_from(child.id()).map_err(io::Error::other)?;
        Ok((child, Self { group }))
    }

    /// Ends all processes that are still in the group.
    pub fn end(&self, is_polite: bool) {
        super::kill(-self.group, if is_polite { libc::SIGTERM } else { libc::SIGKILL });
    }
}

/// The signal that killed a child which has no exit code.
#[cfg(unix)]
pub(crate) fn signal_of(status: ExitStatus) -> i32 {
    std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default()
}
