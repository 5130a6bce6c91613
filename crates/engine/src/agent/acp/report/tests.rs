#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use super::*;

/// The lines that a report prints for these updates, and then for the end of the turn.
fn printed(allowed: Option<&[&str]>, feed: impl FnOnce(&mut Report<'_>)) -> Vec<Value> {
    let mut out = Vec::new();
    let allowed = allowed.map(|kinds| kinds.iter().map(|kind| (*kind).to_owned()).collect());
    let mut report = Report::new(&mut out, allowed, false, Cost::default());
    report.asked();
    feed(&mut report);
    let text = String::from_utf8(out).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn see(report: &mut Report<'_>, update: &Value) {
    report.notified("session/update", &json!({ "update": update })).unwrap();
}

fn says(report: &mut Report<'_>, id: &str, text: &str) {
    let content = json!({ "type": "text", "text": text });
    see(
        report,
        &json!({ "sessionUpdate": "agent_message_chunk", "content": content, "messageId": id }),
    );
}

fn costs(report: &mut Report<'_>, amount: f64) {
    let cost = json!({ "amount": amount, "currency": "USD" });
    see(report, &json!({ "sessionUpdate": "usage_update", "used": 1, "cost": cost }));
}

fn ask(report: &mut Report<'_>, kind: &str) -> Value {
    let options = json!([
        { "optionId": "y", "kind": "allow_once" },
        { "optionId": "n", "kind": "reject_once" },
    ]);
    let tool = json!({ "toolCallId": "t", "kind": kind, "title": "touch x", "rawInput": { "command": "touch x" } });
    let params = json!({ "toolCall": tool, "options": options });
    report.asked_permission(&params)
}

impl Report<'_> {
    fn asked_permission(&mut self, params: &Value) -> Value {
        let answer = self.asked_for("session/request_permission", params);
        answer["outcome"]["optionId"].clone()
    }

    fn asked_for(&mut self, method: &str, params: &Value) -> Value {
        Handler::asked(self, method, params).unwrap().unwrap()
    }
}

#[test]
fn answer_is_the_last_message_in_all_its_pieces() {
    let lines = printed(None, |report| {
        says(report, "a", "I look");
        says(report, "b", "<result>");
        says(report, "b", "x</result>");
        report
            .end(
                "s",
                "end_turn",
                &json!({ "inputTokens": 600, "cachedReadTokens": 400, "outputTokens": 50 }),
            )
            .unwrap();
    });
    assert_eq!(lines[0], json!({ "says": "I look" }));
    let end = &lines[1];
    assert_eq!((&end["result"], &end["session"]), (&json!("<result>x</result>"), &json!("s")));
    assert_eq!((&end["input_tokens"], &end["cached_input_tokens"]), (&json!(600), &json!(400)));
    assert_eq!(end.get("cost_usd"), None);
}

#[test]
fn cost_is_in_the_last_line_of_a_failure_too() {
    let lines = printed(None, |report| {
        costs(report, 0.5);
        report.fail(json!({ "error": "no" })).unwrap();
    });
    assert_eq!(lines[0], json!({ "error": "no", "cost_usd": 0.5, "carried_usd": 0.5 }));
}

#[test]
fn question_for_a_tool_is_answered_by_its_kind() {
    let lines = printed(Some(&["read", "edit"]), |report| {
        assert_eq!(ask(report, "edit"), "y");
        assert_eq!(ask(report, "execute"), "n");
        report.end("s", "end_turn", &json!({ "inputTokens": 1 })).unwrap();
    });
    assert_eq!(lines.last().unwrap()["denied"], json!(["execute: touch x"]));
    assert!(lines.iter().any(|line| line["tool"]["outcome"] == "denied"), "{lines:?}");
    printed(None, |report| assert_eq!(ask(report, "execute"), "y"));
}

#[test]
fn tool_is_told_when_it_begins_and_ends() {
    let lines = printed(None, |report| {
        see(
            report,
            &json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "name": "Bash", "kind": "execute", "title": "Terminal", "rawInput": {}, "status": "pending" }),
        );
        see(
            report,
            &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "rawInput": { "command": "ls" } }),
        );
        see(
            report,
            &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "rawOutput": "a.txt" }),
        );
    });
    let told: Vec<_> =
        lines.iter().map(|line| (&line["tool"]["on"], &line["tool"]["outcome"])).collect();
    let expected = [
        (json!("Terminal"), json!("open")),
        (json!("ls"), json!("open")),
        (json!("ls"), json!("done")),
    ];
    assert_eq!(told, expected.iter().map(|(on, outcome)| (on, outcome)).collect::<Vec<_>>());
    assert_eq!(
        (&lines[2]["tool"]["name"], &lines[2]["tool"]["output"]),
        (&json!("Bash"), &json!("a.txt"))
    );
}

