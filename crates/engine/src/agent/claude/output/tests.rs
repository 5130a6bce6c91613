//! What Claude's output means, on samples of what it really printed.

mod cost;
mod failures;
mod hostile;

use std::fs;

use raymond_flow::{machine::Tokens, money::Usd};

use super::*;
use crate::agent::variants::each_variant;

/// Busy, for a time that is not known.
const TRANSIENT: FailureClass = FailureClass::Transient { retry_after_ms: None };

const INIT: &str = r#"{"type":"system","subtype":"init","model":"claude-sonnet-5","session_id":"s","claude_code_version":"2.1.326"}"#;

/// The end of a turn whose prompt had no id: what follows is judged as it comes.
fn end_of(lines: &[&str], stderr: &str, exit_code: Option<i32>, before: Option<&str>) -> TurnEnd {
    end_of_prompt("", lines, stderr, exit_code, before)
}

fn end_of_prompt(
    prompt: &str,
    lines: &[&str],
    stderr: &str,
    exit_code: Option<i32>,
    before: Option<&str>,
) -> TurnEnd {
    end_of_told(&[], prompt, lines, stderr, exit_code, before)
}

/// The same of a turn that could be given these messages.
fn end_of_told(
    told: &[&str],
    prompt: &str,
    lines: &[&str],
    stderr: &str,
    exit_code: Option<i32>,
    before: Option<&str>,
) -> TurnEnd {
    let told: Vec<_> = told.iter().map(|id| (*id).to_owned()).collect();
    let folder = tempfile::tempdir().unwrap();
    let [stdin, stdout, complaints] =
        ["prompt", "stdout", "stderr"].map(|name| folder.path().join(name));
    fs::write(&stdin, prompt).unwrap();
    fs::write(&stdout, lines.join("\n")).unwrap();
    fs::write(&complaints, stderr).unwrap();
    let stdout_bytes = fs::metadata(&stdout).unwrap().len();
    let (stdin, stdout, stderr) = (&*stdin, &*stdout, &*complaints);
    let is_first = before.is_none();
    outcome(
        &TurnOutput {
            stdin,
            stdout,
            stdout_bytes,
            stderr,
            exit_code,
            is_first,
            before,
            told: &told,
        },
        Path::new(""),
    )
    .unwrap()
}

#[test]
fn answer_after_a_message_is_the_answer_and_everything_is_paid() {
    let taken = r#"{"type":"user","uuid":"m1","isReplay":true,"message":{"content":[]}}"#;
    let (first, second) = (result("too early", 0.5, 10), result("done", 0.75, 20));
    let told = |lines: &[&str]| end_of_told(&["m1", "m2"], "", lines, "", Some(0), None);
    let end = told(&[INIT, &first, taken, &second]);
    assert_eq!(end.outcome, Outcome::Reply { text: "done".to_owned() });
    assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.75).unwrap());
    assert_eq!(end.spent.heard, ["m1"]);
    let end = told(&[INIT, taken, &first]);
    assert_eq!(end.outcome, Outcome::Reply { text: "too early".to_owned() });
    assert_eq!(end.spent.heard, ["m1"]);
    // It was killed before it answered the message.
    let end = told(&[INIT, &first, taken]);
    assert!(matches!(end.outcome, Outcome::Failed(_)), "{:?}", end.outcome);
    assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.5).unwrap());
    // Whoever repeats a line that Raymond did not write changes nothing.
    let end = end_of(&[INIT, &first, taken, &second], "", Some(0), None);
    assert_eq!(end.outcome, Outcome::Reply { text: "too early".to_owned() });
    assert_eq!(end.spent.heard, Vec::<String>::new());
}

fn end(lines: &[&str]) -> TurnEnd {
    end_of(lines, "", Some(0), None)
}

fn class(end: TurnEnd) -> FailureClass {
    match end.outcome {
        Outcome::Failed(failure) => failure.class,
        outcome => panic!("no failure: {outcome:?}"),
    }
}

/// The result of a turn that cost so much, with one model's tokens.
fn result(text: &str, cost: f64, input: u64) -> String {
    format!(
        r#"{{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"{text}","usage":{{"input_tokens":1000,"output_tokens":50}},"total_cost_usd":{cost},"modelUsage":{{"claude-sonnet-5":{{"inputTokens":{input},"outputTokens":50,"cacheReadInputTokens":7,"cacheCreationInputTokens":8}}}},"permission_denials":[]}}"#
    )
}

