//! Replacements for Linux system calls on systems that do not have them.

#[cfg(any(portable, test))]
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
    fill(file, bytes)
}

#[cfg(any(portable, test))]
fn fill(file: &File, bytes: u32) -> io::Result<()> {
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    #[test]
    fn reserved_space_is_written_with_zeros_and_can_be_overwritten() {
        let mut file = tempfile::tempfile().unwrap();
        fill(&file, 10_000).unwrap();
        super::super::write_all_at(&file, b"end", 3).unwrap();
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes.len(), 10_000);
        assert_eq!(bytes[..7], *b"\0\0\0end\0");
    }
}
