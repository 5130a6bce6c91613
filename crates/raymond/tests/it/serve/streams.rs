//! Live data: what changes is sent, and a reader that comes back misses nothing.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{PATIENCE, Server};
use crate::env::{Project, wait_until};

/// A run that goes on when the file `go` is there.
fn waiting() -> Project {
    Project::new([
        ("START.sh", "echo '<goto>WAIT</goto>'"),
        ("WAIT.sh", "touch waits; until [ -e go ]; do sleep 0.01; done; echo '<goto>LAST</goto>'"),
        ("LAST.sh", "echo '<result>done</result>'"),
    ])
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
