//! A process that continues without a prompt: the answer to a turn is the answer to its own prompt, and
//! unrequested output is paid once.

use std::process::Child;

use raymond_testkit::{Gate, Reply};
use serde_json::json;

use super::env::{DONE, Desk, PATIENCE, WAIT, finish, spawn};
use crate::env::wait_until;

/// A workflow whose first turn leaves a task in the background that ends when there is a file `end`. Claude
/// then asks the model by itself, and the model says this.
fn background(unasked: Reply) -> Option<Desk> {
    let desk = Desk::or_skip([
        ("START.md", "first"),
        ("WAIT.sh", WAIT),
        ("NEXT.md", "second"),
        ("AFRESH.sh", "echo '<reset>OTHER</reset>'"),
        ("OTHER.md", "another"),
        ("LAST.md", "at last"),
        ("WRONG.md", "never"),
    ])?;
    // Raymond lets Claude have no such tasks, but the rule must not depend on that.
    let claude = desk.program().display();
    let script =
        format!("#!/bin/bash\nunset CLAUDE_CODE_DISABLE_BACKGROUND_TASKS\nexec {claude} \"$@\"\n");
    desk.project.write("claude", &script);
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(desk.project.file("claude"), runs).unwrap();
    let task = json!({
        "command": "until [ -e end ]; do sleep 0.01; done",
        "run_in_background": true,
        "description": "waits",
    });
    desk.replies("first", [Reply::tool("Bash", task), Reply::text("<goto>WAIT</goto>")]);
    desk.says("second", DONE);
    desk.replies("<task-notification>", [unasked]);
    Some(desk)
}

fn start(desk: &Desk) -> Child {
    let mut command = desk.start_command(&["--dangerously-skip-permissions"]);
    command.env("RAYMOND_CLAUDE", desk.project.file("claude"));
    spawn(command)
}

#[test]
fn answer_that_comes_while_no_turn_runs_is_not_taken_and_is_paid_with_the_next_turn() {
    let Some(desk) = background(Reply::text("<goto>WRONG</goto>")) else { return };
    let child = start(&desk);
    desk.wait_for_file("waits");
    desk.project.write("end", "");
    wait_until("Claude has gone on by itself", PATIENCE, || desk.results("main.1") == 2);
    desk.project.write("go", "");
    finish(child).completed("done");
    assert!(desk.was_warm("main.3"));
    assert_eq!(desk.calls_by_step(), [2.0, 0.0, 2.0]);
    desk.expect_calls_paid(4.0);
}

#[test]
fn answer_that_comes_after_a_turn_was_handed_over_is_not_taken_for_its_answer() {
    let gate = Gate::new();
    let unasked = Reply::text("<goto>WRONG</goto>").held_by(&gate);
    let Some(desk) = background(unasked) else { return };
    let child = start(&desk);
    desk.wait_for_file("waits");
    desk.project.write("end", "");
    desk.api.wait_for_requests(3, PATIENCE);
    desk.project.write("go", "");
    wait_until("the turn is its own", PATIENCE, || desk.step("main.3", "exit").exists());
    gate.open();
    finish(child).completed("done");
    assert!(desk.was_warm("main.3"));
    let heard = desk.heard().pop().unwrap();
    assert_eq!(heard.last().unwrap(), "second");
    assert_eq!(desk.calls_by_step(), [2.0, 0.0, 2.0]);
    desk.expect_calls_paid(4.0);
}

#[test]
fn cost_of_a_process_after_its_last_turn_is_added_to_another_turn() {
    let Some(desk) = background(Reply::text("<goto>WRONG</goto>")) else { return };
    let gate = Gate::new();
    desk.says("second", "<goto>AFRESH</goto>").says("at last", DONE);
    desk.replies("another", [Reply::text("<goto>LAST</goto>").held_by(&gate)]);
    // Nothing waits here: the second turn may come before the task ends.
    desk.project.write("go", "");
    let child = start(&desk);
    desk.api.wait_for_requests(3, PATIENCE);
    wait_until("the second turn is over", PATIENCE, || desk.spent().len() >= 3);
    // Its session is not needed any more, and Claude is waited for while it has something to do.
    desk.project.write("end", "");
    desk.api.wait_for_requests(5, PATIENCE);
    wait_until("one Claude is left", PATIENCE, || desk.claudes().len() == 1);
    gate.open();
    finish(child).completed("done");
    assert_eq!(desk.asked().len(), 6);
    desk.expect_calls_paid(6.0);
}
