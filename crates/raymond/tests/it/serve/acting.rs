//! Changes through the server are those of the command line, and no run depends on the server.

use std::fs;

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
    assert_eq!(run["can"], json!(["stop", "cancel", "limits"]));
    drop(server);
    project.write("go", "");
    project.raymond(&["log", &id, "--follow"]);
    assert!(project.raymond(&["status", &id]).stdout.contains("completed"));
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
    server.post(&format!("{path}/stop"), &json!({ "now": true })).ok();
    project.raymond(&["log", "r", "--follow"]);
    let run = server.get(&path).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("paused"), &json!("waiting")));
    assert_eq!(run["can"], json!(["resume", "cancel", "limits"]));
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
fn server_resumes_runs_whose_program_died_unless_a_setting_forbids_it() {
    let project = Project::new([(
        "START.sh",
        "touch waits; until [ -e go ]; do sleep 0.01; done; echo '<result>done</result>'",
    )]);
    let mut child = project.spawn(&["flow", "--id", "d"]);
    wait_until("it runs", PATIENCE, || project.file("waits").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    project.write(".raymond/config.toml", "[serve]\nrecover = false\n");
    let server = Server::start(&project, &[]);
    let run = server.get(&server.run("d")).ok();
    assert_eq!((&run["status"], &run["group"]), (&json!("died"), &json!("needs_you")));
    drop(server);
    project.write(".raymond/config.toml", "");
    let server = Server::start(&project, &[]);
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
