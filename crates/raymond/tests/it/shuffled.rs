//! A coding agent that prints the same in ever new ways: other orders of keys and events, keys and lines that nobody knows.
//! Nothing that a run does depends on that. One that is not understood at all is told as such.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::env::{Project, Ran};

/// The stand-in for Claude Code: a program of the testkit, which is built with the tests of the whole workspace.
#[expect(clippy::print_stderr, reason = "a test that skips must say so")]
fn stand_in() -> Option<PathBuf> {
    let program = Path::new(env!("CARGO_BIN_EXE_raymond")).with_file_name("stand-in-claude");
    if !program.exists() {
        eprintln!("skipped: {} is built by `cargo test --workspace`", program.display());
        return None;
    }
    Some(program)
}

/// Carries out so many turns, each printed in another way, and returns how many processes took them.
fn processes_of(turns: u32, warm: &str) -> Option<usize> {
    let program = stand_in()?;
    let project = Project::new([("START.md", "go on")]);
    project.write("last", &turns.to_string());
    let limit = (turns + 1).to_string();
    let arguments =
        ["start", "flow", "--no-lint", "--id", "r", "--max-iterations", &limit, "--warm", warm];
    let mut command = project.command(&[&arguments[..], &["--budget", "0"]].concat());
    command.env("RAYMOND_CLAUDE", program);
    Ran::of(&command.output().unwrap()).completed("done");
    assert_eq!(project.read("turns"), turns.to_string());
    let state: Value = serde_json::from_str(&project.read(".raymond/workflows/r.json")).unwrap();
    let paid = state["total_cost_usd"].as_f64().unwrap();
    assert!((paid - f64::from(turns) * 0.001).abs() < 1e-9, "{paid}");
    let journal = project.read(".raymond/workflows/r.journal");
    assert!(!journal.contains("\"retried\""), "every turn succeeds at once");
    Some(project.lines("starts").len())
}

#[test]
fn order_of_keys_and_events_and_unknown_ones_change_nothing_in_a_kept_process() {
    let Some(processes) = processes_of(400, "4") else { return };
    assert_eq!(processes, 1);
}

#[test]
fn order_of_keys_and_events_and_unknown_ones_change_nothing_in_fresh_processes() {
    let Some(processes) = processes_of(100, "0") else { return };
    assert_eq!(processes, 100);
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
        .failed(1, "raymond doctor; keep no process with `--warm 0`");
    assert_eq!(project.lines("starts").len(), 1, "it is not tried again");
}
