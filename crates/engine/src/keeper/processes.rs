//! The descendants of a process.

use std::collections::HashMap;

use crate::sys::{self, Pid};

/// All living descendants of `ancestor`, nearest first.
pub(super) fn descendants(ancestor: Pid) -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    for (pid, parent) in with_parents() {
        children.entry(parent).or_default().push(pid);
    }
    let mut found = Vec::new();
    let mut next = vec![ancestor];
    while let Some(pid) = next.pop() {
        // Removing entries ends the loop even if the listing, which is not atomic, contains a cycle.
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(child);
            next.push(child);
        }
    }
    found
}

/// The direct children of `parent`.
pub(super) fn children(parent: Pid) -> Vec<Pid> {
    with_parents().filter(|(_, of)| *of == parent).map(|(pid, _)| pid).collect()
}

/// Sends `signal` to every descendant of this process.
pub(super) fn signal_descendants(signal: i32) {
    let own = Pid::try_from(std::process::id()).unwrap_or_default();
    for pid in descendants(own) {
        sys::kill(pid, signal);
    }
}

/// Every process, with its parent. A process that has ended is listed until its parent collects it,
/// and ignores a signal; one whose first thread has ended only looks as if it had ended.
fn with_parents() -> impl Iterator<Item = (Pid, Pid)> {
    sys::processes().filter_map(|pid| Some((pid, sys::parent(pid)?)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::{
        io::{BufRead as _, BufReader},
        process::{Command, Stdio},
    };

    use super::*;

    #[test]
    fn descendants_of_all_generations_are_found_whatever_they_are_called() {
        // A name with brackets and spaces, as a program may give itself.
        let script = "printf ') R 1 (' > /proc/$$/comm; \
                      bash -c 'sleep 1000 & echo $! $$; wait' & wait";
        let mut command = Command::new("bash");
        command.args(["-c", script]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let ids: Vec<Pid> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
        let [grandchild, inner] = ids[..] else { panic!("{line}") };
        let outer = Pid::try_from(child.id()).unwrap();
        let own = Pid::try_from(std::process::id()).unwrap();
        assert!(children(own).contains(&outer));
        assert_eq!(children(outer), [inner]);
        assert_eq!(descendants(outer), [inner, grandchild]);
        assert!(descendants(own).contains(&grandchild));
        assert!(descendants(grandchild).is_empty());
        for pid in [grandchild, inner, outer] {
            sys::kill(pid, libc::SIGKILL);
        }
        child.wait().unwrap();
    }
}
