//! Who descends from whom, read from `/proc`.

use std::{collections::HashMap, fs};

use crate::sys::{self, Pid};

/// All living descendants of `ancestor`, nearest first.
pub(super) fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for (pid, parent) in processes() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![ancestor];
    while let Some(pid) = next.pop() {
        // Removing makes it end even if the listing, which is no snapshot, contains a circle.
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(child);
            next.push(child);
        }
    }
    found
}

/// The direct children of `parent`.
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    processes().filter(|(_, of)| *of == parent).map(|(pid, _)| pid).collect()
}

/// Sends `signal` to every descendant of this process.
pub(super) fn signal_descendants(signal: i32) {
    let own = Pid::try_from(std::process::id()).unwrap_or_default();
    for pid in descendants(own) {
        sys::kill(pid, signal);
    }
}

/// Every process, with its parent. One that has ended shows until it is collected, and does not
/// mind a signal; one whose first thread has ended only looks as if it had.
fn processes() -> impl Iterator<Item = (Pid, Pid)> {
    fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|entry| {
        let pid: Pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        // pid (name) state ppid …; the name may contain anything, so look after its last bracket.
        let (_, fields) = stat.rsplit_once(')')?;
        let parent = fields.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some((pid, parent))
    })
}
