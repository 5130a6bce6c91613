//! The handshake with stand-ins for Claude Code that misbehave, and the model by itself. That the real coding agents pass is
//! tested with the program (`conformance`).

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{io::Read as _, net::TcpStream};

use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::agent::{ClaudeAgent, ClaudeConfig};

/// Long enough for a script on a busy machine, which ends by itself.
const LIMIT: Duration = Duration::from_mins(1);

/// What a handshake finds if Claude Code is this script.
fn found(script: &str, limit: Duration) -> (TempDir, Vec<Difference>) {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("claude");
    fs::write(&program, format!("#!/bin/bash\n{script}")).unwrap();
    #[cfg(unix)]
    fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let agent = ClaudeAgent::new(ClaudeConfig {
        name: "claude".to_owned(),
        program: program.to_string_lossy().into_owned(),
        arguments: vec!["--own-argument".to_owned()],
        config_dir: "/nowhere".into(),
        ..ClaudeConfig::default()
    });
    let differences = handshake(&agent, limit).unwrap().unwrap();
    (folder, differences)
}

/// A stand-in that repeats its prompt, as Claude Code does, and gives these answers to the first and the second prompt, each
/// with its cost.
fn answers(first: (&str, f64), second: (&str, f64)) -> String {
    let message = r#"{"type":"assistant","message":{"id":"m","model":"m","content":[]}}"#;
    let line = |(result, cost): (&str, f64)| {
        let rest = format!(r#""session_id":"s","total_cost_usd":{cost},"result":"{result}""#);
        format!(r#"echo '{{"type":"result","subtype":"success","is_error":false,{rest}}}'"#)
    };
    let (first, second) = (line(first), line(second));
    let choice = format!("*--own-argument*) exit 9;; *--resume*) {second};; *) {first};;");
    format!("cat\necho '{message}'\ncase \"$*\" in {choice} esac\n")
}

const FIRST: &str = "amaryllis-4711";
const BOTH: &str = "amaryllis-4711 buttercup-4712";

#[cfg(unix)]
#[test]
fn program_that_behaves_as_expected_works() {
    let (_, found) = found(&answers((FIRST, 0.01), (BOTH, 0.01)), LIMIT);
    assert_eq!(found, []);
}

#[cfg(unix)]
#[test]
fn program_that_speaks_differently_or_exits_at_once_is_not_understood() {
    for script in ["echo hello", "exit 3", "cat >/dev/null; echo '{\"kind\":\"result\"}'"] {
        let (_, found) = found(script, LIMIT);
        assert!(matches!(&found[..], [Difference::NoAnswer(_)]), "{script}: {found:?}");
        assert!(found[0].is_fatal());
    }
}

#[cfg(unix)]
#[test]
fn session_that_does_not_know_the_first_prompt_was_not_resumed() {
    let forgot = answers((FIRST, 0.01), ("buttercup-4712", 0.01));
    let (_, found) = found(&forgot, LIMIT);
    assert_eq!(found, [Difference::NotResumed]);
}

#[cfg(unix)]
#[test]
fn cost_of_the_whole_session_and_a_missing_cost_are_told() {
    let usd = |dollars| Usd::from_dollars(dollars).unwrap();
    let (_, found_total) = found(&answers((FIRST, 0.01), (BOTH, 0.02)), LIMIT);
    let counted = Difference::CostOfSession { first: usd(0.01), second: usd(0.02) };
    assert!(!counted.is_fatal());
    assert_eq!(found_total, [counted]);
    let (_, found_none) = found(&answers((FIRST, 0.01), (BOTH, 0.0)), LIMIT);
    assert_eq!(found_none, [Difference::NoCost]);
}

#[cfg(unix)]
#[test]
fn process_whose_turn_has_no_known_end_is_told_but_its_answer_counts() {
    // It does not say that it begins the prompt, so a result may be of another one.
    let script = answers((FIRST, 0.01), (BOTH, 0.01)).replacen("cat", "cat >/dev/null", 1);
    let (_, found) = found(&script, LIMIT);
    assert_eq!(found, [Difference::EndNotSeen]);
    assert!(!found[0].is_fatal());
}

#[cfg(unix)]
#[test]
fn program_that_hangs_is_killed_with_its_descendants() {
    let script =
        "cd \"$(dirname \"$0\")\"; exec 9>held; flock 9; echo >begun; sleep 1000 & sleep 1000";
    // Long enough for it to begin on a busy machine.
    let (folder, found) = found(script, Duration::from_secs(5));
    assert_eq!(found, [Difference::NotEnded { seconds: 5 }]);
    assert!(folder.path().join("begun").exists());
    // The lock is free when the last process that inherited the file is gone.
    File::open(folder.path().join("held")).unwrap().lock().unwrap();
}

#[cfg(unix)]
#[test]
fn nothing_of_the_user_is_in_the_environment() {
    let script = "env >\"$(dirname \"$0\")/env\"; pwd >>\"$(dirname \"$0\")/env\"";
    let (folder, _) = found(script, LIMIT);
    let environment = fs::read_to_string(folder.path().join("env")).unwrap();
    let of = |name: &str| {
        let value = environment.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        value.unwrap_or_else(|| panic!("{name} in {environment}"))
    };
    assert!(of("HOME").contains("raymond-doctor") && of("TMPDIR").contains("raymond-doctor"));
    assert_eq!(of("ANTHROPIC_API_KEY"), "dummy");
    assert!(of("ANTHROPIC_BASE_URL").starts_with("http://127.0.0.1:"));
    assert!(!environment.contains("CARGO"), "{environment}");
    assert!(!Path::new(of("HOME")).exists(), "it is removed");
}

/// What the model answers to a request.
fn ask(model: &Model, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(model.url().trim_start_matches("http://")).unwrap();
    write!(stream, "POST {head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn model_says_in_each_dialect_which_words_it_has_read() {
    let model = Model::start(WORDS).unwrap();
    let asked = format!("{{\"messages\":[\"{}\"],\"model\":\"m\"}}", WORDS[1]);
    let length = asked.len();
    for (path, place) in [
        ("/v1/messages?beta=true", "/content/0/text"),
        ("/v1/responses", "/output/0/content/0/text"),
        ("/v1/chat/completions", "/choices/0/message/content"),
    ] {
        let answer = ask(&model, &format!("{path} HTTP/1.1\r\nContent-Length: {length}"), &asked);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body.pointer(place).unwrap(), WORDS[1], "{path}: {body}");
    }
    assert_eq!(model.calls(), 3);
    let chunked = format!("{length:x}\r\n{asked}\r\n0\r\n\r\n");
    let answer = ask(&model, "/v1/messages HTTP/1.1\r\nTransfer-Encoding: chunked", &chunked);
    assert!(answer.contains(WORDS[1]), "{answer}");
    assert!(ask(&model, "/elsewhere HTTP/1.1", "").starts_with("HTTP/1.1 404 "));
    assert_eq!(model.calls(), 4);
}
