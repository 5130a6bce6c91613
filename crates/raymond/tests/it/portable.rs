//! Guarantees that hold with every runner of steps, also with the portable one.
//!
//! `scripts/test --all` runs these, and most tests of scripts and turns, a second time with the threads that systems
//! other than Linux use (`RAYMOND_TEST_RUNNER`).

use std::time::Duration;

use crate::env::{Project, kill, wait_until};

/// A chain with a call, a function and workers; every script logs that it ran.
fn project() -> Project {
    let project = Project::new([
        ("START.sh", "<call return=\"BACK\">CHILD</call>"),
        ("CHILD.sh", "<function return=\"INNER\">HELPER</function>"),
        ("HELPER.sh", "<result>helped</result>"),
        ("INNER.sh", "<result>$RAYMOND_RESULT twice</result>"),
        ("BACK.sh", "<fork next=\"MORE\" item=\"$RAYMOND_RESULT\">WORKER</fork>"),
        ("MORE.sh", "<fork next=\"LAST\" item=\"x\">WORKER</fork>"),
        ("WORKER.sh", "<result>w</result>"),
        ("LAST.sh", "<result>all done</result>"),
    ]);
    for name in ["START", "CHILD", "HELPER", "INNER", "BACK", "MORE", "WORKER", "LAST"] {
        let tag = project.read(&format!("flow/{name}.sh")).replace('"', "\\\"");
        let script = format!("echo \"{name} $item\" >> log; echo \"{tag}\"");
        project.write(&format!("flow/{name}.sh"), &script);
    }
    project
}

const LOG: [&str; 9] = [
    "BACK ",
    "CHILD ",
    "HELPER ",
    "INNER ",
    "LAST ",
    "MORE ",
    "START ",
    "WORKER helped twice",
    "WORKER x",
];

#[test]
fn workflow_with_calls_and_forks_runs_every_step_once() {
    let project = project();
    project.raymond(&["flow"]).completed("all done");
    let mut lines = project.lines("log");
    lines.sort();
    assert_eq!(lines, LOG);
    project.wait_until_quiet();
}

#[test]
fn killed_program_loses_no_finished_step_and_no_result() {
    let project = project();
    let wait = "touch began; while [ ! -e go ]; do sleep 0.01; done; echo done >> ends; ";
    let back = project.read("flow/BACK.sh");
    project.write("flow/BACK.sh", &format!("{wait}{back}"));
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    kill(child.id(), libc::SIGKILL);
    let _ = child.wait();
    project.write("go", "");
    project.raymond(&["run", "r"]).completed("all done");
    let mut lines = project.lines("log");
    lines.sort();
    // With the portable runner, a step that ran when the program was killed may run again.
    let again = project.lines("ends").len() - 1;
    assert!(again <= 1, "{lines:?}");
    lines.drain(..again);
    assert_eq!(lines, LOG);
    project.wait_until_quiet();
}

#[test]
fn run_of_another_process_is_cancelled_with_its_running_steps() {
    let project = Project::new([("START.sh", "touch began; sleep 1000")]);
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", Duration::from_mins(1), || project.file("began").exists());
    let ran = project.raymond(&["cancel", "r", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(child.wait().unwrap().code(), Some(1));
    project.wait_until_quiet();
}
