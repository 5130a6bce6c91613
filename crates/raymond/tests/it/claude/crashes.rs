//! Costs and prompts after a process is killed in the middle of a turn.

use std::{fs, process::Child};

use raymond_testkit::{Gate, Reply};
use serde_json::{Value, json};

use super::env::{DONE, Desk, PATIENCE, WAIT, finish};
use crate::env::{kill, wait_until};

/// The start of the prompt that continues an interrupted turn.
const GO_ON: &str = "Your last turn was interrupted";

/// A run of two prompts, and the gate that the reply to prompt `held` waits at.
fn two_prompts(held: &str) -> Option<(Desk, Gate)> {
    let desk = Desk::or_skip([("START.md", "first\n"), ("NEXT.md", "second\n")])?;
    let gate = Gate::new();
    for (prompt, text) in [("first", "<goto>NEXT</goto>"), ("second", DONE)] {
        let reply = Reply::text(text);
        let reply = if prompt == held { reply.held_by(&gate) } else { reply };
        desk.replies(prompt, [reply]);
    }
    Some((desk, gate))
}

/// Starts a run whose first answer never comes, and waits until its session has the prompt.
fn start_in_vain(desk: &Desk) -> Child {
    let child = desk.spawn_start(&[]);
    desk.api.wait_for_requests(1, PATIENCE);
    desk.wait_for_transcript(0, "first\n");
    child
}

/// The model got the prompt once, and after that the prompt to continue.
#[track_caller]
fn expect_continuation(desk: &Desk, request: usize) {
    let heard = &desk.heard()[request];
    assert_eq!(heard.iter().filter(|text| *text == "first").count(), 1, "{heard:?}");
    assert_eq!(heard[0], "first");
    assert!(heard.last().unwrap().starts_with(GO_ON), "{heard:?}");
}

#[test]
fn answer_to_a_killed_orchestrator_is_used_by_the_next_one_and_not_paid_twice() {
    let Some((desk, gate)) = two_prompts("first") else { return };
    desk.start_and_kill(1);
    let second = desk.spawn_run();
    let journal = || desk.project.read(".raymond/workflows/r.journal");
    wait_until("the run was taken over", PATIENCE, || journal().contains("\"resumed\""));
    gate.open();
    finish(second).completed("done");
    assert_eq!(desk.asked(), ["first", "second"]);
    assert_eq!(desk.heard()[1], ["first", "<goto>NEXT</goto>", "second"]);
    desk.expect_calls_paid(2.0);
    desk.project.wait_until_quiet();
}

#[test]
fn answer_of_a_kept_process_is_used_after_all_processes_are_killed() {
    let Some((desk, gate)) = two_prompts("second") else { return };
    desk.start_and_kill(2);
    assert!(desk.was_warm("main.2"));
    gate.open();
    // Claude exits, because no orchestrator can give it another turn, then its reaper, then the keeper.
    desk.project.wait_until_quiet();
    desk.run(&[]).completed("done");
    assert_eq!(desk.asked(), ["first", "second"]);
    desk.expect_calls_paid(2.0);
}

#[test]
fn killed_claude_continues_in_its_session_and_is_not_given_the_prompt_twice() {
    let Some((desk, _gate)) = two_prompts("first") else { return };
    desk.says(GO_ON, DONE);
    let child = start_in_vain(&desk);
    kill(desk.claude(), libc::SIGKILL);
    let ran = finish(child).completed("done");
    assert!(ran.stderr.contains("s (try 2): Claude was killed"), "{}", ran.stderr);
    assert_eq!(desk.asked().len(), 2);
    expect_continuation(&desk, 1);
    assert_eq!(desk.session(0), desk.session(1));
    desk.expect_calls_paid(1.0);
}

#[test]
fn claude_that_was_killed_before_it_wrote_anything_down_is_given_the_prompt_again() {
    let Some((desk, gate)) = two_prompts("first") else { return };
    let child = start_in_vain(&desk);
    kill(desk.claude(), libc::SIGKILL);
    wait_until("Claude is gone", PATIENCE, || desk.claudes().is_empty());
    // As if it had never got so far. The next start is two seconds away.
    fs::remove_file(desk.transcript(0)).unwrap();
    gate.open();
    finish(child).completed("done");
    assert_eq!(desk.heard()[..2], [["first"], ["first"]]);
    assert_eq!(desk.session(0), desk.session(1));
}