/// A reply that asks, in as many events as it has blocks; `parent` is the call of a subagent.
fn asking(id: &str, question: &str, parent: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"{id}","model":"claude-sonnet-5","role":"assistant","content":[{{"type":"tool_use","id":"toolu_0","name":"AskUserQuestion","input":{{"questions":[{{"question":"{question}","header":"Color","multiSelect":true,"options":[{{"label":"red","description":"r"}}]}}]}}}}]}},"parent_tool_use_id":{parent},"session_id":"s"}}"#
    )
}

const STOPPED: &str = r#"{"type":"result","subtype":"success","is_error":false,"api_error_status":null,"num_turns":2,"result":"","stop_reason":"tool_use","session_id":"s","total_cost_usd":0.00375,"permission_denials":[],"terminal_reason":"hook_stopped"}"#;

#[test]
fn turn_that_ends_after_questions_asks_all_of_its_last_reply() {
    let refused = asking("msg_0", "refused?", "null");
    let (which, what) = (asking("msg_1", "Which?", "null"), asking("msg_1", "What?", "null"));
    let inner = asking("msg_2", "a subagent's?", "\"toolu_9\"");
    let end = end(&[INIT, &refused, &which, &what, &inner, STOPPED]);
    let Outcome::Asks { questions } = &end.outcome else { panic!("{:?}", end.outcome) };
    let texts: Vec<_> = questions.iter().map(|question| question.text.as_str()).collect();
    assert_eq!(texts, ["Which?", "What?"]);
    assert!(questions[0].takes_several && questions[0].options[0].label == "red");
    assert_eq!(Some(end.spent.cost_usd), Usd::from_dollars(0.00375));
    assert_eq!(end.spent.session.unwrap().as_str(), "s");
}

#[test]
fn question_that_was_denied_or_a_stop_by_a_hook_of_the_user_is_no_question() {
    let which = asking("msg_0", "Which?", "null");
    let speaks = r#"{"type":"assistant","message":{"id":"msg_1","model":"claude-sonnet-5","content":[{"type":"text","text":"x"}]}}"#;
    for lines in [[INIT, &which, &result("x", 0.1, 1)], [INIT, speaks, STOPPED]] {
        assert!(matches!(end(&lines).outcome, Outcome::Reply { .. }), "{lines:?}");
    }
}

