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
    let begun = Instant::now();
    let mut all = BTreeSet::new();
    loop {
        let found = sys::processes_with(MARK, |value| {
            value.split(' ').any(|mark| marks.iter().any(|own| own == mark))
        });
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
            if begun.elapsed() >= GRACE {
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
    fn processes_with_the_mark_are_killed_and_no_others() {
        // Other tests run at the same time.
        let run = uuid::Uuid::new_v4().simple().to_string();
        let own = mark(&run, "main.1");
        let others = [mark(&run, "main.11"), mark("another", "main.1")];
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