#[test]
fn turn_lost_with_claude_and_reaper_continues_in_its_session() {
    let Some((desk, _gate)) = two_prompts("first") else { return };
    desk.says(GO_ON, DONE);
    let child = start_in_vain(&desk);
    let claude = desk.claude();
    kill(desk.reaper("main.1"), libc::SIGKILL);
    kill(claude, libc::SIGKILL);
    let ran = finish(child).completed("done");
    assert!(ran.stderr.contains("its outcome was lost"), "{}", ran.stderr);
    assert_eq!(desk.asked().len(), 2);
    expect_continuation(&desk, 1);
    desk.project.wait_until_quiet();
}

#[test]
fn turn_lost_with_all_processes_continues_in_its_session() {
    let Some((desk, _gate)) = two_prompts("first") else { return };
    desk.says(GO_ON, DONE);
    let mut child = start_in_vain(&desk);
    // No process is left to clean up: the orchestrator is killed first, the keeper next.
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    kill(desk.reaper("main.1"), libc::SIGKILL);
    desk.project.wait_until_quiet();
    desk.run(&[]).completed("done");
    assert_eq!(desk.asked().len(), 2);
    expect_continuation(&desk, 1);
    desk.expect_calls_paid(1.0);
}

#[test]
fn turn_of_a_kept_process_lost_with_its_reaper_continues_in_its_session() {
    let Some((desk, _gate)) = two_prompts("second") else { return };
    desk.says(GO_ON, DONE);
    let child = desk.spawn_start(&[]);
    desk.api.wait_for_requests(2, PATIENCE);
    desk.wait_for_transcript(1, "second\n");
    assert!(desk.was_warm("main.2"));
    kill(desk.reaper("main.2"), libc::SIGKILL);
    let ran = finish(child).completed("done");
    assert!(ran.stderr.contains("its outcome was lost"), "{}", ran.stderr);
    let heard = &desk.heard()[2];
    assert_eq!(heard[..3], ["first", "<goto>NEXT</goto>", "second"]);
    assert_eq!(heard.iter().filter(|text| *text == "second").count(), 1, "{heard:?}");
    assert!(heard.last().unwrap().starts_with(GO_ON), "{heard:?}");
    desk.expect_calls_paid(2.0);
    desk.project.wait_until_quiet();
}

/// Kills the reaper of `step` after Claude has printed its answer to request number `requests` into
/// the directory of the first step, and before the reaper can write the exit record.
fn lose_the_reaper_after_the_answer(held: &str, step: &str, requests: usize) -> Option<Desk> {
    let (desk, gate) = two_prompts(held)?;
    let child = desk.spawn_start(&[]);
    desk.api.wait_for_requests(requests, PATIENCE);
    // Without a transcript there is no session to resume.
    desk.wait_for_transcript(requests - 1, &format!("{held}\n"));
    let reaper = desk.reaper(step);
    kill(reaper, libc::SIGSTOP);
    gate.open();
    wait_until("Claude has answered", PATIENCE, || desk.results("main.1") == requests);
    kill(reaper, libc::SIGKILL);
    finish(child).completed("done");
    Some(desk)
}

#[test]
fn complete_answer_of_claude_is_used_although_its_reaper_was_killed() {
    let Some(desk) = lose_the_reaper_after_the_answer("first", "main.1", 1) else { return };
    assert_eq!(desk.asked(), ["first", "second"]);
    desk.expect_calls_paid(2.0);
    desk.project.wait_until_quiet();
}

#[test]
fn complete_answer_of_a_kept_process_is_used_although_its_reaper_was_killed() {
    let Some(desk) = lose_the_reaper_after_the_answer("second", "main.2", 2) else { return };
    assert!(desk.was_warm("main.2"));
    assert_eq!(desk.asked(), ["first", "second"]);
    desk.expect_calls_paid(2.0);
    desk.project.wait_until_quiet();
}

/// Gives the prompt of the third step to a process that no longer reads its input, and kills it. Its session has the first
/// answer when it has `answer`. Returns what the model got when the turn was started again.
fn handed_over_in_vain(desk: &Desk, answer: &str) -> Vec<String> {
    let child = desk.spawn_start(&[]);
    desk.wait_for_file("waits");
    desk.wait_for_transcript(0, answer);
    let claude = desk.claude();
    kill(claude, libc::SIGSTOP);
    desk.project.write("go", "");
    wait_until("the turn is its own", PATIENCE, || desk.step("main.3", "exit").exists());
    kill(claude, libc::SIGKILL);
    finish(child).completed("done");
    assert_eq!(desk.asked().len(), 2);
    desk.expect_calls_paid(2.0);
    desk.heard().pop().unwrap()
}

