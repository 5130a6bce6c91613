//! Output that no Claude would print, or that was cut, mixed up or damaged on its way.

use super::*;

/// A turn that answers, with everything that Claude prints on the way.
fn whole() -> String {
    let lines = [
        INIT.to_owned(),
        r#"{"type":"assistant","message":{"model":"claude-sonnet-5","content":[{"type":"text","text":"ünï"}]}}"#.to_owned(),
        result("own", 0.5, 10),
    ];
    lines.join("\n") + "\n"
}

/// What came of a turn that printed these bytes and was killed.
fn end_of_bytes(bytes: &[u8]) -> TurnEnd {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stdout");
    fs::write(&path, bytes).unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    let stdout_bytes = bytes.len() as u64;
    let (stdin, stdout, stderr) = (&*empty, &*path, &*empty);
    let (exit_code, before) = (None, None);
    let is_first = before.is_none();
    outcome(
        &TurnOutput { stdin, stdout, stdout_bytes, stderr, exit_code, is_first, before, told: &[] },
        Path::new(""),
    )
    .unwrap()
}

#[test]
fn output_that_is_cut_at_any_byte_is_an_answer_only_when_the_answer_is_whole() {
    let whole = whole();
    // The newline after the answer need not be there.
    let is_whole = whole.len() - 1;
    for at in 0..=whole.len() {
        let end = end_of_bytes(&whole.as_bytes()[..at]);
        let is_reply = end.outcome == Outcome::Reply { text: "own".to_owned() };
        assert_eq!(is_reply, at >= is_whole, "cut at {at}");
        let cost = if at >= is_whole { 0.5 } else { 0.0 };
        assert_eq!(end.spent.cost_usd, Usd::from_dollars(cost).unwrap(), "cut at {at}");
    }
}

#[test]
fn byte_that_is_damaged_anywhere_never_changes_the_words_of_an_answer_unnoticed() {
    let whole = whole();
    let last = whole.trim_end().rfind('\n').unwrap() + 1;
    for at in 0..last {
        let mut bytes = whole.clone().into_bytes();
        bytes[at] = 0xff;
        let end = end_of_bytes(&bytes);
        // A newline that is lost joins two lines, and neither is one then.
        let is_joined = whole.as_bytes()[at] == b'\n' && at + 1 == last;
        let expected = Outcome::Reply { text: "own".to_owned() };
        assert_eq!(end.outcome == expected, !is_joined, "damaged at {at}");
    }
}

#[test]
fn lines_that_are_no_events_are_passed_over() {
    for garbage in [
        &b"not json"[..],
        b"{\"type\":\"result\"",
        b"\xff\xfe\xfd",
        b"null",
        b"[]",
        b"7",
        b"\"text\"",
        b"{\"type\":7}",
        b"{\"type\":\"assistant\",\"message\":\"words\"}",
        b"{\"type\":\"unheard_of\",\"is_error\":true}",
        b"\0\0\0\0",
        b"",
    ] {
        let text = whole();
        let bytes = [garbage, b"\n", text.as_bytes(), garbage, b"\n"].concat();
        let end = end_of_bytes(&bytes);
        assert_eq!(end.outcome, Outcome::Reply { text: "own".to_owned() }, "{garbage:?}");
        assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.5).unwrap(), "{garbage:?}");
    }
}

#[test]
fn very_long_line_before_the_answer_does_not_hide_it() {
    let filler = "x".repeat(50 * 1024 * 1024);
    let tool = format!(
        r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","content":"{filler}"}}]}}}}"#
    );
    let text = format!("{INIT}\n{tool}\n{}\n", result("own", 0.5, 1));
    assert_eq!(end_of_bytes(text.as_bytes()).outcome, Outcome::Reply { text: "own".to_owned() });
}

#[test]
fn money_that_cannot_be_is_none() {
    for cost in ["-1", "-0.0", "1e400"] {
        let line = result("own", 0.5, 1).replace("0.5", cost);
        let spent = end_of_bytes(line.as_bytes()).spent;
        assert_eq!(spent.cost_usd, Usd::ZERO, "{cost}");
    }
}

#[test]
fn total_that_went_down_or_cannot_be_read_begins_anew() {
    let before = end(&[&result("before", 2.0, 900)]).total.unwrap();
    // A process that was replaced counts from the beginning.
    let end = end_of(&[&result("own", 0.5, 100)], "", Some(0), Some(&before));
    assert_eq!(Some(end.spent.cost_usd), Usd::from_dollars(0.5));
    assert_eq!(end.spent.tokens.input, 100);
    let end = end_of(&[&result("own", 0.5, 100)], "", Some(0), Some("half a tot"));
    assert_eq!(end.spent.cost_usd, Usd::from_dollars(0.5).unwrap());
}

#[test]
fn session_is_reported_only_by_an_answer_and_only_if_it_can_be_one() {
    let of = |line: String| end(&[&line]).spent.session.map(|session| session.to_string());
    let with = |line: String, id: &str| {
        line.replacen(
            "\"type\":\"result\"",
            &format!("\"type\":\"result\",\"session_id\":\"{id}\""),
            1,
        )
    };
    assert_eq!(of(with(result("own", 0.5, 1), "5f-0c")).as_deref(), Some("5f-0c"));
    assert_eq!(of(with(result("own", 0.5, 1), "../x")), None);
    assert_eq!(of(with(error("no", "500"), "5f-0c")), None);
    assert_eq!(of(result("own", 0.5, 1)), None);
}

#[test]
fn events_out_of_order_do_not_change_the_answer() {
    let said = r#"{"type":"assistant","message":{"model":"m","content":[]}}"#;
    let own = result("own", 0.5, 1);
    for lines in [
        &[&*own, INIT, said][..],
        &[said, &own, INIT],
        &[&own, &told("authentication_failed"), INIT],
        &[INIT, INIT, said, said, &own],
    ] {
        assert_eq!(end(lines).outcome, Outcome::Reply { text: "own".to_owned() }, "{lines:?}");
    }
}

#[test]
fn complaint_is_told_up_to_a_length_and_whatever_its_bytes_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("stderr");
    fs::write(&path, [&b"\xff error: "[..], &vec![b'x'; 100_000]].concat()).unwrap();
    let text = complaint(&path).unwrap();
    assert!(text.len() <= 2 * usize::try_from(crate::agent::lines::COMPLAINT_BYTES_MAX).unwrap());
    let failure = failure::without_result(Some(1), &text, false);
    assert_eq!(failure.class, FailureClass::Misconfigured);
    assert!(failure.message.chars().count() <= 401, "{}", failure.message.len());
}
