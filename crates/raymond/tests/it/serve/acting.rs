//! Changes through the server are those of the command line, and no run depends on the server.

use std::{
    fs,
    io::{BufRead as _, BufReader},
};

use serde_json::json;

use super::{PATIENCE, Server, project};
use crate::env::{Project, wait_until};

fn workflow(server: &Server) -> String {
    let workflows = server.get("/api/workflows").ok();
    let key = workflows["workflows"][0]["workflow"].as_str().unwrap();
    format!("/api/workflows/{key}/runs")
}

#[test]
fn run_is_started_with_input_variables_and_budget_and_outlives_the_server() {
    let project = Project::new([
        (
            "START.sh",
            "echo \"$RAYMOND_INPUT\" > given; touch waits; until [ -e go ]; do sleep 0.01; done; echo '<result>done</result>'",
        ),
        ("NEVER.md", "{{branch}}"),
    ]);
    fs::remove_dir_all(project.file(".raymond")).unwrap();
    let server = Server::start(&project, &["--project", "."]);
    let input = "two\nlines, <b>\"quotes\"</b> and --options";
    let body = json!({ "input": input, "variables": { "branch": "main=x" }, "budget_usd": 2.5 });
    let answer = server.post(&workflow(&server), &body);
    assert_eq!(answer.status, 201, "{answer:?}");
    let id = answer.json()["run"].as_str().unwrap().to_owned();
    wait_until("it runs", PATIENCE, || project.file("waits").exists());
    assert_eq!(project.read("given"), format!("{input}\n"));
    let run = server.get(&server.run(&id)).ok();
    assert_eq!(run["budget_usd"], 2.5);
    assert_eq!(run["metadata"], json!({ "branch": "main=x" }));
    assert_eq!(run["can"], json!(["stop", "cancel", "limits", "tell"]));
    drop(server);
    project.write("go", "");
    project.raymond(&["log", &id, "--follow"]);
    assert!(project.raymond(&["status", &id]).stdout.contains("completed"));
}

#[test]
fn workflow_with_lint_errors_is_not_started_and_the_answer_says_what_to_do() {
    let project = Project::new([("START.sh", "echo '<goto>GONE</goto>'")]);
    let server = Server::start(&project, &["--project", "."]);
    let answer = server.post(&workflow(&server), &json!({}));
    assert_eq!(answer.status, 409, "{answer:?}");
    let path = project.file("flow").display().to_string();
    let error = answer.json()["error"].clone();
    assert_eq!(error["message"], format!("{path} has an error, so it was not started"));
    let hint = error["hints"][0].as_str().unwrap();
    assert!(hint.starts_with(&format!("fix it, and check again: raymond lint {path}")), "{hint}");
    assert_eq!(server.get("/api/runs").ok()["runs"], json!([]));
}

#[test]
fn run_is_stopped_limited_resumed_and_cancelled() {
    let project = Project::new([(
        "START.sh",
        "touch waits; until [ -e go ]; do sleep 0.01; done; echo '<goto>START</goto>'",
    )]);
    project.raymond(&["flow", "--id", "r", "--detach"]);
    wait_until("it runs", PATIENCE, || project.file("waits").exists());
    let server = Server::start(&project, &[]);
    let path = server.run("r");
    let limits = json!({ "budget_usd": 20, "max_iterations": 5 });
    server.post(&format!("{path}/limits"), &limits).ok();
    let run = server.get(&path).ok();
    assert_eq!((&run["budget_usd"], &run["max_iterations"]), (&json!(20.0), &json!(5)));
    let text = "two\nlines, and --options";
    server.post(&format!("{path}/tell"), &json!({ "agent": "main", "text": text })).ok();
    let nobody = server.post(&format!("{path}/tell"), &json!({ "agent": "main_x", "text": text }));
    assert_eq!(nobody.status, 404, "{nobody:?}");
    assert_eq!(nobody.json()["error"]["hints"], json!(["its agents: main"]));
    let log = server.get(&format!("{path}/log")).ok();
    let told: Vec<_> =
        log["events"].as_array().unwrap().iter().filter(|it| it["event"] == "told").collect();
    assert_eq!(told.len(), 1, "{log}");
    assert_eq!((&told[0]["agent"], &told[0]["text"]), (&json!("main"), &json!(text)));
    server.post(&format!("{path}/stop"), &json!({ "now": true })).ok();
    project.raymond(&["log", "r", "--follow"]);
    let run = server.get(&path).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("paused"), &json!("waiting")));
    assert_eq!(run["can"], json!(["resume", "cancel", "limits", "tell"]));
    let again = server.post(&format!("{path}/stop"), &json!({}));
    assert_eq!(again.status, 409, "{again:?}");
    assert_eq!(again.json()["error"]["message"], "run r is not running");
    project.write("go", "");
    server.post(&format!("{path}/resume"), &json!({})).ok();
    project.raymond(&["log", "r", "--follow"]);
    let run = server.get(&path).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("stopped"), &json!("needs_you")), "{run}");
    assert!(run["why"].as_str().unwrap().contains("5 states"), "{run}");
    let cancelled = server.post(&format!("{path}/cancel"), &json!({})).ok();
    assert_eq!(cancelled["status"], "cancelled");
    let over = server.post(&format!("{path}/resume"), &json!({}));
    assert_eq!(over.status, 409, "{over:?}");
}

