//! Processes that are kept for the next turn change only the time that it takes.

use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use raymond_testkit::{Gate, Reply};
use serde_json::json;

use super::env::{DONE, Desk, PATIENCE, WAIT, finish};
use crate::env::{kill, wait_until};

/// A workflow with something of everything, carried out with `--warm LIMIT`.
fn tour(limit: &str) -> Option<Desk> {
    let desk = Desk::or_skip([
        ("START.md", "first"),
        ("WORK.md", "work"),
        ("CHILD.md", "aside"),
        ("DEEPER.md", "deeper"),
        ("BACK.md", "back with {{result}}"),
        ("FUNCTION.md", "on its own"),
        ("AFTER.md", "after {{result}}"),
    ])?;
    let tool = |text: &str| Reply::tool("Bash", json!({ "command": format!("echo {text}") }));
    desk.says("first", "<goto>WORK</goto>");
    let call = "<call return='BACK'>CHILD</call>";
    desk.replies("work", [tool("one"), tool("two"), Reply::text(call)]);
    desk.says("aside", "<goto>DEEPER</goto>");
    desk.replies("deeper", [tool("three"), Reply::text("<result>x</result>")]);
    desk.says("back", "<function return='AFTER'>FUNCTION</function>");
    desk.says("on its own", "<result>y</result>").says("after", DONE);
    desk.start(&["--warm", limit, "--budget", "0"]).completed("done");
    desk.project.wait_until_quiet();
    Some(desk)
}

#[test]
fn kept_and_fresh_processes_send_and_cost_the_same() {
    let (Some(warm), Some(cold)) = (tour("4"), tour("0")) else { return };
    assert_eq!(warm.heard(), cold.heard());
    assert_eq!(warm.models(), cold.models());
    assert_eq!(warm.spent(), cold.spent());
    warm.expect_calls_paid(10.0);
    let steps = (1..=7).map(|number| format!("main.{number}"));
    let taken_warm: Vec<_> = steps.clone().map(|step| warm.was_warm(&step)).collect();
    assert_eq!(taken_warm, [false, true, false, true, false, false, true]);
    assert!(steps.into_iter().all(|step| !cold.was_warm(&step)));
}

#[test]
fn idle_process_that_is_killed_costs_nothing() {
    let Some(desk) =
        Desk::or_skip([("START.md", "first"), ("WAIT.sh", WAIT), ("NEXT.md", "second")])
    else {
        return;
    };
    desk.says("first", "<goto>WAIT</goto>").says("second", DONE);
    let child = desk.spawn_start(&[]);
    desk.wait_for_file("waits");
    desk.wait_for_transcript(0, "<goto>WAIT</goto>");
    let claude = desk.claude();
    kill(claude, libc::SIGKILL);
    let folder = format!("/proc/{claude}");
    wait_until("its reaper knows", PATIENCE, || !Path::new(&folder).exists());
    desk.project.write("go", "");
    let ran = finish(child).completed("done");
    assert!(!ran.stderr.contains("was killed"), "{}", ran.stderr);
    // A turn given to a process that has died, before its reaper reports that, is started again.
    assert!(!desk.was_warm("main.3") || !desk.was_warm("main.4"));
    assert_eq!(desk.heard()[1..], [["first", "<goto>WAIT</goto>", "second"]]);
    desk.expect_calls_paid(2.0);
    desk.project.wait_until_quiet();
}

#[test]
fn session_is_branched_only_after_the_process_that_uses_it_is_gone() {
    let call = "touch waits; for _ in {1..6000}; do [ -e go ] && break; sleep 0.01; done; \
                echo '<call return=\"BACK\">CHILD</call>'";
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("WAIT.sh", call),
        ("CHILD.md", "aside"),
        ("BACK.md", "back"),
    ]) else {
        return;
    };
    desk.says("first", "<goto>WAIT</goto>").says("back", DONE);
    let child = desk.spawn_start(&[]);
    desk.wait_for_file("waits");
    desk.wait_for_transcript(0, "<goto>WAIT</goto>");
    // It cannot exit when asked to; its reaper kills it after the grace period.
    let leader = desk.claude();
    kill(leader, libc::SIGSTOP);
    let overlaps = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&overlaps);
    desk.api.answer_with(move |request| {
        let is_aside = request.last_user_text().contains("aside");
        if is_aside && Path::new(&format!("/proc/{leader}")).exists() {
            seen.store(true, Ordering::Relaxed);
        }
        is_aside.then(|| Reply::text("<result>x</result>"))
    });
    desk.project.write("go", "");
    finish(child).completed("done");
    assert!(!overlaps.load(Ordering::Relaxed), "two processes had one session");
    assert_eq!(desk.heard()[1], ["first", "<goto>WAIT</goto>", "aside"]);
    assert_eq!(desk.asked(), ["first", "aside", "back"]);
}

#[test]
fn most_recently_used_process_is_kept_if_the_limit_is_one() {
    let wait = |file: &str, next: &str| {
        format!(
            "touch {file}.waits; for _ in {{1..6000}}; do [ -e {file} ] && break; sleep 0.01; \
             done; echo '<goto>{next}</goto>'"
        )
    };
    let Some(desk) = Desk::or_skip([
        ("START.sh", "echo '<fork next=\"M1\">W1</fork>'"),
        ("M1.md", "main first"),
        ("M2.sh", &*wait("m", "M3")),
        ("M3.md", "main second"),
        ("W1.md", "worker first"),
        ("W2.sh", &*wait("w", "W3")),
        ("W3.md", "worker second"),
    ]) else {
        return;
    };
    let gate = Gate::new();
    desk.says("main first", "<goto>M2</goto>").says("main second", DONE);
    desk.replies("worker first", [Reply::text("<goto>W2</goto>").held_by(&gate)]);
    desk.says("worker second", "<result>w</result>");
    let child = desk.spawn_start(&["--warm", "1", "--budget", "0"]);
    desk.api.wait_for_requests(2, PATIENCE);
    desk.wait_for_file("m.waits");
    assert_eq!(desk.claudes().len(), 2, "one waits, one works");
    gate.open();
    desk.wait_for_file("w.waits");
    wait_until("one is let go", PATIENCE, || desk.claudes().len() == 1);
    desk.project.write("w", "");
    desk.api.wait_for_requests(3, PATIENCE);
    desk.project.write("m", "");
    finish(child).completed("done");
    assert!(desk.was_warm("main_w11.3") && !desk.was_warm("main.4"));
    assert_eq!(desk.asked().len(), 4);
    desk.project.wait_until_quiet();
}

#[test]
fn process_is_not_used_in_another_directory() {
    let Some(desk) = Desk::or_skip([
        ("START.sh", "mkdir sub; echo '<goto>FIRST</goto>'"),
        ("FIRST.md", "first"),
        ("NEXT.md", "second"),
    ]) else {
        return;
    };
    desk.says("first", "<reset cd='sub'>NEXT</reset>");
    let look = Reply::tool("Bash", json!({ "command": "pwd" }));
    desk.replies("second", [look, Reply::text(DONE)]);
    desk.start(&[]).completed("done");
    assert!(!desk.was_warm("main.3"));
    let results = desk.api.requests()[2].tool_results();
    assert!(results[0].lines().next().unwrap().ends_with("/sub"), "{results:?}");
}
