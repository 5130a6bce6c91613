//! What each tag makes the model remember, and which model is asked.

use raymond_testkit::Request;

use super::env::{DONE, Desk};

#[test]
fn goto_keeps_the_history_of_the_session_even_through_a_script() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "do {{input}}"),
        ("SECOND.md", "then this"),
        ("SCRIPT.sh", "echo '<goto>THIRD</goto>'"),
        ("THIRD.md", "at last"),
    ]) else {
        return;
    };
    desk.says("do the task", "well <goto>SECOND</goto> then");
    desk.says("then this", "<goto>SCRIPT</goto>").says("at last", DONE);
    desk.start(&["--input", "the task"]).completed("done");
    let all = [
        "do the task",
        "well <goto>SECOND</goto> then",
        "then this",
        "<goto>SCRIPT</goto>",
        "at last",
    ];
    assert_eq!(desk.heard(), [&all[..1], &all[..3], &all]);
    desk.expect_calls_paid(3.0);
    desk.project.wait_until_quiet();
}

#[test]
fn call_sees_the_callers_history_and_the_caller_does_not_see_the_calls() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("CHILD.md", "aside"),
        ("DEEPER.md", "deeper"),
        ("BACK.md", "back with {{result}}"),
    ]) else {
        return;
    };
    desk.says("first", "<call return='BACK'>CHILD</call>").says("aside", "<goto>DEEPER</goto>");
    desk.says("deeper", "secret <result>forty-two</result>").says("back", DONE);
    desk.start(&[]).completed("done");
    let call = "<call return='BACK'>CHILD</call>";
    let expected: [&[&str]; 4] = [
        &["first"],
        &["first", call, "aside"],
        &["first", call, "aside", "<goto>DEEPER</goto>", "deeper"],
        &["first", call, "back with forty-two"],
    ];
    assert_eq!(desk.heard(), expected);
    assert_eq!(desk.session(0), desk.session(3));
    assert_eq!(desk.session(1), desk.session(2));
    assert_ne!(desk.session(0), desk.session(1));
}

#[test]
fn call_in_another_directory_still_sees_the_callers_history() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("CHILD.md", "aside"),
        ("DEEPER.md", "deeper"),
        ("BACK.md", "back with {{result}}"),
    ]) else {
        return;
    };
    let elsewhere = tempfile::tempdir().unwrap();
    let call = format!("<call return='BACK' cd='{}'>CHILD</call>", elsewhere.path().display());
    desk.says("first", &call).says("aside", "<goto>DEEPER</goto>");
    desk.says("deeper", "secret <result>forty-two</result>").says("back", DONE);
    desk.start(&[]).completed("done");
    let expected: [&[&str]; 4] = [
        &["first"],
        &["first", &call, "aside"],
        &["first", &call, "aside", "<goto>DEEPER</goto>", "deeper"],
        &["first", &call, "back with forty-two"],
    ];
    assert_eq!(desk.heard(), expected);
}

#[test]
fn function_does_not_see_the_callers_history_and_its_result_returns_there() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("CHILD.md", "aside"),
        ("BACK.md", "back with {{result}}"),
    ]) else {
        return;
    };
    let function = "<function return='BACK'>CHILD</function>";
    desk.says("first", function).says("aside", "<result>seven</result>").says("back", DONE);
    desk.start(&[]).completed("done");
    let expected: [&[&str]; 3] = [&["first"], &["aside"], &["first", function, "back with seven"]];
    assert_eq!(desk.heard(), expected);
    // The caller's process has waited, but it might spend once more what the function has spent.
    assert!(!desk.was_warm("main.3"));
}

#[test]
fn reset_and_the_worker_of_a_fork_begin_with_an_empty_session() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("WORKER.md", "work on {{item}}"),
        ("NEXT.md", "second"),
        ("LAST.md", "third"),
    ]) else {
        return;
    };
    let fork = "<fork next='NEXT' item='this'>WORKER</fork>";
    desk.says("first", fork).says("work on", "<result>w</result>");
    desk.says("second", "<reset>LAST</reset>").says("third", DONE);
    desk.start(&[]).completed("done");
    let mut heard = desk.heard();
    heard.sort();
    let expected: [&[&str]; 4] =
        [&["first"], &["first", fork, "second"], &["third"], &["work on this"]];
    assert_eq!(heard, expected);
    desk.project.wait_until_quiet();
}

#[test]
fn model_is_the_states_then_the_functions_then_the_runs() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("FUNCTION.md", "asked for"),
        ("OWN.md", "---\nmodel: haiku\n---\nof its own"),
        ("BACK.md", "back"),
    ]) else {
        return;
    };
    desk.says("first", "<function return='BACK' model='opus'>FUNCTION</function>");
    desk.says("asked for", "<goto>OWN</goto>").says("of its own", "<result>x</result>");
    desk.says("back", DONE);
    desk.start(&["--budget", "0"]).completed("done");
    assert_eq!(desk.models(), ["sonnet", "opus", "haiku", "sonnet"]);
    assert_eq!(desk.heard()[2].len(), 3, "another model goes on in the same conversation");
    // The function's process is of another model; the caller's has waited for it.
    assert!(!desk.was_warm("main.3") && desk.was_warm("main.4"));
}

#[test]
fn state_without_a_model_gets_the_default_again_after_one_with_a_model() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("OWN.md", "---\nmodel: haiku\n---\nof its own"),
        ("LAST.md", "---\neffort: low\n---\nlast"),
    ]) else {
        return;
    };
    desk.says("first", "<goto>OWN</goto>").says("of its own", "<goto>LAST</goto>");
    desk.says("last", DONE);
    desk.start_without_model(&["--effort", "medium"]).completed("done");
    assert_eq!(desk.models(), ["opus", "haiku", "opus"]);
    let requests = desk.api.requests();
    let efforts: Vec<_> = requests.iter().map(Request::effort).collect();
    // Older versions send no effort to haiku.
    assert!(
        matches!(efforts[..], [Some("medium"), Some("medium") | None, Some("low")]),
        "{efforts:?}"
    );
}

#[test]
fn state_without_a_model_leaves_the_choice_to_claude_in_fresh_resumed_and_branched_sessions() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("NEXT.md", "second"),
        ("CHILD.md", "aside"),
        ("BACK.md", "back"),
    ]) else {
        return;
    };
    // A choice of the user's that only Claude knows of.
    let arguments = "[agents.claude]\narguments = ['--settings', '{\"model\": \"sonnet\"}']\n";
    desk.project.write(".raymond/config.toml", arguments);
    desk.says("first", "<goto>NEXT</goto>").says("second", "<call return='BACK'>CHILD</call>");
    desk.says("aside", "<result>x</result>").says("back", DONE);
    desk.start_without_model(&["--warm", "0"]).completed("done");
    assert_eq!(desk.models(), ["sonnet"; 4]);
}

#[test]
fn branch_of_a_session_with_a_model_gets_the_default_again_and_so_does_the_caller() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "---\nmodel: haiku\n---\nfirst"),
        ("CHILD.md", "aside"),
        ("BACK.md", "back"),
    ]) else {
        return;
    };
    desk.says("first", "<call return='BACK'>CHILD</call>").says("aside", "<result>x</result>");
    desk.says("back", DONE);
    desk.start_without_model(&[]).completed("done");
    assert_eq!(desk.models(), ["haiku", "opus", "opus"]);
}
