//! Messages to a running turn: they reach the model, once, whatever happens to the processes around it.

use raymond_testkit::{Gate, Reply, Request};
use serde_json::json;

use super::env::{DONE, Desk, PATIENCE, finish};
use crate::env::{kill, wait_until};

const MESSAGE: &str = "use the other table";
/// A tool that waits for a file `go`.
const SLOW: &str =
    "touch waits; for _ in {1..6000}; do [ -e go ] && break; sleep 0.01; done; echo slept";

/// How often the message is in a request.
fn count(request: &Request) -> usize {
    let texts = request.texts().into_iter().map(|(_, text)| text);
    texts.chain(request.tool_results()).map(|text| text.matches(MESSAGE).count()).sum()
}

/// A desk whose model uses a slow tool in `START`, and then answers with `DONE` if it knows the message once, and with
/// `unaware` as long as it does not.
fn desk(unaware: fn() -> Reply) -> Option<Desk> {
    let desk = Desk::or_skip([("START.md", "first"), ("NEXT.md", "second")])?;
    desk.api.answer_with(move |request| {
        Some(match (request.tool_results().len(), count(request)) {
            (0, 0) => Reply::tool("Bash", json!({ "command": SLOW })),
            (_, 0) => unaware(),
            (_, 1) => Reply::text(DONE),
            (_, times) => Reply::text(format!("<result>told {times} times</result>")),
        })
    });
    Some(desk)
}

/// Another tool: Claude reads its input while tools run, and may not have read the message yet.
fn another_tool() -> Reply {
    Reply::tool("Bash", json!({ "command": "sleep 0.1" }))
}

fn goes_on() -> Reply {
    Reply::text("<goto>NEXT</goto>")
}

/// Every call of the model was paid, and none twice.
#[track_caller]
fn expect_all_paid(desk: &Desk) {
    desk.expect_calls_paid(u32::try_from(desk.api.requests().len()).unwrap().into());
}

