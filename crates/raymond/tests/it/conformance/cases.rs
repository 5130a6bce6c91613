//! The cases: what a run may expect of every coding agent.

use raymond_testkit::{Gate, Reply, table};
use serde_json::Value;

use super::{
    backend::Backend,
    desk::{Desk, PATIENCE},
};
use crate::env::{Ran, kill, wait_until};

const DONE: &str = "<result>done</result>";

/// The requests that contain `prompt`, and of each whether it also contains `other`.
fn knows(desk: &Desk, prompt: &str, other: &str) -> Vec<bool> {
    let has = |texts: &[String], needle: &str| texts.iter().any(|text| text.contains(needle));
    let heard = desk.heard();
    let with_prompt =
        heard.iter().filter(|texts| texts.iter().rev().take(1).any(|text| text.contains(prompt)));
    with_prompt.map(|texts| has(texts, other)).collect()
}

/// The turns have cost so many calls of the model, in the order in which they ended.
#[track_caller]
fn expect_calls_paid(desk: &Desk, calls: &[f64]) {
    let paid = desk.calls_paid();
    let is_right = |(paid, calls): (&f64, &f64)| (paid - calls).abs() < 1e-3;
    let are_right = paid.len() == calls.len() && paid.iter().zip(calls).all(is_right);
    assert!(are_right, "{paid:?} calls, not {calls:?}");
    let total: f64 = calls.iter().sum();
    assert!((desk.all_calls_paid() - total).abs() < 1e-3, "the total is that of the turns");
}

pub(super) fn result_of_a_fresh_session(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    desk.says("Prompt alpha", "I am done.\n<result>forty-two</result>");
    desk.start(&[]).completed("forty-two");
    assert_eq!(desk.requests().len(), 1, "no hidden call: {:?}", desk.heard());
}

pub(super) fn version_is_recorded(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    desk.says("Prompt alpha", DONE);
    desk.start(&[]).completed("done");
    let named =
        if desk.backend.name == "claude-acp" { "claude-agent-acp" } else { desk.backend.name };
    let version = table::row(named).version(table::Selection::from_environment());
    if std::env::var_os("RAYMOND_TEST_CLAUDE").is_some() && named == "claude" {
        return;
    }
    let status = desk.raymond(&["status", "r"]).stdout;
    let top = status.lines().find(|line| line.starts_with("version")).unwrap_or_default();
    assert!(top.to_lowercase().ends_with(&format!("{named} {version}")), "{status}");
    let told = status.lines().skip_while(|line| *line != "Cost by version of the coding agent");
    let told = told.skip(1).take(1).collect::<String>();
    // Some write their own name with capitals.
    assert!(told.to_lowercase().contains(&format!("{named} {version} ")), "{status}");
    let log = desk.raymond(&["log", "r", "--json"]).stdout.to_lowercase();
    assert!(log.contains(&format!("{named} {version}\"")), "{log}");
}

pub(super) fn session_is_resumed(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha."), ("NEXT.md", "Prompt beta.")]);
    desk.says("Prompt alpha", "<goto>NEXT</goto>").says("Prompt beta", DONE);
    desk.start(&[]).completed("done");
    assert_eq!(knows(&desk, "Prompt beta", "Prompt alpha"), [true]);
}

pub(super) fn branch_is_isolated(backend: Backend) {
    let desk = Desk::new(
        backend,
        [
            ("START.md", "Prompt alpha."),
            ("SIDE.md", "Prompt beta."),
            ("DEEP.md", "Prompt gamma."),
            ("LAST.md", "Prompt delta: {{result}}"),
        ],
    );
    // The branch costs more than its origin did, so that its total says nothing about where it began to count.
    let tool = (desk.backend.shell)("echo hello");
    desk.says("Prompt alpha", "<call return=\"LAST\">SIDE</call>")
        .on("Prompt beta", [tool, Reply::text("<goto>DEEP</goto>")])
        .says("Prompt gamma", "<result>found</result>")
        .says("Prompt delta: found", DONE);
    desk.start(&["--dangerously-skip-permissions"]).completed("done");
    let beta = knows(&desk, "Prompt beta", "Prompt alpha");
    assert!(!beta.is_empty() && beta.iter().all(|knows| *knows), "a branch knows its origin");
    assert_eq!(knows(&desk, "Prompt gamma", "Prompt alpha"), [true]);
    assert_eq!(knows(&desk, "Prompt gamma", "Prompt beta"), [true]);
    assert_eq!(knows(&desk, "Prompt delta", "Prompt alpha"), [true]);
    assert_eq!(knows(&desk, "Prompt delta", "Prompt beta"), [false], "the origin does not");
    expect_calls_paid(&desk, &[1.0, 2.0, 1.0, 1.0]);
}

