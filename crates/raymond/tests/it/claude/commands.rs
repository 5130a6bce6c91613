//! Prompts that look like commands of Claude Code reach the model, and a turn without a model request is
//! never taken for an answer.

use serde_json::json;

use super::env::{DONE, Desk};
use crate::env::Ran;

/// A prompt whose only transition needs no tag.
fn only_way(target: &str, text: &str) -> String {
    format!("---\nallowed_transitions:\n  - {{ tag: goto, target: {target} }}\n---\n{text}")
}

#[test]
fn prompt_that_looks_like_a_command_reaches_the_model_in_fresh_and_kept_processes() {
    let prompts = ["/deploy the thing", "/clear", "/compact", "/exit now", "/review", "/etc/hosts"];
    for warm in ["4", "0"] {
        let names: Vec<_> = (1..=prompts.len()).map(|number| format!("P{number}.md")).collect();
        let names: Vec<_> = std::iter::once("START.md".to_owned()).chain(names).collect();
        let files = names.iter().map(String::as_str).zip(prompts);
        let Some(desk) = Desk::or_skip(files) else { return };
        for (index, prompt) in prompts.iter().enumerate() {
            let next = &names[index + 1];
            let is_last = index + 1 == prompts.len();
            desk.says(prompt, &if is_last { DONE.into() } else { format!("<goto>{next}</goto>") });
        }
        desk.start(&["--warm", warm]).completed("done");
        let last = desk.heard().pop().unwrap();
        let asked: Vec<_> = last.iter().step_by(2).collect();
        // One empty line keeps Claude from looking for a command; nothing else is changed.
        let expected: Vec<_> = prompts.iter().map(|prompt| format!("\n{prompt}")).collect();
        assert_eq!(asked, expected.iter().collect::<Vec<_>>(), "--warm {warm}");
        assert_eq!(desk.was_warm("main.2"), warm == "4");
        desk.expect_calls_paid(6.0);
    }
}

#[test]
fn state_with_one_transition_is_not_skipped_because_its_prompt_looks_like_a_command() {
    let (first, second) = (only_way("SECOND.md", "begin"), only_way("LAST.md", "/deploy it"));
    let Some(desk) =
        Desk::or_skip([("START.md", &*first), ("SECOND.md", &*second), ("LAST.md", "at last")])
    else {
        return;
    };
    desk.says("begin", "I did.").says("/deploy it", "It is deployed.").says("at last", DONE);
    desk.start(&[]).completed("done");
    assert!(desk.was_warm("main.2"));
    let expected = ["begin", "I did.", "\n/deploy it", "It is deployed.", "at last"];
    assert_eq!(desk.heard()[2], expected);
    desk.expect_calls_paid(3.0);
}

#[test]
fn turn_of_a_prompt_that_looks_like_a_command_continues_in_its_session_after_a_failure() {
    let Some(desk) = Desk::or_skip([("START.md", "/deploy it")]) else { return };
    let overloaded = || raymond_testkit::Reply::status(529, "overloaded_error", "Overloaded");
    desk.replies("/deploy it", [overloaded(), overloaded(), overloaded()]);
    desk.says("Your last turn was interrupted", DONE);
    desk.start(&[]).completed("done");
    let heard = desk.heard().pop().unwrap();
    let prompts = heard.iter().filter(|text| text.contains("/deploy it"));
    assert_eq!(prompts.count(), 1, "the prompt is not given twice: {heard:?}");
}

/// Claude with a hook that keeps every prompt with `word` in it from the model.
fn hooked<'a>(word: &str, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Option<Desk> {
    let desk = Desk::or_skip(files)?;
    let command = format!("if grep -q {word}; then echo not this one >&2; exit 2; fi");
    let hook = json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    let settings = json!({ "hooks": { "UserPromptSubmit": hook } });
    std::fs::create_dir(desk.project.file("home/.claude")).unwrap();
    desk.project.write("home/.claude/settings.json", &settings.to_string());
    Some(desk)
}

#[test]
fn prompt_blocked_by_a_hook_fails_the_agent_in_a_fresh_process() {
    let start = only_way("LAST.md", "forbidden");
    let Some(desk) = hooked("forbidden", [("START.md", &*start), ("LAST.md", "at last")]) else {
        return;
    };
    let ran = desk.start(&[]).failed(1, "no model was asked");
    assert!(ran.stderr.contains("not this one"), "{}", ran.stderr);
    assert!(desk.asked().is_empty());
    desk.expect_calls_paid(0.0);
}

#[test]
fn prompt_blocked_by_a_hook_fails_the_agent_in_a_kept_process() {
    let (first, second) = (only_way("SECOND.md", "begin"), only_way("LAST.md", "forbidden"));
    let Some(desk) = hooked(
        "forbidden",
        [("START.md", &*first), ("SECOND.md", &*second), ("LAST.md", "at last")],
    ) else {
        return;
    };
    desk.says("begin", "I did.").says("at last", DONE);
    let ran = desk.start(&[]).failed(1, "no model was asked");
    assert!(ran.stderr.contains("not this one"), "{}", ran.stderr);
    assert!(desk.was_warm("main.2"));
    assert_eq!(desk.asked(), ["begin"]);
    desk.expect_calls_paid(1.0);
}

#[test]
fn doctor_asks_claude_for_its_version_and_its_login() {
    let Some(desk) = Desk::or_skip([]) else { return };
    let ran = Ran::of(&desk.command(&["doctor"]).output().unwrap());
    // Of a newer version than the tested ones it says that first.
    let version = ran.stdout.lines().find(|line| line.contains("claude version"));
    assert!(version.is_some_and(|line| line.contains(" 2.")), "{}", ran.stdout);
    assert!(ran.stdout.contains("claude login    logged in (api_key)"), "{}", ran.stdout);
    assert!(ran.stdout.contains("claude turn "), "{}", ran.stdout);
    assert_eq!(ran.code, 0, "{}", ran.stdout);
    let mut command = desk.command(&["doctor", "--quick"]);
    command.env_remove("ANTHROPIC_API_KEY");
    let ran = Ran::of(&command.output().unwrap());
    assert!(ran.stdout.contains("problem  claude login    not logged in\n"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("claude turn "), "{}", ran.stdout);
    assert_eq!(ran.code, 1, "{}", ran.stdout);
}