fn tell(desk: &Desk, words: &[&str]) {
    let output = desk.command(&[&["tell", "r"], words].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Waits until the message is in the directory of the first step: from then on its turn is not over without it.
fn wait_for_file(desk: &Desk) {
    let is_told =
        |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with("told-");
    wait_until("the turn is told", PATIENCE, || {
        std::fs::read_dir(desk.step("main.1", "")).unwrap().flatten().any(is_told)
    });
}

/// Tells the running turn of the first step something.
fn tell_turn(desk: &Desk, words: &[&str]) {
    tell(desk, words);
    wait_for_file(desk);
}

const FREE: &str = "--dangerously-skip-permissions";

#[test]
fn message_during_a_tool_reaches_the_model_with_the_result_of_the_tool() {
    let Some(desk) = desk(another_tool) else { return };
    let child = desk.spawn_start(&[FREE]);
    desk.wait_for_file("waits");
    tell_turn(&desk, &[MESSAGE]);
    desk.project.write("go", "");
    finish(child).completed("done");
    expect_all_paid(&desk);
    assert_eq!((desk.records("told").len(), desk.records("heard").len()), (1, 1));
    let shown = {
        let output = desk.command(&["show", "r"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(shown.matches(MESSAGE).count(), 1, "{shown}");
    desk.project.wait_until_quiet();
}

#[test]
fn message_after_the_last_tool_is_a_turn_of_its_own_and_its_answer_counts() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    let gate = Gate::new();
    desk.replies("first", [Reply::text("<result>too early</result>").held_by(&gate)]);
    desk.says(MESSAGE, DONE);
    let child = desk.spawn_start(&[]);
    desk.api.wait_for_requests(1, PATIENCE);
    tell_turn(&desk, &["main", MESSAGE]);
    gate.open();
    finish(child).completed("done");
    desk.expect_calls_paid(2.0);
    assert_eq!(desk.records("heard").len(), 1);
    desk.project.wait_until_quiet();
}

#[test]
fn message_to_a_process_that_takes_one_turn_comes_with_the_next_prompt() {
    let Some(desk) = desk(goes_on) else { return };
    let child = desk.spawn_start(&[FREE, "--warm", "0"]);
    desk.wait_for_file("waits");
    tell_turn(&desk, &[MESSAGE]);
    desk.project.write("go", "");
    finish(child).completed("done");
    let asked = desk.asked();
    let last = asked.last().unwrap();
    assert!(last.starts_with("second") && last.contains(MESSAGE), "{last}");
    desk.expect_calls_paid(3.0);
}

#[test]
fn message_reaches_a_turn_whose_orchestrator_died() {
    let Some(desk) = desk(another_tool) else { return };
    let mut child = desk.spawn_start(&[FREE]);
    desk.wait_for_file("waits");
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    tell(&desk, &[MESSAGE]);
    let child = desk.spawn_run();
    wait_for_file(&desk);
    desk.project.write("go", "");
    finish(child).completed("done");
    expect_all_paid(&desk);
}

#[test]
fn turn_that_is_killed_after_it_took_a_message_is_not_told_again() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    desk.api.answer_with(|request| {
        Some(match (request.tool_results().len(), count(request)) {
            (0, _) => Reply::tool("Bash", json!({ "command": SLOW })),
            (_, 1) if request.texts().iter().any(|(_, text)| text.contains("interrupted")) => {
                Reply::text(DONE)
            }
            (_, 0) => another_tool(),
            (_, 1) => Reply::hang(),
            (tools, times) => Reply::text(format!("<result>{tools} {times}</result>")),
        })
    });
    let child = desk.spawn_start(&[FREE]);
    desk.wait_for_file("waits");
    tell_turn(&desk, &[MESSAGE]);
    desk.project.write("go", "");
    let knows = |request: &Request| count(request) == 1;
    wait_until("the model knows it", PATIENCE, || desk.api.requests().iter().any(knows));
    kill(desk.claude(), libc::SIGKILL);
    finish(child).completed("done");
    assert_eq!((desk.records("told").len(), desk.records("heard").len()), (1, 1));
}

#[test]
fn message_that_no_turn_can_read_any_more_is_warned_of() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    let gate = Gate::new();
    desk.replies("first", [Reply::text(DONE).held_by(&gate)]);
    let child = desk.spawn_start(&["--warm", "0"]);
    desk.api.wait_for_requests(1, PATIENCE);
    tell_turn(&desk, &[MESSAGE]);
    gate.open();
    let ran = finish(child).completed("done");
    assert!(
        ran.stderr.contains("ended before it could read: use the other table"),
        "{}",
        ran.stderr
    );
    let late = desk.command(&["tell", "r", MESSAGE]).output().unwrap();
    assert_eq!(late.status.code(), Some(2));
}

#[test]
fn message_that_only_the_transcript_of_a_killed_turn_has_is_told_again() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    desk.api.answer_with(|request| {
        Some(match (request.tool_results().len(), count(request)) {
            (0, 0) => Reply::tool("Bash", json!({ "command": SLOW })),
            _ if request.last_user_text().contains("interrupted") => {
                Reply::text(format!("<result>told {} times</result>", count(request)))
            }
            _ => Reply::hang(),
        })
    });
    let child = desk.spawn_start(&[FREE]);
    desk.wait_for_file("waits");
    tell_turn(&desk, &[MESSAGE]);
    desk.project.write("go", "");
    wait_until("the transcript has it", PATIENCE, || transcripts(&desk).contains("source_uuid"));
    kill(desk.claude(), libc::SIGKILL);
    finish(child).completed("told 1 times");
    assert_eq!((desk.records("told").len(), desk.records("heard").len()), (1, 1));
}

/// Everything that Claude has written about its sessions.
fn transcripts(desk: &Desk) -> String {
    let projects = desk.project.file("home/.claude/projects");
    let files =
        |folder: &std::path::Path| std::fs::read_dir(folder).into_iter().flatten().flatten();
    let sessions = files(&projects).flat_map(|project| files(&project.path()).collect::<Vec<_>>());
    sessions.filter_map(|session| std::fs::read_to_string(session.path()).ok()).collect()
}
