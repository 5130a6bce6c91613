//! A coding agent that prints the same in ever new ways: other orders of keys and events, keys and lines that nobody knows.
//! Nothing that a run does depends on that. One that is not understood at all is told as such.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::env::{Project, Ran};

/// The stand-in for Claude Code: a program of the testkit, which is built with the tests of the whole workspace.
fn stand_in() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_raymond")).with_file_name("stand-in-claude");
    assert!(program.exists(), "{} is built by `cargo test --workspace`", program.display());
    program
}

/// Carries out so many turns, each printed in another way, and returns how many processes took them.
fn processes_of(turns: u32, warm: &str) -> usize {
    let project = Project::new([("START.md", "go on")]);
    project.write("last", &turns.to_string());
    let limit = (turns + 1).to_string();
    let arguments =
        ["start", "flow", "--no-lint", "--id", "r", "--max-iterations", &limit, "--warm", warm];
    let mut command = project.command(&[&arguments[..], &["--budget", "0"]].concat());
    command.env("RAYMOND_CLAUDE", stand_in());
    Ran::of(&command.output().unwrap()).completed("done");
    assert_eq!(project.read("turns"), turns.to_string());
    let state: Value = serde_json::from_str(&project.read(".raymond/workflows/r.json")).unwrap();
    let paid = state["total_cost_usd"].as_f64().unwrap();
    assert!((paid - f64::from(turns) * 0.001).abs() < 1e-9, "{paid}");
    let journal = project.read(".raymond/workflows/r.journal");
    assert!(!journal.contains("\"retried\""), "every turn succeeds at once");
    project.lines("starts").len()
}

#[test]
fn order_of_keys_and_events_and_unknown_ones_change_nothing_in_a_kept_process() {
    assert_eq!(processes_of(300, "4"), 1);
}

#[test]
fn order_of_keys_and_events_and_unknown_ones_change_nothing_in_fresh_processes() {
    assert_eq!(processes_of(100, "0"), 100);
}

/// What a run of one turn of this kind decided, without times and ids; the random numbers begin after so many turns. `None` prints
/// nothing in another way.
fn decided(kind: &str, turns_before: Option<u32>) -> Vec<Value> {
    let schema = "schema: { type: object, required: [risk], properties: { risk: {} } }";
    let state = format!("---\n{schema}\nallowed_transitions:\n  - {{ tag: result }}\n---\ngo on");
    let is_structured = kind == "structured output";
    let project = Project::new([("START.md", if is_structured { &*state } else { "go on" })]);
    project.write("kind", kind);
    project.write("last", "0");
    project.write("turns", &turns_before.unwrap_or(0).to_string());
    if turns_before.is_none() {
        project.write("plain", "");
    }
    let arguments = ["start", "flow", "--no-lint", "--id", "r", "--warm", "0"];
    let hastily = ["--retries", "0", "--retry-for", "0", "--no-wait", "--budget", "0"];
    let mut command = project.command(&[&arguments[..], &hastily].concat());
    command.env("RAYMOND_CLAUDE", stand_in());
    let ran = Ran::of(&command.output().unwrap());
    assert_eq!(ran.code == 0, is_structured, "{kind}: {ran:?}");
    let mut records = Vec::new();
    for line in project.lines(".raymond/workflows/r.journal") {
        let mut line: Value = serde_json::from_str(&line).unwrap();
        let Value::Array(decided) = line["records"].take() else { continue };
        records.extend(decided.into_iter().filter(|record| {
            ["started", "intended"].iter().all(|name| record.get(name).is_none())
        }));
    }
    for body in records.iter_mut().filter_map(Value::as_object_mut).flat_map(Map::values_mut) {
        for path in ["/spent/duration_ms", "/left", "/session"] {
            body.pointer_mut(path).map(Value::take);
        }
    }
    assert!(!records.is_empty());
    records
}

#[test]
fn order_of_keys_and_events_and_unknown_ones_change_nothing_in_turns_that_end_otherwise() {
    for kind in ["overload", "usage limit", "refusal", "blocked prompt", "structured output"] {
        let plain = decided(kind, None);
        for turns_before in 1..=20 {
            assert_eq!(decided(kind, Some(turns_before)), plain, "{kind} {turns_before}");
        }
    }
}

#[test]
fn version_that_is_newer_than_the_tested_ones_is_named_if_its_turn_does_not_end() {
    let init = r#"{"type":"system","subtype":"init","claude_code_version":"9.9.9"}"#;
    let outcome = r#"{"type":"outcome","text":"<result>done</result>"}"#;
    let claude = format!("read -r prompt\necho '{init}'\necho '{outcome}'\nexec sleep 600");
    let (project, ran) = run_with(&claude, &["--timeout", "2", "--retries", "0"]);
    ran.failed(1, "printed nothing for 2 seconds; claude 9.9.9 is newer than those that Raymond");
    project.wait_until_quiet();
}

/// A run of one prompt whose Claude Code is this script.
fn run_with(claude: &str, more: &[&str]) -> (Project, Ran) {
    let project = Project::new([("START.md", "go on")]);
    project.write("claude", &format!("#!/bin/bash\n{claude}\n"));
    let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(project.file("claude"), runs).unwrap();
    let mut command =
        project.command(&[&["start", "flow", "--no-lint", "--id", "r"], more].concat());
    command.env("RAYMOND_CLAUDE", project.file("claude"));
    let ran = Ran::of(&command.output().unwrap());
    (project, ran)
}

#[test]
fn answer_of_a_process_that_does_not_leave_counts_after_seconds() {
    let result = r#"{"usage":{"input_tokens":1},"result":"<result>done</result>","total_cost_usd":0.5,"is_error":false,"type":"result"}"#;
    let claude = format!("read -r prompt\necho \"$prompt\"\necho '{result}'\nexec sleep 600");
    // Longer than a test may take: the time of silence that ends a turn.
    let (project, ran) = run_with(&claude, &["--warm", "0", "--timeout", "600"]);
    ran.completed("done");
    project.wait_until_quiet();
}

#[test]
fn version_of_which_nothing_is_understood_fails_at_once_and_names_one_that_is_known() {
    let (project, ran) = run_with(
        "case $1 in --version) echo '9.9.9 (Claude Code)';; *) echo >> starts; \
         echo '{\"kind\":\"answer\",\"text\":\"<result>x</result>\"}';; esac",
        &[],
    );
    let ran = ran.failed(1, "(9.9.9 (Claude Code)) printed nothing that Raymond understands");
    ran.failed(1, "npm install -g @anthropic-ai/claude-code@")
        .failed(1, "keep no process with `--warm 0`")
        .failed(1, "see what differs: raymond doctor");
    assert_eq!(project.lines("starts").len(), 1, "it is not tried again");
}