#[test]
fn output_in_pieces_is_that_of_the_tool() {
    let lines = printed(None, |report| {
        let update = json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "name": "exec_command", "title": "ls" });
        see(report, &update);
        for piece in ["a.t", "xt\n"] {
            let meta = json!({ "terminal_output_delta": { "data": piece, "terminal_id": "t" } });
            see(
                report,
                &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "_meta": meta }),
            );
        }
        see(
            report,
            &json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" }),
        );
    });
    let last = &lines.last().unwrap()["tool"];
    assert_eq!((&last["outcome"], &last["output"]), (&json!("done"), &json!("a.txt\n")));
}

#[test]
fn failure_that_is_told_as_an_answer_is_a_failure() {
    let class = |text: &str, usage: Value| {
        let lines = printed(None, |report| {
            says(report, "a", text);
            report.end("s", "end_turn", &usage).unwrap();
        });
        lines[0]["class"].clone()
    };
    let error = "Ran into this error: Authentication error: Status: 401 Unauthorized.";
    assert_eq!(class(error, Value::Null), "authentication");
    assert_eq!(class(error, json!({ "inputTokens": 1 })), Value::Null, "the model said it");
    let answer = format!("It said: {error} <result>x</result>");
    assert_eq!(class(&answer, Value::Null), Value::Null, "that is an answer");
    assert_eq!(class("All is well.", Value::Null), Value::Null);
}

/// Whether a session with this history (`>` begins a message of the user) is left in a turn with the prompt `Do it`.
fn is_left(history: &[&str]) -> bool {
    let mut out = Vec::new();
    let mut report = Report::new(&mut out, None, false, Cost::default());
    for message in history {
        let (kind, text) = match message.strip_prefix('>') {
            Some(text) => ("user_message_chunk", text),
            None => ("agent_message_chunk", *message),
        };
        see(&mut report, &json!({ "sessionUpdate": kind, "content": { "text": text } }));
    }
    report.is_left_at("Do it\n")
}

#[test]
fn history_says_whether_the_prompt_waits_for_its_answer() {
    assert!(is_left(&[">Do it"]));
    assert!(is_left(&[">Begin", "<goto>X</goto>", ">Do", "> it"]), "in pieces");
    assert!(is_left(&[">Do it", "I run the tests first"]), "cut off after a message");
    assert!(is_left(&[">Do it", "I run", ">Continue", "So I"]), "cut off twice");
    assert!(!is_left(&[">Do it", "<goto>", "X</goto>"]), "answered");
    assert!(!is_left(&[">Do it", "<goto>X</goto>", ">Else"]), "a later one");
    assert!(!is_left(&[]), "never given");
}

#[test]
fn thought_in_pieces_is_one() {
    let lines = printed(None, |report| {
        for text in ["I ", "think"] {
            see(
                report,
                &json!({ "sessionUpdate": "agent_thought_chunk", "content": { "text": text } }),
            );
        }
        says(report, "a", "x");
        report.end("s", "end_turn", &json!({ "inputTokens": 1 })).unwrap();
    });
    assert_eq!(lines[0], json!({ "thinks": "I think" }));
    assert_eq!(lines[1]["result"], "x");
}

#[test]
fn answer_without_end_is_a_failure_of_bounded_size() {
    let piece = "x".repeat(1024 * 1024);
    let lines = printed(None, |report| {
        for _ in 0..5 {
            says(report, "a", &piece);
        }
        report.end("s", "end_turn", &json!({ "inputTokens": 1 })).unwrap();
    });
    assert_eq!(lines[0]["error"], "the answer is longer than 2 MiB");
}

