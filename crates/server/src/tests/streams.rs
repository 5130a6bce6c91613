//! Live data: what changes is sent, and a reader that comes back misses nothing.

use serde_json::json;

use super::*;

/// A workflow that goes on when the file `go` is there.
const WAITING: [(&str, &str); 3] = [
    ("START.sh", "echo '<goto>WAIT</goto>'"),
    ("WAIT.sh", "touch waits; until [ -e go ]; do sleep 0.01; done; echo '<goto>LAST</goto>'"),
    ("LAST.sh", "echo '<result>done</result>'"),
];

/// A run `w` that waits for `go`.
fn waiting() -> (Desk, JoinHandle<RunEnd>) {
    let desk = Desk::new(WAITING);
    let thread = desk.begin("w", |_| {});
    until("it waits", || desk.file("waits").exists());
    (desk, thread)
}

#[test]
fn stream_of_a_run_tells_of_agents_steps_and_the_end() {
    let (desk, thread) = waiting();
    let mut events = desk.stream(&format!("{}/events", desk.path("w")), &[]);
    let first = events.until(|event| event.name == "run");
    assert_eq!(first.data["status"], "running");
    assert!(first.data.get("agents").is_none(), "{first:?}");
    desk.write("go", "");
    let mut seen = Vec::new();
    let last = events.until(|event| {
        seen.push(event.name.clone());
        event.name == "run" && event.data["status"] == "completed"
    });
    assert!(seen.contains(&"step".to_owned()) && seen.contains(&"agent".to_owned()), "{seen:?}");
    assert_eq!(last.id, Some(last.data["offset"].to_string()));
    assert_eq!(last.data["offset"], fs::metadata(desk.journal("w")).unwrap().len());
    thread.join().unwrap();
}

#[test]
fn only_the_last_event_of_a_batch_has_an_id() {
    let desk = Desk::new(SHORT);
    desk.run("r");
    let mut events = desk.stream(&format!("{}/events?from=0", desk.path("r")), &[]);
    let agent = events.next();
    assert_eq!((&*agent.name, agent.id), ("agent", None));
    let run = events.until(|event| event.id.is_some());
    assert_eq!(run.name, "run");
}

#[test]
fn reader_that_comes_back_to_another_server_misses_nothing_and_gets_nothing_twice() {
    let (desk, thread) = waiting();
    let path = format!("{}/events", desk.path("w"));
    let id = desk.stream(&path, &[]).until(|event| event.name == "run").id.unwrap();
    desk.write("go", "");
    thread.join().unwrap();
    let desk = Desk::on(desk.folder, |_| {});
    let mut views: BTreeMap<String, Value> = BTreeMap::new();
    let last = desk.stream(&path, &[&format!("Last-Event-ID: {id}")]).until(|event| {
        if event.name == "step" {
            views.insert(event.data["step"].as_str().unwrap().to_owned(), event.data.clone());
        }
        event.name == "run"
    });
    assert_eq!(last.data["status"], "completed");
    // Not the first step, which the reader had seen to its end.
    assert_eq!(views.keys().collect::<Vec<_>>(), ["main.2", "main.3"]);
    assert_eq!(views["main.2"]["end"], "followed");
    // A reader that knows everything gets only the run.
    let id = format!("Last-Event-ID: {}", last.id.unwrap());
    assert_eq!(desk.stream(&path, &[&id]).next().name, "run");
    // An id of another journal begins anew.
    assert_eq!(desk.stream(&format!("{path}?from=999999"), &[]).next().name, "agent");
}

#[test]
fn stream_of_a_run_whose_files_are_removed_says_so() {
    let desk = Desk::new(SHORT);
    desk.run("r");
    let mut events = desk.stream(&format!("{}/events", desk.path("r")), &[]);
    events.until(|event| event.name == "run");
    fs::remove_file(desk.journal("r")).unwrap();
    assert_eq!(events.until(|event| event.name != "run").name, "removed");
}

#[test]
fn stream_of_rows_tells_of_new_and_changed_and_removed_runs() {
    let desk = Desk::new(SHORT);
    desk.run("first");
    let mut events = desk.stream("/api/events", &[]);
    let row = events.until(|event| event.name == "row");
    assert_eq!(row.data["run"], "first");
    let thread = desk.begin("second", |_| {});
    events.until(|event| {
        event.name == "row" && event.data["run"] == "second" && event.data["status"] == "completed"
    });
    thread.join().unwrap();
    events.until(|event| event.name == "summary" && event.data["ended"] == 2);
    fs::remove_file(desk.journal("first")).unwrap();
    let removed = events.until(|event| event.name == "removed");
    assert_eq!(removed.data, json!({ "project": desk.project(), "run": "first" }));
    assert_eq!(events.until(|event| event.name == "summary").data["ended"], 1);
}

#[test]
fn stream_of_a_transcript_grows_with_the_step_and_ends_with_it() {
    let desk = Desk::new([("START.md", "Go on.")]);
    desk.write(
        "agent.sh",
        "cat > /dev/null; echo one; touch waits; until [ -e go ]; do sleep 0.01; done; echo two; \
         echo '{\"result\":\"<result>done</result>\",\"cost_usd\":0.5}'",
    );
    let thread = desk.begin("t", |_| {});
    until("it waits", || desk.file("waits").exists());
    let path = format!("{}/steps/main.1/transcript/events", desk.path("t"));
    let mut events = desk.stream(&path, &[]);
    let first = events.next();
    assert_eq!((&first.data["entry"], first.id), (&json!("prompt"), Some("0".to_owned())));
    desk.write("go", "");
    let mut entries = Vec::new();
    events.until(|event| {
        entries.push(event.data["entry"].as_str().unwrap_or("-").to_owned());
        event.name == "over"
    });
    assert_eq!(entries, ["text", "text", "answer", "cost", "-"]);
    thread.join().unwrap();
    let mut rest = desk.stream(&path, &["Last-Event-ID: 2"]);
    assert_eq!(rest.next().data["entry"], "answer");
    let mut rest = desk.stream(&format!("{path}?from=4"), &[]);
    assert_eq!(rest.next().data["entry"], "cost");
    assert_eq!(desk.get(&path.replace("main.1", "main.9")).status, 404);
}

#[test]
fn stream_above_the_limit_is_refused_and_a_closed_one_makes_room() {
    let desk = Desk::new(SHORT);
    desk.run("first");
    let path = format!("{}/events", desk.path("first"));
    let mut open: Vec<_> = (0..512).map(|_| desk.stream(&path, &[])).collect();
    let refused = desk.get("/api/events");
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(refused.json()["error"]["hints"][0].is_string(), "{refused:?}");
    assert_eq!(open[0].until(|event| event.name == "run").data["status"], "completed");
    drop(open.pop());
    desk.stream("/api/events", &[]).until(|event| event.name == "row");
}