pub(super) fn function_is_fresh(backend: Backend) {
    let desk = Desk::new(
        backend,
        [
            ("START.md", "Prompt alpha."),
            ("SIDE.md", "Prompt beta."),
            ("LAST.md", "Prompt delta: {{result}}"),
        ],
    );
    desk.says("Prompt alpha", "<function return=\"LAST\">SIDE</function>")
        .says("Prompt beta", "<result>found</result>")
        .says("Prompt delta: found", DONE);
    desk.start(&[]).completed("done");
    assert_eq!(knows(&desk, "Prompt beta", "Prompt alpha"), [false]);
    assert_eq!(knows(&desk, "Prompt delta", "Prompt alpha"), [true]);
    assert_eq!(knows(&desk, "Prompt delta", "Prompt beta"), [false]);
}

pub(super) fn cost_is_that_of_each_turn(backend: Backend) {
    let desk = Desk::new(
        backend,
        [
            ("START.md", "Prompt alpha."),
            ("NEXT.md", "Prompt beta."),
            ("AGAIN.md", "Prompt gamma."),
            ("LAST.md", "Prompt delta."),
        ],
    );
    let tool = || (desk.backend.shell)("echo hello");
    desk.on("Prompt alpha", [tool(), Reply::text("<goto>NEXT</goto>")])
        .says("Prompt beta", "<goto>AGAIN</goto>")
        // More than the session has cost before.
        .on("Prompt gamma", [tool(), tool(), tool(), Reply::text("<reset>LAST</reset>")])
        .says("Prompt delta", DONE);
    desk.start(&["--dangerously-skip-permissions"]).completed("done");
    expect_calls_paid(&desk, &[2.0, 1.0, 4.0, 1.0]);
}

pub(super) fn forked_run_costs_its_own_turns(backend: Backend) {
    let script = "[ -e fixed ] && echo '<goto>LAST</goto>'";
    let files = [("START.md", "Prompt alpha."), ("NEXT.sh", script), ("LAST.md", "Prompt beta.")];
    let desk = Desk::new(backend, files);
    let tool = (desk.backend.shell)("echo hello");
    // More than what follows, so that it cannot be taken for that.
    desk.on("Prompt alpha", [tool, Reply::text("<goto>NEXT</goto>")]).says("Prompt beta", DONE);
    assert_eq!(desk.start(&["--dangerously-skip-permissions"]).code, 1, "the script fails");
    assert_eq!(desk.raymond(&["fork-run", "r", "--as", "other"]).code, 0);
    desk.project.write("fixed", "");
    desk.raymond(&["resume", "other"]).completed("done");
    assert_eq!(desk.calls_paid_by("other"), [2.0, 0.0, 0.0, 1.0], "the past, and a turn");
    desk.resume().completed("done");
    assert_eq!(desk.calls_paid_by("r"), [2.0, 0.0, 0.0, 1.0], "the other run is not in it");
    assert_eq!(knows(&desk, "Prompt beta", "Prompt alpha"), [true, true]);
}

pub(super) fn budget_stops_the_run(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha."), ("NEXT.md", "Prompt beta.")]);
    desk.says("Prompt alpha", "<goto>NEXT</goto>").says("Prompt beta", DONE);
    desk.start(&["--budget", "0.0005"]).failed(3, "budget");
    assert_eq!(desk.requests().len(), 1);
}

pub(super) fn usage_limit_pauses_the_run(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    desk.on("Prompt alpha", [(desk.backend.usage_limit)()]);
    desk.start(&["--no-wait"]).failed(4, "usage limit");
    // The session may be asked to continue instead of being given the prompt again.
    desk.says("", DONE);
    desk.resume().completed("done");
}

pub(super) fn transient_failure_is_overcome(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    let overloaded = Reply::status(503, "overloaded_error", "Overloaded");
    desk.says("", DONE).on("Prompt alpha", [overloaded, Reply::text(DONE)]);
    desk.start(&[]).completed("done");
}

pub(super) fn answer_that_is_cut_off_is_asked_for_again(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    desk.says("", DONE).on("Prompt alpha", [Reply::cut(), Reply::text(DONE)]);
    desk.start(&[]).completed("done");
}

pub(super) fn answer_that_is_too_long_is_not_asked_for_again(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    desk.on("", [Reply::too_long()]);
    // These hand the beginning over as if it were the answer.
    let tells = !["opencode", "codex-acp"].contains(&desk.backend.name);
    let why = if tells { "or for a file that is written in parts" } else { "no transition tag" };
    desk.start(&[]).failed(1, why);
    assert!(desk.requests().len() <= 4, "by itself: {}", desk.requests().len());
    let journal = desk.project.read(".raymond/workflows/r.journal");
    assert!(!journal.contains("\"retried\""), "it would be as long again: {journal}");
}

