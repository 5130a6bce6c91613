//! The processes of this machine, read from `/proc`. On systems without it, the list is empty.

use std::{fs, path::PathBuf};

use super::unix::Pid;

/// The ids of all processes.
pub(crate) fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The parent of a process. A process that has ended still has one until its parent collects it.
pub(crate) fn parent(pid: Pid) -> Option<Pid> {
    stat(pid, 1)?.parse().ok().filter(|parent| *parent > 0)
}

/// Whether a process was stopped by a signal.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    stat(pid, 0).is_some_and(|state| state == "T")
}

/// A file of a process.
pub(crate) fn file_of(pid: Pid, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// A field of `stat`: 0 is the state, 1 the parent.
fn stat(pid: Pid, field: usize) -> Option<String> {
    let stat = fs::read_to_string(file_of(pid, "stat")).ok()?;
    // pid (name) state ppid …; the name may contain anything, so look after its last bracket.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(field).map(str::to_owned)
}
