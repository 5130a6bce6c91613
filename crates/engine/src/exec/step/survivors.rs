//! Finds and kills processes that outlived a step, by a mark in their environment.
//!
//! A reaper is the subreaper of all processes that its step starts, and the keeper is the subreaper of
//! its reapers. If both are killed at once, only the step's first process dies with them. Its
//! descendants go on, possibly with another session and parent, but all of them have inherited the mark.
//!
//! A process that replaces its environment, or that runs as another user, is not found. On systems
//! without `/proc`, none is found.

use std::{
    collections::BTreeSet,
    ffi::OsString,
    io,
    path::Path,
    time::{Duration, Instant},
};

use crate::sys;

/// The variable with the mark of a step. A script can start a run of its own, so the mark comes after
/// the marks of the steps in which that run is nested, separated by spaces.
pub(crate) const MARK: &str = "RAYMOND_STEP";

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);
/// The limit for the whole attempt: a process that hangs in the kernel cannot be killed.
const PATIENCE: Duration = Duration::from_secs(10);
/// The time between two scans: new processes may appear while others are killed.
const INTERVAL: Duration = Duration::from_millis(20);

/// The mark of a step.
pub(crate) fn mark(run: &str, step: &str) -> String {
    format!("{run}/{step}")
}

/// The value of [`MARK`] for a process with this mark, in an orchestrator whose own value is `outer`.
pub(crate) fn marks(outer: Option<OsString>, mark: &str) -> String {
    let outer = outer.and_then(|outer| outer.into_string().ok()).unwrap_or_default();
    format!("{outer} {mark}").trim_start().to_owned()
}

/// Kills every process that has one of these marks, with SIGTERM first. Returns their pids; an error
/// lists those that could not be killed in time.
pub(crate) fn end(marks: &[String]) -> io::Result<Vec<sys::Pid>> {
    end_all(GRACE, || with_mark(|mark| marks.iter().any(|own| own == mark)))
}

/// Kills every process that has this mark, at once.
pub(crate) fn kill(own: &str) -> io::Result<Vec<sys::Pid>> {
    end_all(Duration::ZERO, || with_mark(|mark| mark == own))
}

/// Kills every process that any step of `run` has left, with SIGTERM first. A process with a living keeper or reaper of the
/// run above it, which has `folder` as its last argument, is theirs: they wait for it, or are about to end it.
pub(crate) fn end_left(run: &str, folder: &Path) -> io::Result<Vec<sys::Pid>> {
    let is_own = |mark: &str| mark.strip_prefix(run).is_some_and(|rest| rest.starts_with('/'));
    end_all(GRACE, || {
        let mut found = with_mark(is_own);
        found.retain(|pid| !sys::has_ancestor_for(*pid, folder));
        found
    })
}

fn with_mark(is_meant: impl Fn(&str) -> bool) -> Vec<sys::Pid> {
    sys::processes_with(MARK, |value| value.split(' ').any(&is_meant))
}

fn end_all(grace: Duration, find: impl Fn() -> Vec<sys::Pid>) -> io::Result<Vec<sys::Pid>> {
    let begun = Instant::now();
    let mut all = BTreeSet::new();
    loop {
        let found = find();
        if found.is_empty() {
            return Ok(all.into_iter().collect());
        }
        if begun.elapsed() >= PATIENCE {
            let pids: Vec<_> = found.iter().map(ToString::to_string).collect();
            let pids = pids.join(", ");
            return Err(io::Error::other(format!("cannot kill these processes: {pids}")));
        }
        for pid in found {
            let is_new = all.insert(pid);
            if begun.elapsed() >= grace {
                sys::end_process(pid, false);
            } else if is_new {
                sys::end_process(pid, true);
            }
        }
        std::thread::sleep(INTERVAL);
    }
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A process that waits, with this value of the variable.
    fn process(value: &str, script: &str) -> std::process::Child {
        let mut command = Command::new("sh");
        command.args(["-c", script]).env(MARK, value).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut byte = [0];
        io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut byte).unwrap();
        child
    }

    const WAITS: &str = "echo; exec sleep 1000";

    #[test]
    fn what_steps_of_a_run_have_left_is_killed_unless_a_reaper_of_the_run_is_there_for_it() {
        let run = uuid::Uuid::new_v4().simple().to_string();
        let folder = std::env::temp_dir().join(&run);
        // Ignores SIGTERM, as what outlives a sweep does.
        let mut left = process(&mark(&run, "main.7"), "trap '' TERM; echo; sleep 1000");
        let mut other = process(&mark(&format!("{run}0"), "main.1"), WAITS);
        // A process with the directory of the run as its last argument, like a reaper, and its child.
        let mut command = Command::new("sh");
        command.args(["-c", &format!("{MARK}={run}/main.8 sh -c 'echo; sleep 1000'; :"), "sh"]);
        let mut guard = command.arg(&folder).stdout(Stdio::piped()).spawn().unwrap();
        io::Read::read_exact(guard.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let left_ends = std::thread::spawn(move || left.wait().unwrap().code());
        assert!(!end_left(&run, &folder).unwrap().is_empty());
        assert_eq!(left_ends.join().unwrap(), None);
        assert_eq!(other.try_wait().unwrap(), None, "another run");
        assert_eq!(guard.try_wait().unwrap(), None, "its child is guarded");
        // When the reaper is gone, nothing guards it.
        guard.kill().unwrap();
        guard.wait().unwrap();
        assert!(!end_left(&run, &folder).unwrap().is_empty());
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn processes_with_the_mark_are_killed_and_no_others() {
        // Other tests run at the same time.
        let run = uuid::Uuid::new_v4().simple().to_string();
        let own = mark(&run, "main.1");
        let others = [mark(&run, "main.11"), mark(&format!("{run}0"), "main.1")];
        let mut others = others.map(|mark| process(&mark, WAITS));
        let mut plain = process(&own, WAITS);
        let mut nested = process(&marks(Some(own.clone().into()), "60/main.2"), WAITS);
        // Ignores SIGTERM, and is stopped.
        let mut deaf = process(&own, "trap '' TERM; echo; kill -STOP $$; sleep 1000");
        let reaped = std::thread::spawn(move || {
            [plain.wait(), nested.wait(), deaf.wait()].map(|status| status.unwrap().code())
        });
        assert!(end(&[own]).unwrap().len() >= 3);
        assert_eq!(reaped.join().unwrap(), [None; 3]);
        for other in &mut others {
            assert_eq!(other.try_wait().unwrap(), None);
            other.kill().unwrap();
            other.wait().unwrap();
        }
    }
}