pub(super) fn wrong_key_fails_with_advice(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    desk.on("", [Reply::status(401, "authentication_error", "Incorrect API key provided: dummy.")]);
    desk.start(&[]).failed(1, "log in");
}

pub(super) fn killed_turn_is_continued(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha."), ("NEXT.md", "Prompt beta.")]);
    let gate = Gate::new();
    desk.says("Prompt alpha", "<goto>NEXT</goto>")
        .on("Prompt beta", [Reply::text(DONE).held_by(&gate)]);
    let mut child = desk.spawn();
    desk.wait_for_requests(2);
    desk.wait_for_session("<goto>NEXT</goto>");
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    for pid in desk.agent_pids() {
        kill(pid, libc::SIGKILL);
    }
    wait_until("the coding agent is gone", PATIENCE, || desk.agent_pids().is_empty());
    // From here on the model answers whatever it is asked.
    desk.says("", DONE);
    gate.open();
    desk.resume().completed("done");
    let heard = desk.heard();
    let last = heard.last().unwrap();
    let count = |needle: &str| last.iter().filter(|text| text.contains(needle)).count();
    assert_eq!(count("Prompt alpha"), 1, "the session is the same: {last:?}");
    assert_eq!(count("Prompt beta"), 1, "the prompt is there once: {last:?}");
    let paid = desk.all_calls_paid();
    assert!((paid - 2.0).abs() < 1e-3, "{paid} calls: the one that was cut off has no usage");
}

pub(super) fn activity_names_the_tool(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    let tool = (desk.backend.shell)("echo a-command-to-see; sleep 2");
    desk.on("Prompt alpha", [tool, Reply::text(DONE)]);
    let ran = desk.start(&["--json", "--dangerously-skip-permissions"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let events = ran.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let mut activities = events.filter(|event| event["event"] == "activity");
    let is_tool = |event: &Value| event["tool"] == desk.backend.shell_name;
    assert!(activities.any(|event| is_tool(&event)), "{}", ran.stdout);
}

pub(super) fn transcript_has_prompt_tool_and_answer(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    let tool = (desk.backend.shell)("echo printed-by-the-tool");
    desk.on("Prompt alpha", [tool, Reply::text("The answer.\n<result>done</result>")]);
    desk.start(&["--dangerously-skip-permissions"]).completed("done");
    let results = desk.requests().last().unwrap().tool_results();
    assert!(results.iter().any(|text| text.contains("printed-by-the-tool")), "{results:?}");
    let Ran { stdout, .. } = desk.raymond(&["show", "r", "main.1", "--json"]);
    let entries: Vec<Value> =
        stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let find = |kind: &str| entries.iter().rfind(|entry| entry["entry"] == kind).cloned();
    assert_eq!(find("prompt").unwrap()["text"].as_str().unwrap().trim_end(), "Prompt alpha.");
    let tool = find("tool").unwrap();
    assert_eq!(
        (&tool["name"], &tool["outcome"]),
        (&desk.backend.shell_name.into(), &"done".into())
    );
    assert!(tool["summary"].as_str().unwrap().contains("printed-by-the-tool"), "{tool}");
    assert!(tool["output"].as_str().unwrap().contains("printed-by-the-tool"), "{tool}");
    assert_eq!(find("answer").unwrap()["text"], "The answer.\n<result>done</result>");
}

pub(super) fn interrupt_stops_the_turn(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    desk.on("Prompt alpha", [Reply::hang()]);
    let child = desk.spawn();
    desk.wait_for_requests(1);
    kill(child.id(), libc::SIGINT);
    kill(child.id(), libc::SIGTERM);
    let ran = Ran::of(&child.wait_with_output().unwrap());
    assert_eq!(ran.code, 130, "{ran:?}");
    desk.project.wait_until_quiet();
    desk.says("", DONE);
    desk.resume().completed("done");
}

pub(super) fn doctor_knows_it(backend: Backend) {
    let desk = Desk::new(backend, [("START.md", "Prompt alpha.")]);
    let found = desk.raymond(&["doctor", "--json"]).stdout;
    let found: Value = serde_json::from_str(&found).unwrap();
    let own = |check: &&Value| check["what"].as_str().unwrap().starts_with(desk.backend.name);
    let own: Vec<_> = found.as_array().unwrap().iter().filter(own).collect();
    assert!(own.len() >= 2, "it is there, and says its version: {own:?}");
    assert!(own.iter().all(|check| check["verdict"] != "problem"), "{own:?}");
    let turn = format!("{} turn", desk.backend.name);
    match own.iter().find(|check| check["what"] == turn.as_str()) {
        Some(turn) => assert_eq!(turn["verdict"], "ok", "{turn}"),
        // These cannot be pointed to a model of ours.
        None => assert!(["opencode", "codex-acp"].contains(&desk.backend.name), "{own:?}"),
    }
    assert!(desk.requests().is_empty(), "nothing is paid for");
}
