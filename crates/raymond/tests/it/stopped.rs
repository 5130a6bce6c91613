//! Stopped processes of a run (SIGSTOP): no command waits for them forever, and the user is told what was
//! done about them.

use std::{
    process::Child,
    time::{Duration, Instant},
};

use crate::env::{Project, Ran, kill, reaper_of, wait_until};

const PATIENCE: Duration = Duration::from_mins(1);

/// Waits for a program. If it hangs, kills all processes of the project before the test fails.
#[track_caller]
fn wait_for(project: &Project, mut child: Child) -> Ran {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= deadline {
            for pid in project.pids("") {
                kill(pid, libc::SIGKILL);
            }
            panic!("it hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ran::of(&child.wait_with_output().unwrap())
}

const WAITS: &str = "touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'";
const ENDS: &str = "echo '<result>fine</result>'";

/// A run whose first step has begun and waits for a file `go`.
fn begun(first: &str, arguments: &[&str]) -> (Project, Child) {
    let project = Project::new([("START.sh", first), ("NEXT.sh", ENDS)]);
    let child = project.spawn(&[&["start", "flow", "--id", "r"], arguments].concat());
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    (project, child)
}

fn keeper(project: &Project) -> u32 {
    project.pids("__keeper")[0]
}

#[test]
fn resume_replaces_a_keeper_that_is_stopped() {
    let (project, mut child) = begun(WAITS, &[]);
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    kill(keeper(&project), libc::SIGSTOP);
    project.write("go", "");
    let ran = wait_for(&project, project.spawn(&["run", "r"])).completed("fine");
    assert!(ran.stderr.contains("did not answer and was killed"), "{}", ran.stderr);
    project.wait_until_quiet();
}

#[test]
fn run_ends_although_its_keeper_is_stopped() {
    let first = WAITS.replace("<goto>NEXT</goto>", "<result>fine</result>");
    let (project, child) = begun(&first, &[]);
    kill(keeper(&project), libc::SIGSTOP);
    project.write("go", "");
    wait_for(&project, child).completed("fine");
    project.wait_until_quiet();
}

#[test]
fn timeout_of_a_step_holds_although_its_reaper_is_stopped() {
    let (project, child) = begun("touch began; sleep 1000", &["--timeout", "1"]);
    kill(reaper_of(&project, "main.1"), libc::SIGSTOP);
    let ran = wait_for(&project, child).failed(1, "printed nothing for 1 seconds");
    assert!(ran.stderr.contains("was stopped; it was woken"), "{}", ran.stderr);
    project.wait_until_quiet();
}

#[test]
fn second_interrupt_ends_a_step_whose_reaper_is_stopped() {
    let (project, child) = begun("touch began; sleep 1000", &[]);
    kill(reaper_of(&project, "main.1"), libc::SIGSTOP);
    kill(child.id(), libc::SIGINT);
    kill(child.id(), libc::SIGTERM);
    wait_for(&project, child).failed(130, "paused");
    project.wait_until_quiet();
}

#[test]
fn third_interrupt_leaves_at_once_and_the_run_can_be_resumed() {
    let first = format!("trap '' TERM; {WAITS}");
    let (project, child) = begun(&first, &[]);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        kill(child.id(), signal);
    }
    // The reaper has sent SIGTERM to the step, and gives it some seconds.
    let halted = || project.read(".raymond/workflows/r.journal").contains("interrupted");
    wait_until("the run is halted", PATIENCE, halted);
    kill(child.id(), libc::SIGHUP);
    let ran = wait_for(&project, child);
    assert_eq!(ran.code, 130);
    assert!(!project.pids("START.sh").is_empty(), "the step was not waited for");
    project.write("go", "");
    wait_for(&project, project.spawn(&["run", "r"])).completed("fine");
    project.wait_until_quiet();
}

#[test]
fn cancel_works_whichever_process_is_stopped() {
    let (project, mut child) = begun("touch began; sleep 1000", &[]);
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    kill(keeper(&project), libc::SIGSTOP);
    kill(reaper_of(&project, "main.1"), libc::SIGSTOP);
    let ran = wait_for(&project, project.spawn(&["cancel", "r", "--yes"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    wait_until("the step is ended", PATIENCE, || project.pids("START.sh").is_empty());
    project.wait_until_quiet();
}

#[test]
fn cancel_continues_a_stopped_owner() {
    let (project, child) = begun("touch began; sleep 1000", &[]);
    kill(child.id(), libc::SIGSTOP);
    let ran = wait_for(&project, project.spawn(&["cancel", "r", "--yes"]));
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stderr.contains("was stopped; it was woken"), "{}", ran.stderr);
    wait_for(&project, child).failed(1, "cancelled");
    project.wait_until_quiet();
}

#[test]
fn run_that_was_told_to_stop_is_shown_as_stopping_and_then_as_paused() {
    let (project, child) = begun(WAITS, &[]);
    let told = project.raymond(&["stop", "r"]);
    assert!(told.stderr.contains("is stopping. Waiting for 1 running step"), "{told:?}");
    for command in ["status", "list"] {
        let said = project.raymond(&[command]).stdout;
        assert!(said.contains("■ stopping"), "{command}: {said}");
    }
    for command in [&["resume", "r"][..], &["resume", "r", "--detach"]] {
        project.raymond(command).failed(1, "run `r` is already running");
    }
    let told = project.raymond(&["stop", "r", "--now"]);
    assert!(told.stderr.contains("Run r has stopped. Resume it: raymond resume r"), "{told:?}");
    wait_for(&project, child);
    project.write("go", "");
    project.raymond(&["resume", "r"]).completed("fine");
}