#[test]
fn question_for_a_tool_ends_the_turn_where_a_person_is_asked() {
    let mut out = Vec::new();
    let mut report = Report::new(&mut out, Some(vec!["read".to_owned()]), true, Cost::default());
    report.asked();
    assert_eq!(ask(&mut report, "read"), "y");
    assert!(!report.ends_turn());
    assert_eq!(ask(&mut report, "execute"), Value::Null, "neither allowed nor refused");
    assert!(report.ends_turn());
    report.end("s", "cancelled", &Value::Null).unwrap();
    let text = String::from_utf8(out).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!((&last["asks"][0]["tool"], &last["session"]), (&json!("execute"), &json!("s")));
    assert_eq!(last["denied"], json!([]));
}

#[test]
fn what_a_person_allows_is_shown_whole_and_is_nothing_else() {
    let asked = |input: &Value| {
        let mut out = Vec::new();
        let mut report = Report::new(&mut out, Some(Vec::new()), true, Cost::default());
        report.asked();
        let tool = json!({ "toolCallId": "t", "kind": "execute", "title": "x", "rawInput": input });
        report.asked_permission(&json!({ "toolCall": tool, "options": [] }));
        report.question.take().unwrap()
    };
    let is_allowed = |granted: &str, input: &Value| {
        let mut out = Vec::new();
        let allowed = Some(vec![granted.to_owned()]);
        let mut report = Report::new(&mut out, allowed, true, Cost::default());
        report.asked();
        let tool = json!({ "toolCallId": "t", "kind": "execute", "title": "x", "rawInput": input });
        let options = json!([{ "optionId": "y", "kind": "allow_once" }]);
        report.asked_permission(&json!({ "toolCall": tool, "options": options })) == "y"
    };
    let long = format!("echo {} && rm -rf /", "x".repeat(500));
    let command = json!({ "command": long, "description": "first" });
    let question = asked(&command);
    assert!(question.text.starts_with(&format!("{long}\n\nIn the directory /")), "{question:?}");
    assert!(question.text.contains("whatever the files that it names contain"), "{question:?}");
    let grant = question.grants.unwrap();
    assert!(!grant.contains(','));
    assert!(is_allowed(&grant, &json!({ "command": long, "description": "second" })));
    for other in [
        json!({ "command": "rm -rf /" }),
        json!({ "command": long, "cwd": "/elsewhere" }),
        json!({ "command": long, "args": ["more"] }),
        json!({ "description": long }),
    ] {
        assert!(!is_allowed(&grant, &other), "{other}");
    }
    let several = asked(&json!({ "command": "make", "cwd": "/elsewhere" }));
    assert!(several.text.contains("\"cwd\": \"/elsewhere\""), "{several:?}");
    let too_long = asked(&json!({ "command": "x".repeat(ASKED_BYTES_MAX + 1) }));
    assert_eq!((too_long.tool, too_long.grants), (None, None));
    // What is not known is allowed as a whole, and the question of every program says so.
    assert_eq!(asked(&json!({})).grants, None);
}

#[test]
fn report_depends_on_no_order_and_no_further_keys_or_notifications() {
    let notification = |update: &Value| json!({ "update": update }).to_string();
    let lines = [
        json!({ "sessionUpdate": "tool_call", "toolCallId": "t", "kind": "execute", "title": "ls", "status": "pending", "rawInput": { "command": "ls" } }),
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed", "content": [{ "type": "content", "content": { "type": "text", "text": "a.txt" } }] }),
        json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "<result>x</result>" } }),
        json!({ "sessionUpdate": "usage_update", "used": 1, "cost": { "amount": 0.5, "currency": "USD" } }),
    ];
    let lines = lines.map(|update| notification(&update));
    let lines: Vec<_> = lines.iter().map(String::as_str).collect();
    let told = |lines: &[&str]| {
        printed(None, |report| {
            for line in lines {
                let params = serde_json::from_str(line).unwrap_or_default();
                report.notified("session/update", &params).unwrap();
            }
            report.end("s", "end_turn", &json!({ "inputTokens": 1 })).unwrap();
        })
    };
    let usual = told(&lines);
    crate::agent::variants::each_variant(&lines, |variant| {
        assert_eq!(told(variant), usual, "{variant:#?}");
    });
}