/// The calls and results of a turn that a hook ended, each with the reply that made the call and the words of its result.
fn denied(calls: &[(&str, &str, &str)]) -> TurnEnd {
    let mut lines = vec![INIT.to_owned()];
    let mut denials = Vec::new();
    for (id, reply, result) in calls {
        lines.push(format!(
            r#"{{"type":"assistant","message":{{"id":"{reply}","model":"claude-sonnet-5","content":[{{"type":"tool_use","id":"{id}","name":"Bash","input":{{"command":"run {id}"}}}}]}},"parent_tool_use_id":null}}"#
        ));
        lines.push(format!(
            r#"{{"type":"user","message":{{"role":"user","content":[{{"type":"tool_result","content":"{result}","is_error":true,"tool_use_id":"{id}"}}]}},"parent_tool_use_id":null}}"#
        ));
        denials.push(format!(
            r#"{{"tool_name":"Bash","tool_use_id":"{id}","tool_input":{{"command":"run {id}"}}}}"#
        ));
    }
    let told = format!(r#""permission_denials":[{}]"#, denials.join(","));
    lines.push(STOPPED.replace(r#""permission_denials":[]"#, &told));
    end(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

const CLOSED: &str = "Tool permission request failed: Error: Stream closed";

#[test]
fn turn_that_ends_at_a_tool_without_permission_asks_for_the_first_of_its_last_reply() {
    let ruled_out = "Permission to use Bash has been denied";
    let calls =
        [("a", "m1", CLOSED), ("b", "m2", ruled_out), ("c", "m2", CLOSED), ("d", "m2", CLOSED)];
    let end = denied(&calls);
    let Outcome::Asks { questions } = &end.outcome else { panic!("{:?}", end.outcome) };
    let [question] = &questions[..] else { panic!("{questions:?}") };
    let text = &question.text;
    assert!(
        text.starts_with("May the coding agent use `Bash`?\n\nrun c\n\n`allow` holds"),
        "{text}"
    );
    assert_eq!(question.grants.as_deref(), Some("Bash\n\"command\":\"run c\""));
    assert_eq!(end.spent.denied, ["Bash: run a", "Bash: run b"], "the others are not denied yet");
}

#[test]
fn stop_without_a_call_that_needs_a_permission_is_no_question() {
    let end = denied(&[("a", "m1", "Permission to use Bash has been denied")]);
    assert!(matches!(end.outcome, Outcome::Reply { .. }), "{:?}", end.outcome);
}

/// An API error: `success` by its subtype.
fn error(text: &str, status: &str) -> String {
    format!(
        r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":{status},"num_turns":1,"result":"{text}","total_cost_usd":0}}"#
    )
}

fn told(kind: &str) -> String {
    format!(r#"{{"type":"assistant","error":"{kind}","message":{{"content":[]}}}}"#)
}

#[test]
fn answer_has_its_text_cost_tokens_model_and_version() {
    let end = end(&[INIT, &result("fin <goto>A</goto>", 0.0075, 2000)]);
    assert_eq!(end.outcome, Outcome::Reply { text: "fin <goto>A</goto>".to_owned() });
    assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.0075).unwrap());
    let tokens = Tokens { input: 2000, output: 50, cache_read: 7, cache_write: 8 };
    assert_eq!((end.spent.tokens, end.spent.model.as_deref()), (tokens, Some("claude-sonnet-5")));
    assert_eq!(end.spent.version.as_deref(), Some("claude 2.1.326"));
}

#[test]
fn what_follows_the_answer_does_not_change_it_but_its_cost_counts() {
    let [first, second] = [result("first", 0.1, 1), result("second", 0.2, 2)];
    let end = end(&[INIT, &first, "not json", &told("rate_limit"), &second, "{"]);
    assert_eq!(end.outcome, Outcome::Reply { text: "first".to_owned() });
    assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.2).unwrap());
}

/// The line of a prompt with id `7`, and what Claude repeats of it.
const PROMPT: &str = r#"{"uuid":"7","type":"user","message":{"role":"user","content":[]}}"#;
const TAKEN_UP: &str = r#"{"type":"user","message":{"role":"user","content":[{"type":"text","text":"x"}]},"uuid":"7","isReplay":true}"#;

#[test]
fn answer_is_the_result_that_follows_the_turns_own_prompt() {
    let [other, own, later] =
        [result("other", 0.25, 1), result("own", 0.5, 2), result("later", 1.0, 3)];
    let before = end(&[&result("before", 0.125, 1)]).total.unwrap();
    let of = |lines: &[&str]| end_of_prompt(PROMPT, lines, "", Some(0), Some(&before));
    // Whether they come before it, after it, or in both places.
    let cases: [(&[&str], f64); 4] = [
        (&[INIT, TAKEN_UP, &own], 0.375),
        (&[INIT, &other, INIT, TAKEN_UP, &own], 0.375),
        (&[INIT, TAKEN_UP, &own, INIT, &later], 0.875),
        (&[&other, INIT, TAKEN_UP, &own, INIT, &later], 0.875),
    ];
    for (lines, cost) in cases {
        let end = of(lines);
        assert_eq!(end.outcome, Outcome::Reply { text: "own".to_owned() }, "{lines:?}");
        assert_eq!(end.spent.cost_usd, Usd::from_dollars(cost).unwrap(), "{lines:?}");
    }
}

#[test]
fn result_of_another_turn_is_not_the_answer_but_is_paid() {
    let before = end(&[&result("before", 0.125, 1)]).total.unwrap();
    let other = result("<goto>WRONG</goto>", 0.375, 1);
    let end = end_of_prompt(PROMPT, &[INIT, &other], "", None, Some(&before));
    assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.25).unwrap());
    assert_eq!(class(end), FailureClass::Killed);
    let end = end_of_prompt(PROMPT, &[INIT, &other], "", Some(0), Some(&before));
    let Outcome::Failed(failure) = end.outcome else { panic!("{:?}", end.outcome) };
    assert!(failure.message.contains("`--warm 0`"), "{failure:?}");
}

