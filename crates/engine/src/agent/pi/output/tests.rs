#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::fs;

use super::*;
use crate::agent::variants::each_variant;

const SESSION: &str = r#"{"type":"session","version":3,"id":"own","cwd":"DIR"}"#;
const SETTLED: &str = r#"{"type":"agent_settled"}"#;

/// A message of the model, as pi 0.87.1 prints it.
fn said(text: &str, more: &str) -> String {
    format!(
        r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"provider":"fake","model":"gpt-5.2","usage":{{"input":600,"output":50,"cacheRead":400,"cacheWrite":0,"reasoning":0,"totalTokens":1050,"cost":{{"input":0.00075,"output":0.0005,"cacheRead":0.00005,"cacheWrite":0,"total":0.0013}}}},{more}}}}}"#
    )
}

fn end_of(lines: &[&str], exit_code: Option<i32>, stderr: &str) -> TurnEnd {
    let folder = tempfile::tempdir().unwrap();
    let (stdout, errors) = (folder.path().join("stdout"), folder.path().join("stderr"));
    let text = lines.join("\n");
    fs::write(&stdout, &text).unwrap();
    fs::write(&errors, stderr).unwrap();
    let output = TurnOutput {
        is_first: true,
        stdin: &stdout,
        stdout: &stdout,
        stdout_bytes: text.len() as u64,
        stderr: &errors,
        exit_code,
        before: None,
        told: &[],
    };
    outcome(&output, None).unwrap()
}

fn failure(end: TurnEnd) -> TurnFailure {
    match end.outcome {
        Outcome::Failed(failure) => failure,
        outcome => panic!("no failure: {outcome:?}"),
    }
}

#[test]
fn answer_is_the_last_message_and_all_of_them_cost() {
    let tool = said("I look", r#""stopReason":"toolUse""#);
    let answer = said("done", r#""stopReason":"stop""#);
    let end = end_of(&[SESSION, &tool, &answer, SETTLED], Some(0), "");
    assert_eq!(end.outcome, Outcome::Reply { text: "done".to_owned() });
    assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.0026).unwrap());
    let tokens = end.spent.tokens;
    assert_eq!((tokens.input, tokens.cache_read, tokens.output), (1200, 800, 100));
    assert_eq!(end.spent.session.unwrap().as_str(), "own");
    assert_eq!(end.spent.model.as_deref(), Some("gpt-5.2"));
}

#[test]
fn error_is_a_failure_although_pi_exits_with_0() {
    for (message, class) in [
        (
            r#"401: {\"code\":\"invalid_api_key\",\"message\":\"Incorrect API key\"}"#,
            FailureClass::Authentication,
        ),
        (
            r#"429: {\"code\":\"rate_limit_exceeded\",\"message\":\"Rate limit reached.\"}"#,
            FailureClass::UsageLimit { resets_at: None },
        ),
        (
            r#"429: {\"code\":\"insufficient_quota\",\"message\":\"You exceeded your current quota\"}"#,
            FailureClass::Billing,
        ),
        (r#"400: {\"code\":\"context_length_exceeded\"}"#, FailureClass::PromptTooLong),
        (r#"404: {\"code\":\"model_not_found\"}"#, FailureClass::UnknownModel),
        (r#"503: {\"message\":\"busy\"}"#, FailureClass::Transient { retry_after_ms: None }),
        ("what", FailureClass::Other),
    ] {
        let line = said("", &format!(r#""stopReason":"error","errorMessage":"{message}""#));
        let end = end_of(&[SESSION, &line, SETTLED], Some(0), "");
        assert_eq!(failure(end).class, class, "{message}");
    }
}

#[test]
fn output_without_an_end_is_a_failure_that_says_how_it_ended() {
    let answer = said("done", r#""stopReason":"stop""#);
    assert_eq!(failure(end_of(&[SESSION, &answer], None, "")).class, FailureClass::Killed);
    let warned = "Warning: no session\nError: Model \"nope/x\" not found.";
    let unknown = failure(end_of(&[], Some(1), warned));
    assert_eq!(unknown.class, FailureClass::UnknownModel);
    assert_eq!(unknown.message, "Error: Model \"nope/x\" not found.");
    let silent = failure(end_of(&[], Some(1), ""));
    assert_eq!(silent.message, "pi exited with code 1 without an answer");
}

#[test]
fn output_that_is_cut_at_any_byte_is_no_answer() {
    let answer = said("done", r#""stopReason":"stop""#);
    let whole = [SESSION, &answer, SETTLED].join("\n");
    for at in 0..whole.len() {
        let end = end_of(&[whole.get(..at).unwrap()], None, "");
        assert!(matches!(end.outcome, Outcome::Failed(_)), "cut at {at}");
    }
}

#[test]
fn end_of_a_turn_depends_on_no_order_and_no_further_keys_or_lines() {
    let tool = said("I look", r#""stopReason":"toolUse""#);
    let answer = said("done", r#""stopReason":"stop""#);
    let failed = said("", r#""stopReason":"error","errorMessage":"503 Overloaded""#);
    for lines in [[SESSION, &tool, &answer, SETTLED], [SESSION, &tool, &failed, SETTLED]] {
        let usual = end_of(&lines, Some(0), "");
        each_variant(&lines, |variant| {
            assert_eq!(end_of(variant, Some(0), ""), usual, "{variant:#?}");
        });
    }
}

#[test]
fn cost_that_is_wrong_or_missing_is_doubted() {
    let doubt = |total: &str| {
        let said = said("done", r#""stopReason":"stop""#).replace(r#""total":0.0013"#, total);
        end_of(&[SESSION, &said, SETTLED], Some(0), "").spent.doubt
    };
    assert_eq!(doubt(r#""total":0"#), None, "a model of one's own");
    assert_eq!(doubt(r#""total":-3"#).as_deref(), Some("pi reports a cost of -3 dollars"));
    for missing in [r#""other":1"#, r#""total":"much""#] {
        assert_eq!(doubt(missing).as_deref(), Some("pi reports no cost"), "{missing}");
    }
}