/// The same with a session that begins with the prompt `first` and goes on with `prompt`.
fn second_prompt_handed_over_in_vain(prompt: &str) -> Option<Vec<String>> {
    let desk = Desk::or_skip([("START.md", "first"), ("WAIT.sh", WAIT), ("NEXT.md", prompt)])?;
    desk.says(prompt, DONE).replies("first", [Reply::text("<goto>WAIT</goto>"), Reply::text(DONE)]);
    Some(handed_over_in_vain(&desk, "<goto>WAIT</goto>"))
}

#[test]
fn prompt_that_never_reached_its_session_is_given_again() {
    let Some(heard) = second_prompt_handed_over_in_vain("second") else { return };
    assert_eq!(heard, ["first", "<goto>WAIT</goto>", "second"]);
}

#[test]
fn prompt_that_never_reached_its_session_is_given_again_even_if_it_was_answered_before() {
    let Some(heard) = second_prompt_handed_over_in_vain("first") else { return };
    assert_eq!(heard, ["first", "<goto>WAIT</goto>", "first"]);
}

#[test]
fn prompt_whose_earlier_answer_was_a_structured_output_is_given_again() {
    let state = |transition: &str| {
        let schema = "schema: { type: object, required: [what], properties: { what: {} } }";
        format!("---\n{schema}\nallowed_transitions:\n  - {transition}\n---\nassess")
    };
    let start = state("{ tag: goto, target: WAIT }");
    let next = state("{ tag: goto, target: LAST }");
    let last = "echo '<result>done</result>'";
    let files = [("START.md", &*start), ("WAIT.sh", WAIT), ("NEXT.md", &*next), ("LAST.sh", last)];
    let Some(desk) = Desk::or_skip(files) else { return };
    let output = |what: &str| Reply::tool("StructuredOutput", json!({ "what": what }));
    desk.replies("assess", [output("first"), output("second")]);
    desk.replies(GO_ON, [output("third")]);
    let heard = handed_over_in_vain(&desk, "structured_output");
    assert_eq!(heard.iter().filter(|text| *text == "assess").count(), 2, "{heard:?}");
    assert!(!heard.iter().any(|text| text.starts_with(GO_ON)), "{heard:?}");
}

#[test]
fn turn_of_a_repeated_prompt_continues_in_its_session() {
    let Some(desk) = Desk::or_skip([("START.md", "again\n")]) else { return };
    let gate = Gate::new();
    desk.replies(
        "again",
        [Reply::text("<goto>START</goto>"), Reply::text("never heard").held_by(&gate)],
    );
    desk.says(GO_ON, DONE);
    let child = desk.spawn_start(&[]);
    desk.api.wait_for_requests(2, PATIENCE);
    wait_until("both prompts are in the transcript", PATIENCE, || {
        let known = fs::read_to_string(desk.transcript(1)).unwrap_or_default();
        let records = known.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let is_prompt = |record: &Value| record["message"]["content"][0]["text"] == "again\n";
        records.filter(|record| record["type"] == "user" && is_prompt(record)).count() == 2
    });
    kill(desk.claude(), libc::SIGKILL);
    finish(child).completed("done");
    let heard = &desk.heard()[2];
    assert_eq!(heard.iter().filter(|text| *text == "again").count(), 2, "{heard:?}");
    assert!(heard.last().unwrap().starts_with(GO_ON), "{heard:?}");
}

#[test]
fn second_interrupt_kills_claude_with_its_tools_and_the_session_continues() {
    let Some(desk) = Desk::or_skip([("START.md", "first\n")]) else { return };
    let tool = json!({ "command": "touch waits; exec sleep 600" });
    desk.replies("first", [Reply::tool("Bash", tool)]).says(GO_ON, DONE);
    let child = desk.spawn_start(&["--dangerously-skip-permissions"]);
    desk.wait_for_file("waits");
    kill(child.id(), libc::SIGINT);
    kill(child.id(), libc::SIGTERM);
    finish(child).failed(130, "paused");
    // The tool runs in its own process session, and would outlive Claude.
    desk.project.wait_until_quiet();
    desk.run(&[]).completed("done");
    assert_eq!(desk.asked().len(), 2);
    expect_continuation(&desk, 1);
}