#[test]
fn first_answer_of_a_process_counts_although_its_prompt_is_not_repeated() {
    let end = end_of_prompt(PROMPT, &[INIT, &result("mine", 0.1, 1)], "", Some(0), None);
    assert_eq!(end.outcome, Outcome::Reply { text: "mine".to_owned() });
}

#[test]
fn prompt_that_was_not_taken_up_fails_with_the_reason() {
    let missing = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: x"]}"#;
    let blocked = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":0,"result":"blocked by hook","usage":{"input_tokens":0,"output_tokens":0}}"#;
    let of = |line| class(end_of_prompt(PROMPT, &[line], "", Some(0), None));
    assert_eq!(of(missing), FailureClass::SessionMissing);
    assert_eq!(of(blocked), FailureClass::Refused);
}

#[test]
fn denials_are_reported_once_each() {
    let denied = |ids: &[&str]| {
        let denials: Vec<_> = ids
            .iter()
            .map(|id| format!(r#"{{"tool_name":"Bash","tool_use_id":"{id}","tool_input":{{"command":"curl {id}"}}}}"#))
            .collect();
        let denials = format!(r#""permission_denials":[{}]"#, denials.join(","));
        result("x", 0.1, 1).replace(r#""permission_denials":[]"#, &denials)
    };
    let first = end(&[&denied(&["one"])]);
    assert_eq!(first.spent.denied, ["Bash: curl one"]);
    let second = end_of(&[&denied(&["one", "two"])], "", Some(0), first.total.as_deref());
    assert_eq!(second.spent.denied, ["Bash: curl two"]);
}

#[test]
fn result_for_which_no_model_was_asked_is_no_answer_whatever_the_process_has_spent() {
    // As a kept process prints it: the cost is that of the turns before.
    let blocked = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":0,"result":"UserPromptSubmit operation blocked by hook: no","stop_reason":null,"total_cost_usd":0.00375,"usage":{"input_tokens":0,"output_tokens":0},"modelUsage":{"claude-sonnet-5":{"inputTokens":1000}}}"#;
    let synthetic = r#"{"type":"assistant","message":{"model":"<synthetic>","content":[{"type":"text","text":"Unknown command: /x"}]}}"#;
    for lines in [&[INIT, blocked][..], &[INIT, synthetic, blocked]] {
        assert_eq!(class(end(lines)), FailureClass::Refused, "{lines:?}");
    }
}

#[test]
fn answer_of_a_model_that_reports_no_usage_is_an_answer() {
    let said = r#"{"type":"assistant","message":{"model":"local","content":[{"type":"text","text":"hi"}]}}"#;
    let line = r#"{"type":"result","subtype":"success","is_error":false,"num_turns":1,"result":"hi","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}"#;
    assert_eq!(end(&[INIT, said, line]).outcome, Outcome::Reply { text: "hi".to_owned() });
}

#[test]
fn failures_are_classified() {
    use FailureClass::{
        Authentication, Billing, Budget, Other, PromptTooLong, Refused, SessionMissing,
        UnknownModel, UsageLimit,
    };
    let cases: [(&[&str], FailureClass); 17] = [
        (&[&told("authentication_failed"), &error("Invalid API key", "401")], Authentication),
        (&[&told("billing_error"), &error("Credit balance is too low", "400")], Billing),
        (
            &[&told("model_not_found"), &error("There's an issue with the model", "404")],
            UnknownModel,
        ),
        (
            &[&told("rate_limit"), &error("API Error: Request rejected (429) · slow", "429")],
            UsageLimit { resets_at: None },
        ),
        (&[&told("server_error"), &error("API Error: 529 Overloaded.", "529")], TRANSIENT),
        (&[&told("server_error"), &error("Request timed out", "null")], TRANSIENT),
        (&[&told("unknown"), &error("API Error: 400 bad thing", "400")], Other),
        // What has no name of its own has a status.
        (&[&told("unknown"), &error("API Error: 402 pay", "402")], Billing),
        (&[&told("unknown"), &error("API Error: 408 too slow", "408")], TRANSIENT),
        (&[&error("API Error: 503", "503")], TRANSIENT),
        (&[&error("API Error: 403", "403")], Authentication),
        (&[&told("invalid_request"), &error("Request too large", "413")], PromptTooLong),
        (
            &[
                &told("rate_limit"),
                &error(
                    "API Error: Request rejected (429) · Claude AI usage limit reached|1794770000",
                    "429",
                ),
            ],
            UsageLimit { resets_at: Some(1_794_770_000) },
        ),
        (
            &[
                r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1771390800000}}"#,
                &told("rate_limit"),
                &error("You have hit your limit", "429"),
            ],
            UsageLimit { resets_at: Some(1_771_390_800) },
        ),
        (
            &[
                r#"{"type":"result","subtype":"error_max_budget_usd","is_error":true,"errors":["Reached maximum budget ($0.01)"],"total_cost_usd":0.02}"#,
            ],
            Budget,
        ),
        (
            &[
                r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: x"]}"#,
            ],
            SessionMissing,
        ),
        (
            &[
                r#"{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"API Error: unable to respond","stop_reason":"refusal"}"#,
            ],
            Refused,
        ),
    ];
    for (lines, expected) in cases {
        assert_eq!(class(end_of(lines, "", Some(1), None)), expected, "{lines:?}");
    }
}

#[test]
fn usage_limit_is_found_in_an_event_or_a_message() {
    let event =
        |info: &str| format!(r#"{{"type":"rate_limit_event","rate_limit_info":{{{info}}}}}"#);
    let (limited, words) = (told("rate_limit"), "You've hit your session limit");
    let at = |resets_at| FailureClass::UsageLimit { resets_at };
    let of = |lines: &[&str]| class(end_of(lines, "", Some(1), None));
    let rejected = event(r#""status":"rejected""#);
    // Neither names a time.
    assert_eq!(of(&[&rejected, &limited, &error("Request rejected", "429")]), at(None));
    assert_eq!(of(&[&limited, &error(words, "429")]), at(None));
    // Either does, in seconds or milliseconds.
    let timed = format!("{words} · resets Dec 1, 2026, 1am (UTC)");
    assert_eq!(of(&[&rejected, &limited, &error(&timed, "429")]), at(Some(1_796_086_800)));
    for time in ["1796086801", "1796086801000"] {
        let exact = event(&format!(r#""status":"rejected","resetsAt":{time}"#));
        assert_eq!(of(&[&exact, &limited, &error(&timed, "429")]), at(Some(1_796_086_801)));
    }
    // It is over, or does not matter, and requests are limited; or something else went wrong.
    let allowed = event(r#""status":"allowed""#);
    let overage = event(r#""status":"rejected","isUsingOverage":true"#);
    let slow = error("API Error: Request rejected (429) · slow", "429");
    for last in [&allowed, &overage] {
        assert_eq!(of(&[&rejected, last, &limited, &slow]), at(None));
    }
    let broken = [&*rejected, &told("server_error"), &error("API Error: 500", "500")];
    assert_eq!(of(&broken), TRANSIENT);
    let spend = error("You've hit your monthly spend limit. /model to switch models.", "429");
    assert_eq!(of(&[&limited, &spend]), FailureClass::Billing);
}

/// An event about a wait, as Claude prints it.
fn waits(attempt: usize, ms: &str) -> String {
    format!(
        r#"{{"retry_delay_ms":{ms},"attempt":{attempt},"type":"system","subtype":"api_retry"}}"#
    )
}

#[test]
fn wait_that_the_provider_asked_for_is_longer_than_claudes_own() {
    let of = |lines: &[&str]| class(end_of(lines, "", Some(1), None));
    let busy = [&told("server_error"), &error("API Error: 529 Overloaded.", "529")];
    let after = |ms| FailureClass::Transient { retry_after_ms: ms };
    for (waits_ms, expected) in [
        (&["3000", "3000"][..], Some(3000)),
        // Newer versions wait a little longer than they are asked to.
        (&["3352", "3111"], Some(3000)),
        (&["1247", "1003"], Some(1000)),
        // Their own times.
        (&["545.5", "1091.9"], None),
        (&["624", "1249", "2499"], None),
        (&["0", "-5000", "1e300"], None),
    ] {
        let waited: Vec<String> =
            (1..).zip(waits_ms).map(|(attempt, ms)| waits(attempt, ms)).collect();
        let lines: Vec<&str> =
            waited.iter().map(String::as_str).chain(busy.map(String::as_str)).collect();
        assert_eq!(of(&lines), after(expected), "{waits_ms:?}");
    }
    let limited =
        [&*waits(1, "20000"), &told("rate_limit"), &error("Request rejected (429)", "429")];
    assert!(matches!(of(&limited), FailureClass::UsageLimit { resets_at: Some(_) }));
}

#[test]
fn answer_that_mentions_a_usage_limit_is_an_answer() {
    for text in
        ["You've hit your limit · resets 3pm (UTC)", "Claude AI usage limit reached|1794770000"]
    {
        let rejected = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected"}}"#;
        for lines in [&[INIT, &result(text, 0.1, 1)][..], &[rejected, &result(text, 0.1, 1)]] {
            assert_eq!(end(lines).outcome, Outcome::Reply { text: text.to_owned() });
        }
    }
}

#[test]
fn too_long_prompt_is_recognised_by_the_terminal_reason() {
    let line = r#"{"type":"result","subtype":"success","is_error":true,"num_turns":1,"result":"Prompt is too long","terminal_reason":"prompt_too_long"}"#;
    assert_eq!(class(end(&[line])), FailureClass::PromptTooLong);
}

#[test]
fn end_without_a_result_is_a_failure_whatever_the_exit_code() {
    let of = |stderr, code| class(end_of(&[INIT], stderr, code, None));
    assert_eq!(of("", Some(0)), FailureClass::Other);
    assert_eq!(of("", None), FailureClass::Killed);
    assert_eq!(of("", Some(143)), FailureClass::Killed);
    assert_eq!(of("error: unknown option '--x'", Some(1)), FailureClass::Misconfigured);
    let root = "--dangerously-skip-permissions cannot be used with root/sudo privileges for security reasons";
    assert_eq!(of(root, Some(1)), FailureClass::Misconfigured);
}

#[test]
fn end_of_a_turn_depends_on_no_order_and_no_further_keys_or_lines() {
    let windows = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","unifiedWindows":{"five_hour":{"utilization":0.85,"resetsAt":1794999999}}}}"#;
    let tool = replying(r#"{"type":"tool_use","id":"t","name":"Bash","input":{"command":"ls"}}"#);
    let answer = result("done", 0.5, 1000);
    let (failed, told) = (error("API Error: 529 Overloaded", "529"), told("overloaded"));
    let since = cost::summed(0.75, Some(0.25), [3000, 1000]);
    for lines in [
        [INIT, windows, &tool, &answer],
        [INIT, windows, &tool, &since],
        [INIT, windows, &told, &failed],
        [INIT, &tool, STOPPED, windows],
    ] {
        let usual = end(&lines);
        each_variant(&lines, |variant| assert_eq!(end(variant), usual, "{variant:#?}"));
    }
}

#[test]
fn field_of_another_type_is_as_good_as_missing() {
    let odd = r#""is_error":false,"errors":[{"code":1}],"uuid":7,"stop_reason":{},"permission_denials":{},"api_error":["x"],"modelUsage":{"a":"much","b":{"inputTokens":"9","outputTokens":5}}"#;
    let line = result("done", 0.5, 10).replace(r#""is_error":false"#, odd);
    let line = line.replace(r#""modelUsage":{"claude-sonnet-5""#, r#""more":{"claude-sonnet-5""#);
    let line = line.replace(r#","permission_denials":[]"#, "");
    let end = end(&[INIT, &line]);
    assert_eq!(end.outcome, Outcome::Reply { text: "done".to_owned() });
    assert_eq!(Some(end.spent.cost_usd), Usd::from_dollars(0.5));
    assert_eq!((end.spent.tokens.input, end.spent.tokens.output), (0, 5));
    let end = end_of(&[&result("done", 0.5, 10).replace("0.5", "\"much\"")], "", Some(0), None);
    assert_eq!(end.outcome, Outcome::Reply { text: "done".to_owned() });
    assert_eq!(end.spent.doubt.as_deref(), Some("Claude reports no cost"));
}

#[test]
fn activity_shows_messages_tools_and_waits() {
    let of = |line: &str| activity(line.as_bytes());
    let says = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"Let me see.\nThen"}]}}"#;
    assert_eq!(of(says), Some(Activity::Says("Let me see. Then".to_owned())));
    let uses = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":"ls -l"}}]}}"#;
    let expected = Activity::Uses { tool: "Bash".to_owned(), what: "ls -l".to_owned() };
    assert_eq!(of(uses), Some(expected));
    for (error, why) in [
        (r#""error_status":529,"error":"overloaded""#, "overloaded"),
        (r#""error_status":401,"error":"authentication_failed""#, "authentication failed"),
        (r#""error_status":null,"error":"unknown""#, "the API cannot be reached"),
        (r#""error_status":418,"error":"unknown""#, "the API answers with status 418"),
    ] {
        let waits = format!(
            r#"{{"type":"system","subtype":"api_retry","retry_delay_ms":2563.08,{error}}}"#
        );
        let expected = Activity::Waits(format!("{why}; Claude tries again in 3 s"));
        assert_eq!(of(&waits), Some(expected));
    }
    assert_eq!(of(INIT), None);
    assert_eq!(of("garbage"), None);
}

#[test]
fn what_a_kept_process_prints_later_belongs_to_other_turns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stdout");
    let first = format!("{INIT}\n{}\n", result("first", 0.1, 1));
    fs::write(&path, format!("{first}{}\n", result("second", 0.3, 3))).unwrap();
    let stdout_bytes = first.len() as u64;
    let (stdin, stdout, stderr) = (&*path, &*path, &*path);
    let (exit_code, before) = (Some(0), None);
    let is_first = before.is_none();
    let output =
        TurnOutput { stdin, stdout, stdout_bytes, stderr, exit_code, is_first, before, told: &[] };
    let end = outcome(&output, Path::new("")).unwrap();
    assert_eq!(end.outcome, Outcome::Reply { text: "first".to_owned() });
    assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.1).unwrap());
}

#[test]
fn answer_or_session_that_is_too_long_is_not_tried_again() {
    for (words, expected) in [
        (
            "API Error: Claude's response exceeded the 128000 output token maximum.",
            FailureClass::AnswerTooLong,
        ),
        ("API Error: The model has reached its context window limit.", FailureClass::PromptTooLong),
    ] {
        let assistant = told("max_output_tokens");
        let result = error(words, "null");
        assert_eq!(class(end_of(&[INIT, &assistant, &result], "", Some(1), None)), expected);
    }
}

#[test]
fn another_model_that_claude_goes_on_with_is_told_and_is_the_one_of_the_turn() {
    let line = r#"{"type":"system","subtype":"model_refusal_fallback","original_model":"a","fallback_model":"claude-sonnet-5","content":"Switched"}"#;
    let said = activity(line.as_bytes());
    assert_eq!(said, Some(Activity::Waits("goes on with claude-sonnet-5: Switched".to_owned())));
    let end = end(&[INIT, line, &result("x", 0.1, 1)]);
    assert_eq!(end.spent.model.as_deref(), Some("claude-sonnet-5"));
}

/// A reply with these blocks of content.
fn replying(blocks: &str) -> String {
    format!(
        r#"{{"type":"assistant","message":{{"id":"m","model":"claude-sonnet-5","content":[{blocks}]}},"parent_tool_use_id":null}}"#
    )
}

#[test]
fn structured_output_comes_with_what_the_model_said_since_its_last_other_tool() {
    let text = |text: &str| replying(&format!(r#"{{"type":"text","text":"{text}"}}"#));
    let uses = |tool: &str| {
        replying(&format!(r#"{{"type":"tool_use","id":"t","name":"{tool}","input":{{}}}}"#))
    };
    let closing = result(r#"{\"risk\":\"low\"}"#, 0.01, 1);
    let closing = closing.replacen('{', r#"{"structured_output":{"risk":"low"},"#, 1);
    let (output, other) = (uses("StructuredOutput"), uses("Bash"));
    for (lines, expected) in [
        (vec![text("I plan <goto>A</goto>"), other.clone(), output.clone()], ""),
        (vec![text("<goto>A</goto>"), output.clone()], "<goto>A</goto>"),
        (vec![text("one"), output.clone(), text("two"), output.clone()], "one\n\ntwo"),
        (vec![other, text("<goto>A</goto>"), output], "<goto>A</goto>"),
    ] {
        let mut lines: Vec<_> = lines.iter().map(String::as_str).collect();
        lines.push(&closing);
        let end = end(&lines);
        assert_eq!(end.outcome, Outcome::Reply { text: expected.to_owned() }, "{lines:?}");
        assert_eq!(end.spent.output.as_deref(), Some(r#"{"risk":"low"}"#));
    }
}