#[test]
fn resume_in_the_background_prints_the_id_and_tells_what_is_wrong() {
    let project = Project::new([("START.sh", "[ -e go ] && echo '<result>done</result>'")]);
    assert_eq!(project.raymond(&["flow", "--id", "r"]).code, 1);
    project.write("go", "");
    let ran = project.raymond(&["resume", "--detach"]);
    assert_eq!((ran.code, &*ran.stdout), (0, "r\n"), "{ran:?}");
    project.raymond(&["log", "r", "--follow"]);
    assert!(project.raymond(&["status", "r"]).stdout.contains("completed"));
    project.raymond(&["flow", "--id", "c"]);
    project.raymond(&["cancel", "c", "--yes"]);
    let unknown = project.raymond(&["resume", "none", "--detach"]);
    assert_eq!(unknown.code, 2, "{unknown:?}");
}

#[cfg(unix)]
#[test]
fn server_resumes_runs_whose_program_died_only_if_it_is_told_to() {
    let project = Project::new([(
        "START.sh",
        "touch waits; until [ -e go ]; do sleep 0.01; done; echo '<result>done</result>'",
    )]);
    let mut child = project.spawn(&["flow", "--id", "d"]);
    wait_until("it runs", PATIENCE, || project.file("waits").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let server = Server::start(&project, &[]);
    let run = server.get(&server.run("d")).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("died"), &json!("needs_you")));
    drop(server);
    let server = Server::start(&project, &["--recover"]);
    let path = server.run("d");
    wait_until("it is resumed", PATIENCE, || server.get(&path).ok()["status"] == "running");
    project.write("go", "");
    wait_until("it ends", PATIENCE, || server.get(&path).ok()["status"] == "completed");
}

#[test]
fn two_servers_show_the_same_runs() {
    let project = project();
    let (one, two) = (Server::start(&project, &[]), Server::start(&project, &[]));
    assert_ne!(one.address, two.address);
    assert_eq!(one.token, two.token);
    assert_eq!(one.get("/api/runs").ok()["runs"], two.get("/api/runs").ok()["runs"]);
}

/// `raymond demo --web`, whose files are below `tmp` of the project.
#[cfg(unix)]
fn demo(project: &Project) -> Server {
    fs::create_dir(project.file("tmp")).unwrap();
    let mut command = project.command(&["demo", "--web"]);
    command.env("TMPDIR", project.file("tmp")).stdout(std::process::Stdio::null());
    // No key, no login, no program of a coding agent.
    command
        .env("HOME", project.path())
        .env("PATH", "/usr/bin:/bin")
        .env_remove("ANTHROPIC_API_KEY");
    let mut child = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let link =
        lines.by_ref().find_map(|line| Some(line.unwrap().split_once("http://")?.1.to_owned()));
    // The rest is read, so that the demo can print it.
    std::thread::spawn(move || lines.count());
    let link = link.unwrap();
    let (address, token) = link.trim().split_once("/#k=").unwrap();
    let server = Server::attached(child, address.to_owned(), token.to_owned());
    wait_until("it is shown", PATIENCE, || server.get("/api/runs").ok()["runs"][0].is_object());
    server
}

#[cfg(unix)]
#[test]
fn demo_is_shown_until_ctrl_c_and_leaves_nothing() {
    let project = Project::new([]);
    let mut server = demo(&project);
    let row = server.get("/api/runs").ok()["runs"][0].clone();
    let path = server.run(row["run"].as_str().unwrap());
    assert_eq!(server.post(&format!("{path}/stop"), &json!({})).status, 403);
    let [host, _] = server.good();
    assert_eq!(server.send("GET /", &[&host], "").status, 200);
    wait_until("it ends", PATIENCE, || server.get(&path).ok()["status"] == "completed");
    assert!(server.get(&path).ok()["agents_born"].as_u64().unwrap() > 3);
    assert_eq!(server.end(libc::SIGINT), Some(0));
    project.wait_until_quiet();
    assert_eq!(fs::read_dir(project.file("tmp")).unwrap().count(), 0);
    assert!(!project.file(".state").exists(), "nothing of the user is touched");
}

#[cfg(unix)]
#[test]
fn demo_that_is_interrupted_ends_with_its_page() {
    let project = Project::new([]);
    let mut server = demo(&project);
    assert_eq!(server.end(libc::SIGINT), Some(130));
    project.wait_until_quiet();
    assert_eq!(fs::read_dir(project.file("tmp")).unwrap().count(), 0);
}
