//! What a turn has spent that ends without a result of Claude counts, and counts once.

use raymond_testkit::{Block, Reply, Usage};
use serde_json::json;

use super::env::{DONE, Desk, finish};
use crate::env::{Ran, kill};

/// The start of the prompt that continues an interrupted turn.
const GO_ON: &str = "Your last turn was interrupted";
/// So that no tool needs a permission.
const FREELY: &str = "--dangerously-skip-permissions";

/// A call that wants a tool that never ends. It creates the file `waits`.
fn hangs() -> Reply {
    Reply::tool("Bash", json!({ "command": "touch waits; exec sleep 600" }))
}

/// Every request to the model was answered and is paid for, once.
#[track_caller]
fn expect_all_paid(desk: &Desk, requests: usize) {
    assert_eq!(desk.asked().len(), requests);
    desk.expect_calls_paid(f64::from(u32::try_from(requests).unwrap()));
}

/// Whether the cost of each turn is an estimate.
fn estimates(desk: &Desk) -> Vec<bool> {
    let spent = desk.records("ended");
    spent.iter().map(|ended| ended["spent"]["estimated"] == true).collect()
}

#[test]
fn calls_of_a_turn_that_timed_out_are_paid_once_also_after_its_session_was_resumed_and_branched() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "---\ntimeout: 5\n---\nfirst"),
        ("SIDE.md", "second"),
        ("LAST.md", "third {{result}}"),
    ]) else {
        return;
    };
    desk.replies("first", [hangs()]).says(GO_ON, "<call return=\"LAST\">SIDE</call>");
    desk.says("second", "<result>found</result>").says("third found", DONE);
    let ran = desk.start(&[FREELY]).completed("done");
    assert!(ran.stderr.contains("printed nothing for 5 seconds"), "{}", ran.stderr);
    // However often it timed out: a busy machine may be too slow to start Claude in time.
    expect_all_paid(&desk, desk.asked().len());
    assert!(desk.calls_by_step().iter().any(|calls| *calls > 0.9), "{:?}", desk.calls_by_step());
}

#[test]
fn calls_of_a_killed_claude_are_paid_and_said_to_be_an_estimate() {
    let Some(desk) = Desk::or_skip([("START.md", "first"), ("NEXT.md", "second")]) else { return };
    desk.replies("first", [hangs()]).says(GO_ON, "<goto>NEXT</goto>").says("second", DONE);
    let child = desk.spawn_start(&[FREELY]);
    desk.wait_for_file("waits");
    desk.wait_for_transcript(0, "tool_use");
    kill(desk.claude(), libc::SIGKILL);
    let ran = finish(child).completed("done");
    assert!(ran.stderr.contains("$0.0037 of its cost is an estimate"), "{}", ran.stderr);
    expect_all_paid(&desk, 3);
    assert_eq!(desk.calls_by_step(), [1.0, 1.0, 1.0]);
    assert_eq!(estimates(&desk), [true, false, false]);
    let status = Ran::of(&desk.command(&["status", "r"]).output().unwrap()).stdout;
    assert!(status.contains(" of $10.00, $0.0037 of it estimated\n"), "{status}");
}

#[test]
fn calls_of_a_kept_process_and_its_subagents_are_paid_when_it_is_killed() {
    let Some(desk) = Desk::or_skip([("START.md", "first"), ("NEXT.md", "second")]) else { return };
    // As much as a usual call: 500 at $3, 50 at $15, 2,500 at $0.3 and 200 at $3.75 a million.
    let cached = Usage { input: 500, output: 50, cache_read: 2_500, cache_write: 200 };
    let helper =
        json!({ "description": "d", "prompt": "help", "subagent_type": "general-purpose" });
    desk.says("first", "<goto>NEXT</goto>");
    let works = json!({ "command": "true" });
    let both = Reply::blocks([Block::text("I go on."), Block::tool("Bash", works)]);
    desk.replies("second", [Reply::tool("Task", helper), both, hangs()]);
    desk.replies("help", [Reply::text("found it").usage(cached)]);
    desk.says(GO_ON, DONE);
    let child = desk.spawn_start(&[FREELY]);
    desk.wait_for_file("waits");
    assert!(desk.was_warm("main.2"));
    desk.wait_for_transcript(4, "touch waits; exec sleep 600");
    kill(desk.claude(), libc::SIGKILL);
    finish(child).completed("done");
    assert_eq!(desk.asked().len(), 6);
    assert_eq!(desk.calls_by_step(), [1.0, 4.0, 1.0]);
    desk.expect_calls_paid(6.0);
}

#[test]
fn calls_of_a_turn_that_the_second_interrupt_killed_are_paid() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    desk.replies("first", [hangs()]).says(GO_ON, DONE);
    let child = desk.spawn_start(&[FREELY]);
    desk.wait_for_file("waits");
    desk.wait_for_transcript(0, "tool_use");
    kill(child.id(), libc::SIGINT);
    kill(child.id(), libc::SIGTERM);
    finish(child).failed(130, "paused");
    desk.expect_calls_paid(1.0);
    desk.run(&[]).completed("done");
    expect_all_paid(&desk, 2);
}
