#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::fs;

use raymond_flow::money::Usd;

use super::*;
use crate::agent::variants::each_variant;

const THREAD: &str =
    r#"{"type":"thread.started","thread_id":"01a1e084-8065-7fc3-b0cd-a773aa89505c"}"#;
const WARNING: &str = r#"{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata for `gpt-5.2` not found."}}"#;
const BEGUN: &str = r#"{"type":"turn.started"}"#;
const FAILED: &str = r#"{"type":"turn.failed","error":{"message":"Quota exceeded. Check your plan and billing details."}}"#;

fn said(text: &str) -> String {
    format!(
        r#"{{"type":"item.completed","item":{{"id":"item_1","type":"agent_message","text":"{text}"}}}}"#
    )
}

fn completed(input: u64, cached: u64, output: u64) -> String {
    format!(
        r#"{{"type":"turn.completed","usage":{{"input_tokens":{input},"cached_input_tokens":{cached},"cache_write_input_tokens":0,"output_tokens":{output},"reasoning_output_tokens":7}}}}"#
    )
}

fn end_of(lines: &[&str], exit_code: Option<i32>, before: Option<&str>) -> TurnEnd {
    let folder = tempfile::tempdir().unwrap();
    let (stdout, stderr) = (folder.path().join("stdout"), folder.path().join("stderr"));
    let text = lines.join("\n");
    fs::write(&stdout, &text).unwrap();
    fs::write(&stderr, "WARNING: no aliases\n").unwrap();
    let prices = Prices {
        input: Usd::from_dollars(1.0).unwrap(),
        cached_input: Usd::from_dollars(0.1).unwrap(),
        output: Usd::from_dollars(10.0).unwrap(),
    };
    let output = TurnOutput {
        is_first: true,
        stdin: &stdout,
        stdout: &stdout,
        stdout_bytes: text.len() as u64,
        stderr: &stderr,
        exit_code,
        before,
        told: &[],
    };
    outcome(&output, Some(&prices)).unwrap()
}

#[test]
fn answer_without_tokens_that_have_a_price_is_doubted() {
    let doubt =
        |last: &str| end_of(&[THREAD, BEGUN, &said("done"), last], Some(0), None).spent.doubt;
    assert_eq!(doubt(&completed(1000, 400, 50)), None);
    for last in [
        &completed(0, 0, 0),
        r#"{"type":"turn.completed"}"#,
        r#"{"type":"turn.completed","usage":{"input_tokens":"many"}}"#,
    ] {
        assert_eq!(doubt(last).as_deref(), Some("Codex reports no tokens"), "{last}");
    }
    assert_eq!(doubt(FAILED), None, "nothing is counted for what the provider refused");
}

#[test]
fn answer_is_the_last_message_of_a_completed_turn() {
    let lines = [THREAD, WARNING, BEGUN, &said("I look"), &said("done"), &completed(1000, 400, 50)];
    for exit_code in [Some(0), None] {
        let end = end_of(&lines, exit_code, None);
        assert_eq!(end.outcome, Outcome::Reply { text: "done".to_owned() });
        let session = end.spent.session.unwrap();
        assert_eq!(session.as_str(), "01a1e084-8065-7fc3-b0cd-a773aa89505c");
    }
}

#[test]
fn usage_of_a_turn_is_the_difference_to_the_total_before() {
    let lines = [THREAD, BEGUN, &said("x"), &completed(1_000_000, 400_000, 50_000)];
    let first = end_of(&lines, Some(0), None);
    let tokens = first.spent.tokens;
    assert_eq!((tokens.input, tokens.cache_read, tokens.output), (600_000, 400_000, 50_000));
    assert_eq!(first.spent.cost_usd, Usd::from_dollars(0.6 + 0.04 + 0.5).unwrap());
    let lines = [THREAD, BEGUN, &said("y"), &completed(3_000_000, 1_400_000, 60_000)];
    let second = end_of(&lines, Some(0), first.total.as_deref());
    let tokens = second.spent.tokens;
    assert_eq!((tokens.input, tokens.cache_read, tokens.output), (1_000_000, 1_000_000, 10_000));
    // A count that has begun anew.
    let fresh =
        end_of(&[THREAD, BEGUN, &said("x"), &completed(7, 0, 1)], Some(0), second.total.as_deref());
    assert_eq!((fresh.spent.tokens.input, fresh.spent.tokens.output), (7, 1));
}

#[test]
fn turn_that_is_not_completed_is_a_failure_even_after_a_message() {
    let end = end_of(&[THREAD, BEGUN, &said("I begin <result>x</result>")], None, None);
    let Outcome::Failed(failure) = end.outcome else { panic!("no failure") };
    assert_eq!(failure.class, FailureClass::Killed);
    assert!(end.spent.session.is_some(), "it can be continued");
    assert_eq!(end.total, None);
    let end = end_of(&[THREAD, BEGUN, FAILED], Some(1), None);
    let Outcome::Failed(failure) = end.outcome else { panic!("no failure") };
    assert_eq!(failure.class, FailureClass::Billing);
    let end = end_of(&[THREAD, BEGUN, &completed(1, 0, 1)], Some(0), None);
    assert!(matches!(end.outcome, Outcome::Failed(_)), "no message");
}

#[test]
fn thread_that_did_not_begin_a_turn_is_not_continued() {
    assert_eq!(end_of(&[THREAD], None, None).spent.session, None);
}

#[test]
fn output_that_is_cut_at_any_byte_is_no_answer() {
    let whole = [THREAD, BEGUN, &said("done"), &completed(1000, 400, 50)].join("\n");
    for at in 0..whole.len() {
        let Some(part) = whole.get(..at) else { continue };
        let end = end_of(&[part], None, None);
        assert!(matches!(end.outcome, Outcome::Failed(_)), "cut at {at}");
        assert_eq!(end.spent.cost_usd, Usd::ZERO, "cut at {at}");
    }
}

#[test]
fn end_of_a_turn_depends_on_no_order_and_no_further_keys_or_lines() {
    let (answer, total) = (said("done"), completed(1000, 400, 50));
    for lines in [&[THREAD, BEGUN, &answer, &total][..], &[THREAD, WARNING, BEGUN, FAILED]] {
        let usual = end_of(lines, Some(0), None);
        each_variant(lines, |variant| {
            assert_eq!(end_of(variant, Some(0), None), usual, "{variant:#?}");
        });
    }
}
