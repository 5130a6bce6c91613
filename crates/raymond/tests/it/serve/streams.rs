//! Live data: what changes is sent, and a reader that comes back misses nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Event, PATIENCE, Server, project};
use crate::env::{Project, wait_until};

/// A run that goes on when the file `go` is there.
fn waiting() -> Project {
    Project::new([
        ("START.sh", "echo '<goto>WAIT</goto>'"),
        ("WAIT.sh", "touch waits; until [ -e go ]; do sleep 0.01; done; echo '<goto>LAST</goto>'"),
        ("LAST.sh", "echo '<result>done</result>'"),
    ])
}

fn is_status(event: &Event, status: &str) -> bool {
    event.name == "run" && event.data["status"] == status
}

#[test]
fn stream_of_a_run_tells_of_agents_steps_and_the_end() {
    let project = waiting();
    project.raymond(&["flow", "--id", "w", "--detach"]);
    wait_until("it waits", PATIENCE, || project.file("waits").exists());
    let server = Server::start(&project, &[]);
    let mut events = server.stream(&format!("{}/events", server.run("w")), &[]);
    let first = events.until(|event| event.name == "run");
    assert_eq!(first.data["status"], "running");
    assert!(first.data.get("agents").is_none(), "{first:?}");
    project.write("go", "");
    let mut names = Vec::new();
    let last = events.until(|event| {
        names.push(event.name.clone());
        is_status(event, "completed")
    });
    assert!(names.contains(&"step".to_owned()) && names.contains(&"agent".to_owned()), "{names:?}");
    assert_eq!(last.id, Some(last.data["offset"].to_string()));
    let length = project.read(".raymond/workflows/w.journal").len();
    assert_eq!(last.data["offset"], length);
}

#[test]
fn reader_that_comes_back_after_the_server_was_killed_misses_nothing() {
    let project = waiting();
    project.raymond(&["flow", "--id", "w", "--detach"]);
    wait_until("it waits", PATIENCE, || project.file("waits").exists());
    let server = Server::start(&project, &[]);
    let path = format!("{}/events", server.run("w"));
    let id = server.stream(&path, &[]).until(|event| event.name == "run").id.unwrap();
    drop(server);
    project.write("go", "");
    project.raymond(&["log", "w", "--follow"]);
    let server = Server::start(&project, &[]);
    let mut views: BTreeMap<String, Value> = BTreeMap::new();
    let last = server.stream(&path, &[&format!("Last-Event-ID: {id}")]).until(|event| {
        if event.name == "step" {
            views.insert(event.data["step"].as_str().unwrap().to_owned(), event.data.clone());
        }
        event.name == "run"
    });
    assert_eq!(last.data["status"], "completed");
    // Not the first step, which the reader had seen to its end.
    assert_eq!(views.keys().collect::<Vec<_>>(), ["main.2", "main.3"]);
    assert_eq!(views["main.2"]["end"], "followed");
    // Nothing is sent twice: a reader that knows everything gets only the run.
    let id = format!("Last-Event-ID: {}", last.id.unwrap());
    assert_eq!(server.stream(&path, &[&id]).next().name, "run");
    // An id of another journal begins anew.
    let mut anew = server.stream(&format!("{path}?from=999999"), &[]);
    assert_eq!(anew.next().name, "agent");
}

#[test]
fn stream_of_rows_tells_of_new_and_changed_and_removed_runs() {
    let project = project();
    let server = Server::start(&project, &[]);
    let mut events = server.stream("/api/events", &[]);
    let row = events.until(|event| event.name == "row");
    assert_eq!(row.data["run"], "first");
    project.raymond(&["flow", "--id", "second"]).completed("it works");
    events.until(|event| {
        event.name == "row" && event.data["run"] == "second" && event.data["status"] == "completed"
    });
    events.until(|event| event.name == "summary" && event.data["ended"] == 2);
    project.raymond(&["prune", "--older-than", "0s", "--yes"]);
    events.until(|event| event.name == "removed" && event.data["run"] == "first");
}

#[test]
fn stream_of_a_transcript_grows_with_the_step_and_ends_with_it() {
    let project = Project::new([("START.md", "Go on.")]);
    project.write(
        "agent.sh",
        "cat > /dev/null; echo one; touch waits; until [ -e go ]; do sleep 0.01; done; echo two; \
         echo '{\"result\":\"<result>done</result>\",\"cost_usd\":0.5}'",
    );
    project.write(".raymond/config.toml", "agent_program = \"bash agent.sh\"\n");
    project.raymond(&["flow", "--id", "t", "--detach", "--no-lint"]);
    wait_until("it waits", PATIENCE, || project.file("waits").exists());
    let server = Server::start(&project, &[]);
    let path = format!("{}/steps/main.1/transcript/events", server.run("t"));
    let mut events = server.stream(&path, &[]);
    assert_eq!(events.next().data["entry"], "prompt");
    project.write("go", "");
    let mut entries = Vec::new();
    events.until(|event| {
        entries.push(event.data["entry"].as_str().unwrap_or("-").to_owned());
        event.name == "over"
    });
    assert_eq!(entries, ["text", "text", "answer", "cost", "-"]);
    let mut rest = server.stream(&path, &["Last-Event-ID: 2"]);
    assert_eq!(rest.next().data["entry"], "answer");
}

#[test]
fn stream_above_the_limit_is_refused_and_others_go_on() {
    let project = project();
    let server = Server::start(&project, &[]);
    let path = format!("{}/events", server.run("first"));
    let mut open: Vec<_> = (0..512).map(|_| server.stream(&path, &[])).collect();
    let refused = server.get("/api/events");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.json()["error"]["hints"][0].is_string(), "{refused:?}");
    assert_eq!(open[0].until(|event| event.name == "run").data["status"], "completed");
    drop(open.pop());
    wait_until("a place is free", PATIENCE, || {
        server.send("HEAD /api/events", &server.good().each_ref().map(String::as_str), "").status
            == 200
    });
}
