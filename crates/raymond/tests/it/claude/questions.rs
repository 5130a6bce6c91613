//! Claude's own questions are put to a person, and the answer goes on in the same session.

use raymond_testkit::{Block, Reply};
use serde_json::{Value, json};

use super::env::{DONE, Desk, PATIENCE, finish, texts};
use crate::env::{Ran, kill, wait_until};

const ANSWERED: &str = "Here is the user's answer";

/// A workflow of one prompt, `choose`, whose Claude may ask.
fn desk() -> Option<Desk> {
    let desk = Desk::or_skip([("START.md", "choose")])?;
    std::fs::create_dir_all(desk.project.file(".raymond")).unwrap();
    desk.project.write(".raymond/config.toml", "[agents.claude]\nquestions = true\n");
    Some(desk)
}

fn input(question: &str, several: bool) -> Value {
    let option = |label: &str| json!({ "label": label, "description": format!("so {label}") });
    json!({ "questions": [{
        "question": question,
        "header": "Color",
        "multiSelect": several,
        "options": [option("red"), option("blue")],
    }] })
}

fn ask() -> Reply {
    Reply::tool("AskUserQuestion", input("Which?", false))
}

fn asks(desk: &Desk) -> Vec<Value> {
    let listed = Ran::of(&desk.command(&["asks", "--json"]).output().unwrap());
    serde_json::from_str(&listed.stdout).unwrap()
}

/// Waits for the only open question.
fn asked(desk: &Desk) -> Value {
    wait_until("it asks", PATIENCE, || !asks(desk).is_empty());
    asks(desk).remove(0)
}

fn answer(desk: &Desk, words: &[&str]) {
    let ran = Ran::of(&desk.command(&[&["answer", "r"], words].concat()).output().unwrap());
    assert_eq!(ran.code, 0, "{ran:?}");
}

fn wait_for_the_end(desk: &Desk) {
    wait_until("it is completed", PATIENCE, || desk.state()["status"] == "completed");
}

#[test]
fn question_of_claudes_tool_is_answered_by_a_person_in_the_same_session() {
    let Some(desk) = desk() else { return };
    desk.replies("choose", [ask()]).says(ANSWERED, DONE);
    let run = desk.spawn_start(&[]);
    let question = asked(&desk);
    assert_eq!(question["text"], "Which?\n- red: so red\n- blue: so blue");
    assert_eq!(question["choices"][1], json!({ "label": "blue", "to": "START.md" }));
    answer(&desk, &["blue", "--text", "but dark"]);
    finish(run).completed("done");
    let last = desk.api.requests().pop().unwrap();
    let heard = texts(&last);
    assert!(heard.iter().any(|text| text == "choose"), "{heard:?}");
    assert!(heard.last().unwrap().contains("\n\nblue\n\nbut dark\n"), "{heard:?}");
    let history = last.body.to_string();
    assert!(
        history.contains("the next message has the answer"),
        "the call has a result: {history}"
    );
    assert_eq!(desk.session(0), desk.session(1));
    assert_eq!(desk.calls_by_step(), [1.0, 1.0], "each part of the turn is paid once");
    assert!(desk.records("followed").len() == 1, "no state was entered by the answer");
}

#[test]
fn answer_reaches_the_model_when_the_question_came_beside_other_tools_and_questions() {
    let Some(desk) = desk() else { return };
    let blocks = [
        Block::text("First I look."),
        Block::tool("AskUserQuestion", input("Which?", false)),
        Block::tool("Bash", json!({ "command": "echo really > made" })),
        Block::tool("AskUserQuestion", input("And what else?", true)),
    ];
    desk.replies("choose", [Reply::blocks(blocks)]).says(ANSWERED, DONE);
    let run = desk.spawn_start(&[]);
    let text = asked(&desk)["text"].as_str().unwrap().to_owned();
    assert!(text.contains("1. Which?\n") && text.contains("2. And what else? (one"), "{text}");
    answer(&desk, &["--text", "red, and nothing else"]);
    finish(run).completed("done");
    assert_eq!(desk.project.read("made"), "really\n");
    let heard = texts(&desk.api.requests().pop().unwrap());
    assert!(heard.last().unwrap().contains("\n\nred, and nothing else\n"), "{heard:?}");
    let history = desk.api.requests().pop().unwrap().body.to_string();
    assert!(!history.contains("Tool result missing"), "{history}");
}

