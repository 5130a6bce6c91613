//! `loopback-model`, as a script uses it.

use std::{
    fs,
    io::{BufRead, BufReader},
    process::{Command, Output, Stdio},
};

use serde_json::{Value, json};

use crate::client::{Client, prompt};

fn command(rules: &Value) -> (tempfile::TempDir, Command) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rules.json");
    fs::write(&file, rules.to_string()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopback-model"));
    command.arg(file).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    (folder, command)
}

fn refused(rules: &Value) -> String {
    let (_folder, mut command) = command(rules);
    let Output { status, stderr, .. } = command.output().unwrap();
    assert!(!status.success());
    String::from_utf8(stderr).unwrap()
}

#[test]
fn it_serves_a_file_of_rules_until_its_input_ends() {
    let (_folder, mut command) = command(&json!({ "rules": [
        { "when": "", "replies": [{ "text": "anything" }] },
        { "when": "file", "replies": [
            { "tool": "Bash", "input": { "command": "ls" }, "after_ms": 1 },
            { "status": 529, "kind": "overloaded_error", "message": "Overloaded",
              "headers": { "retry-after": "3" } },
            { "text": "made", "usage": { "input": 5, "output": 6 }, "stop_reason": "max_tokens" } ] },
    ] }));
    let mut child = command.spawn().unwrap();
    let mut url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let mut client = Client::new(url.trim());

    assert_eq!(client.ask(&prompt("hello")).json()["content"][0]["text"], "anything");
    assert_eq!(client.ask(&prompt("a file")).json()["content"][0]["input"]["command"], "ls");
    let overloaded = client.ask(&prompt("a file"));
    assert_eq!(overloaded.code, 529);
    assert!(overloaded.head.contains("retry-after: 3\r\n"));
    let made = client.ask(&prompt("a file")).json();
    assert_eq!(made["usage"]["input_tokens"], 5);
    assert_eq!(made["stop_reason"], "max_tokens");

    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert!(client.answer().is_none());
}

#[test]
fn it_refuses_a_file_that_it_does_not_understand() {
    let misspelt = refused(&json!({ "rules": [{ "when": "", "replies": [{ "txt": "" }] }] }));
    assert!(misspelt.contains("unknown field `txt`"), "{misspelt}");
    let both = json!({ "rules": [{ "when": "x", "replies": [{ "text": "", "status": 400 }] }] });
    let both = refused(&both);
    assert!(both.contains(r#"rule "x": a reply is exactly one of"#), "{both}");
}
