//! What is done where Linux has a call for it, and others have none or another one.

use std::process::{Command, ExitStatus};
#[cfg(portable)]
use std::{fs::File, io, path::Path};

use super::Pid;

/// Reserves room for `bytes` on the disk by writing them.
#[cfg(portable)]
pub(crate) fn reserve(file: &File, bytes: u32) -> io::Result<()> {
    super::write_all_at(file, &vec![0; bytes as usize], 0)
}

/// Gives a file another name unless that is taken: there is no call for it.
#[cfg(portable)]
pub(crate) fn rename_new(_from: &Path, _to: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Prepares a child so that it can be ended with everybody whom it starts.
#[cfg(unix)]
pub(crate) fn set_apart(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// A group of its own also keeps the console's Ctrl-C away, as it is meant for us.
#[cfg(windows)]
pub(crate) fn set_apart(command: &mut Command) {
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    std::os::windows::process::CommandExt::creation_flags(command, CREATE_NEW_PROCESS_GROUP);
}

/// Ends a child that was set apart, and whoever is still in its group.
#[cfg(unix)]
pub(crate) fn end_group(child: Pid, is_polite: bool) {
    super::kill(-child, if is_polite { libc::SIGTERM } else { libc::SIGKILL });
}

/// Ends a child and its descendants. There is no polite way that a program without a window hears.
#[cfg(windows)]
pub(crate) fn end_group(child: Pid, _is_polite: bool) {
    let mut command = Command::new("taskkill");
    command.args(["/T", "/F", "/PID", &child.to_string()]);
    // If that is missing or fails, the child is gone or will be tried again.
    let _ = command.output();
}

/// The signal that ended a child which has no exit code.
#[cfg(unix)]
pub(crate) fn signal_of(status: ExitStatus) -> i32 {
    std::os::unix::process::ExitStatusExt::signal(&status).unwrap_or_default()
}

/// There are none here, and every child has an exit code.
#[cfg(windows)]
pub(crate) fn signal_of(_status: ExitStatus) -> i32 {
    0
}