#[test]
fn question_survives_the_orchestrator_and_its_answer_resumes_the_run() {
    let Some(desk) = desk() else { return };
    desk.replies("choose", [ask()]).says(ANSWERED, DONE);
    let mut run = desk.spawn_start(&[]);
    asked(&desk);
    kill(run.id(), libc::SIGKILL);
    run.wait().unwrap();
    answer(&desk, &["red"]);
    wait_for_the_end(&desk);
    assert_eq!(desk.records("asked").len(), 1);
    assert_eq!(desk.api.requests().len(), 2, "nothing was asked twice");
    desk.expect_calls_paid(2.0);
}

#[test]
fn turn_with_the_answer_is_continued_after_a_kill_and_the_answer_is_not_given_twice() {
    let Some(desk) = desk() else { return };
    desk.replies("choose", [ask()]).replies(ANSWERED, [Reply::hang()]);
    let run = desk.spawn_start(&[]);
    asked(&desk);
    answer(&desk, &["red"]);
    desk.api.wait_for_requests(2, PATIENCE);
    desk.wait_for_transcript(1, &desk.asked().pop().unwrap());
    desk.says("interrupted", DONE);
    kill(desk.claude(), libc::SIGKILL);
    finish(run).completed("done");
    let heard = texts(&desk.api.requests().pop().unwrap());
    let given = heard.iter().filter(|text| text.contains(ANSWERED)).count();
    assert_eq!(given, 1, "{heard:?}");
}

/// A file outside of the project, which Claude may write only with a permission, and the command that writes it.
fn outside() -> (tempfile::TempDir, std::path::PathBuf, Reply) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("it's *");
    let command = format!("echo 'by Claude' > \"{}\"", path.display());
    (folder, path, Reply::tool("Bash", json!({ "command": command, "description": "x" })))
}

#[test]
fn tool_that_needs_a_permission_is_asked_for_and_used_when_a_person_allows_it() {
    let Some(desk) = desk() else { return };
    let (_folder, path, write) = outside();
    desk.replies("choose", [write.clone(), Reply::text("went on")]);
    desk.replies(ANSWERED, [write, Reply::text(DONE)]);
    let run = desk.spawn_start(&[]);
    let question = asked(&desk);
    let text = question["text"].as_str().unwrap();
    assert!(text.starts_with("May the coding agent use `Bash`?\n\necho 'by Claude' > "), "{text}");
    assert_eq!(question["choices"][0], json!({ "label": "allow", "to": "START.md" }));
    assert!(!path.exists());
    answer(&desk, &["allow"]);
    let ran = finish(run).completed("done");
    assert_eq!(std::fs::read_to_string(path).unwrap(), "by Claude\n");
    assert!(!ran.stderr.contains("was not allowed"), "{}", ran.stderr);
    let history = desk.api.requests().pop().unwrap().body.to_string();
    assert!(history.contains("use the tool again exactly as before"), "{history}");
    assert!(!history.contains("Tool result missing"), "{history}");
    assert_eq!(desk.session(0), desk.session(1));
    assert_eq!(desk.calls_by_step(), [1.0, 2.0], "the turn ended at the tool");
}

#[test]
fn tool_that_a_person_refuses_is_not_used_and_claude_is_told() {
    let Some(desk) = desk() else { return };
    let (_folder, path, write) = outside();
    desk.replies("choose", [write]).says(ANSWERED, DONE);
    let run = desk.spawn_start(&[]);
    asked(&desk);
    answer(&desk, &["refuse", "--text", "write it here"]);
    finish(run).completed("done");
    assert!(!path.exists());
    let heard = texts(&desk.api.requests().pop().unwrap());
    assert!(heard.last().unwrap().contains("\n\nrefuse\n\nwrite it here\n"), "{heard:?}");
}

#[test]
fn permission_that_is_given_after_the_orchestrator_was_killed_resumes_the_run() {
    let Some(desk) = desk() else { return };
    let (_folder, path, write) = outside();
    desk.replies("choose", [write.clone()]).replies(ANSWERED, [write, Reply::text(DONE)]);
    let mut run = desk.spawn_start(&[]);
    asked(&desk);
    kill(run.id(), libc::SIGKILL);
    run.wait().unwrap();
    answer(&desk, &["allow"]);
    wait_for_the_end(&desk);
    assert_eq!(std::fs::read_to_string(path).unwrap(), "by Claude\n");
    assert_eq!(desk.records("asked").len(), 1);
    desk.expect_calls_paid(3.0);
}
