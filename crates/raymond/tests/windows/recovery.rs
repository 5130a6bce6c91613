//! Interrupting, cancelling, killing and resuming runs.

use std::{fs, process::Child};

use crate::{
    env::{Project, Ran, wait_until},
    processes::{
        PATIENCE, holding, interrupt, spawn_interruptible, wait_until_held, wait_until_released,
    },
    scripts::printing,
};

/// A workflow whose second step waits for the file `go`, with a process of its own beside it.
fn waiting() -> Project {
    let script = format!(
        "@echo off\r\n>> log echo WAIT\r\nif exist go goto on\r\n\
         start /b cmd /c \"{}\"\r\n:again\r\nif not exist go goto again\r\n:on\r\n\
         echo ^<goto^>LAST^</goto^>\r\n",
        holding("held")
    );
    let first = format!("{}>> log echo START\r\n", printing("<goto>WAIT</goto>"));
    let last = format!("{}>> log echo LAST\r\n", printing("<result>x</result>"));
    Project::new([("START.bat", &*first), ("WAIT.bat", &*script), ("LAST.bat", &*last)])
}

fn wait_for(child: Child) -> Ran {
    Ran::of(&child.wait_with_output().unwrap())
}

fn log(project: &Project) -> Vec<String> {
    project.lines("log").iter().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn children_die_with_a_killed_program_and_its_run_can_be_resumed() {
    let project = waiting();
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until_held(&project, "held");
    child.kill().unwrap();
    let _ = child.wait();
    wait_until_released(&project, "held");
    let listed = project.raymond(&["list"]);
    assert!(listed.stdout.contains("died"), "{listed:?}");
    project.write("go", "");
    project.raymond(&["run", "r"]).completed("x");
    // What ran when the program was killed is started again, and nothing else.
    assert_eq!(log(&project), ["START", "WAIT", "WAIT", "LAST"]);
}

#[test]
fn recover_resumes_a_run_whose_orchestrator_died() {
    let project = waiting();
    let mut child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until_held(&project, "held");
    child.kill().unwrap();
    let _ = child.wait();
    project.write("go", "");
    assert_eq!(project.raymond(&["recover"]).code, 0);
    project.raymond(&["run", "r"]).completed("x");
}

#[test]
fn second_orchestrator_is_refused_with_the_pid_of_the_first() {
    let project = waiting();
    let first = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until_held(&project, "held");
    let owner = format!("is already running (process {})", first.id());
    project.raymond(&["run", "r"]).failed(1, &owner);
    project.write("go", "");
    wait_for(first).completed("x");
}

#[test]
fn run_of_another_process_is_cancelled_with_its_running_steps() {
    let project = waiting();
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until_held(&project, "held");
    let ran = project.raymond(&["cancel", "r", "--yes"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(wait_for(child).code, 1);
    wait_until_released(&project, "held");
    assert_eq!(log(&project), ["START", "WAIT"]);
}

#[test]
fn detached_run_is_stopped_and_can_be_resumed() {
    let project = waiting();
    project.raymond(&["start", "flow", "--id", "r", "--detach"]).completed("r");
    wait_until_held(&project, "held");
    let ran = project.raymond(&["stop", "r", "--now"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    wait_until_released(&project, "held");
    project.write("go", "");
    // Until the stopped program has gone, it owns the run.
    wait_until("the run is resumed", PATIENCE, || project.raymond(&["resume", "r"]).code == 0);
    assert_eq!(log(&project), ["START", "WAIT", "WAIT", "LAST"]);
}

#[test]
fn interrupt_waits_for_running_steps_and_the_run_can_be_resumed() {
    let project = waiting();
    let child = spawn_interruptible(&project, &["start", "flow", "--id", "r", "--json"]);
    wait_until_held(&project, "held");
    interrupt(&child);
    project.write("go", "");
    let ran = wait_for(child);
    assert_eq!(ran.code, 130, "{ran:?}");
    assert_eq!(log(&project), ["START", "WAIT"], "nothing new was started");
    project.raymond(&["run", "r"]).completed("x");
    assert_eq!(log(&project), ["START", "WAIT", "LAST"]);
}

#[test]
fn second_interrupt_kills_running_steps_with_their_descendants() {
    let project = waiting();
    let child = spawn_interruptible(&project, &["start", "flow", "--id", "r"]);
    wait_until_held(&project, "held");
    interrupt(&child);
    interrupt(&child);
    let ran = wait_for(child);
    assert_eq!(ran.code, 130, "{ran:?}");
    wait_until_released(&project, "held");
    project.write("go", "");
    project.raymond(&["run", "r"]).completed("x");
    assert_eq!(log(&project), ["START", "WAIT", "WAIT", "LAST"]);
}

#[test]
fn detached_run_outlives_the_process_that_started_it() {
    let project = waiting();
    let ran = project.raymond(&["start", "flow", "--id", "r", "--detach"]);
    ran.completed("r");
    wait_until_held(&project, "held");
    let status = project.raymond(&["status", "r"]);
    assert!(status.stdout.contains("running"), "{status:?}");
    project.write("go", "");
    wait_until("the run is over", PATIENCE, || {
        project.read(".raymond/workflows/r.json").contains("completed")
    });
    assert_eq!(log(&project), ["START", "WAIT", "LAST"]);
    wait_until_released(&project, "held");
}

#[test]
fn journal_with_an_unfinished_end_is_resumed() {
    let project = waiting();
    project.write("go", "");
    project.raymond(&["start", "flow", "--id", "r"]).completed("x");
    let path = project.file(".raymond/workflows/r.journal");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 10]).unwrap();
    project.raymond(&["run", "r"]).completed("x");
    assert_eq!(log(&project), ["START", "WAIT", "LAST"], "no step was repeated");
}
