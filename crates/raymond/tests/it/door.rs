//! Asking a run for something from another process: stop, limit, tell, cancel.

use std::{fs, process::Child, time::Duration};

use serde_json::{Value, json};

use crate::env::{Project, Ran, as_nobody, kill, wait_until};

const PATIENCE: Duration = Duration::from_mins(1);
/// Runs until a file tells it to end.
const WAITS: &str =
    "touch began; until [ -e go ]; do sleep 0.01; done; echo '<result>fine</result>'";

/// A run whose step waits.
fn running() -> (Project, Child) {
    let project = Project::new([("START.sh", WAITS)]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    (project, child)
}

fn wait(child: Child) -> Ran {
    Ran::of(&child.wait_with_output().unwrap())
}

#[test]
fn stopped_run_pauses_when_its_step_ends_and_is_resumed() {
    let project = Project::new([
        ("START.sh", "touch began; until [ -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'"),
        ("NEXT.sh", "echo '<result>fine</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "r", "--detach"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    let stopped = project.raymond(&["stop", "r"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert!(stopped.stderr.contains("Waiting for 1 running step"), "{stopped:?}");
    project.write("go", "");
    project.wait_until_quiet();
    assert!(project.raymond(&["status", "r"]).stdout.contains("paused"));
    project.raymond(&["resume", "r"]).completed("fine");
}

#[test]
fn stop_now_ends_the_running_step_and_a_resume_starts_it_again() {
    let (project, child) = running();
    let stopped = project.raymond(&["stop", "r", "--now"]);
    assert_eq!(stopped.code, 0, "{stopped:?}");
    assert_eq!(wait(child).code, 130);
    project.wait_until_quiet();
    project.write("go", "");
    project.raymond(&["resume", "r"]).completed("fine");
}

#[test]
fn run_that_is_not_running_cannot_be_stopped_and_says_so() {
    let project = Project::new([("START.sh", "echo '<result>fine</result>'")]);
    project.raymond(&["start", "flow", "--id", "r"]).completed("fine");
    let stopped = project.raymond(&["stop", "r"]);
    assert_eq!(stopped.code, 2, "{stopped:?}");
    assert!(stopped.stderr.contains("run r is not running"), "{stopped:?}");
    let limited = project.raymond(&["limit", "r", "--budget", "1"]);
    assert_eq!(limited.code, 2, "{limited:?}");
    assert!(limited.stderr.contains("it has no limits to change"), "{limited:?}");
    assert_eq!(project.raymond(&["limit", "r"]).code, 2, "a limit has to be named");
}

#[test]
fn limit_that_was_confirmed_is_in_force_although_the_orchestrator_is_killed_at_once() {
    for round in 1..=5_u32 {
        let (project, mut child) = running();
        let budget = format!("{round}.25");
        let limited = project.raymond(&["limit", "r", "--budget", &budget]);
        kill(child.id(), libc::SIGKILL);
        let _ = child.wait();
        assert_eq!(limited.code, 0, "{limited:?}");
        let journal = project.read(".raymond/workflows/r.journal");
        let record = format!("{{\"limits_changed\":{{\"limits\":{{\"budget_usd\":{budget},");
        assert_eq!(journal.matches(&record).count(), 1, "{journal}");
        project.write("go", "");
        project.raymond(&["resume", "r"]).completed("fine");
        let state = project.read(".raymond/workflows/r.json");
        assert!(state.contains(&format!("\"budget_usd\": {budget}")), "{state}");
        project.wait_until_quiet();
    }
}

#[test]
fn limit_is_confirmed_or_carried_out_by_the_caller_whenever_the_orchestrator_is_killed() {
    for delay_ms in [0, 3, 10, 30, 60] {
        let (project, mut child) = running();
        let asking = project.spawn(&["limit", "r", "--max-iterations", "77"]);
        // Any moment is right: whatever it is, the change must be in force when it is confirmed.
        std::thread::sleep(Duration::from_millis(delay_ms));
        kill(child.id(), libc::SIGKILL);
        let _ = child.wait();
        let limited = wait(asking);
        assert_eq!(limited.code, 0, "{limited:?}");
        let journal = project.read(".raymond/workflows/r.journal");
        assert!(journal.contains("\"max_iterations\":77"), "{journal}");
        assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
        project.wait_until_quiet();
        let left = fs::read_dir(project.file(".raymond/workflows/r/door")).unwrap().count();
        assert_eq!(left, 0);
    }
}

#[test]
fn another_user_finds_the_door_closed() {
    let (project, child) = running();
    let door = project.file(".raymond/workflows/r/door");
    let entered = as_nobody(|| {
        (fs::read_dir(&door).is_ok(), fs::write(door.join("x.request"), "{}").is_ok())
    });
    if let Some(entered) = entered {
        assert_eq!(entered, (false, false));
    }
    project.write("go", "");
    wait(child).completed("fine");
}

/// How many messages the journal of the run has.
fn told(project: &Project) -> usize {
    project.read(".raymond/workflows/r.journal").matches("\"told\":").count()
}

#[test]
fn message_is_kept_once_whenever_the_orchestrator_is_killed() {
    for delay_ms in [0, 3, 10, 30, 60] {
        let (project, mut child) = running();
        let telling = project.spawn(&["tell", "r", "use the other table"]);
        // Any moment is right: whatever it is, the message must be kept when it is confirmed, and only once.
        std::thread::sleep(Duration::from_millis(delay_ms));
        kill(child.id(), libc::SIGKILL);
        let _ = child.wait();
        let done = wait(telling);
        assert_eq!(done.code, 0, "{done:?}");
        assert_eq!(told(&project), 1);
        assert_eq!(project.raymond(&["cancel", "r", "--yes"]).code, 0);
        project.wait_until_quiet();
    }
}

#[test]
fn message_needs_a_text_an_agent_and_a_run_that_is_not_over() {
    let (project, child) = running();
    for (words, said) in [
        (&["tell", "r", " "][..], "the message is empty"),
        (&["tell", "r", "main_x1", "hello"], "no agent `main_x1` at work"),
        (&["tell", "r", "main_x1", "hello"], "its agents: main"),
        (&["tell", "r", "a", "b", "c"], "no more were expected"),
        (&["tell", "other", "hello"], "there is no run `other`"),
    ] {
        let refused = project.raymond(words);
        assert_eq!(refused.code, 2, "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let long = "x".repeat(40_000);
    let refused = project.raymond(&["tell", "r", "main", &long]);
    assert!(refused.stderr.contains("put it into a file"), "{refused:?}");
    assert_eq!(told(&project), 0);
    assert_eq!(project.raymond(&["tell", "r", "main", "--", "-v is wrong"]).code, 0);
    project.write("go", "");
    let ran = wait(child).completed("fine");
    assert!(ran.stderr.contains("told by"), "{ran:?}");
    assert!(ran.stderr.contains("ended before it could read: -v is wrong"), "{ran:?}");
    let late = project.raymond(&["tell", "r", "hello"]);
    assert_eq!(late.code, 2, "{late:?}");
    assert!(late.stderr.contains("run r is completed"), "{late:?}");
}

/// The failure that a command prints for programs.
fn failure(ran: &Ran) -> Value {
    let line = ran.stderr.lines().last().unwrap_or_default();
    let printed: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{ran:?}"));
    assert_eq!(printed["error"]["exit_code"], ran.code, "{ran:?}");
    printed["error"].clone()
}

#[test]
fn failure_for_programs_is_an_object_on_the_last_line_of_standard_error() {
    let project = Project::new([("START.sh", "false")]);
    project.raymond(&["flow", "--id", "r"]);
    project.raymond(&["flow", "--id", "c"]);
    project.raymond(&["cancel", "c", "--yes"]);
    let stopped = failure(&project.raymond(&["stop", "r", "--json"]));
    let expected = json!({
        "kind": "refused", "message": "run r is not running",
        "hints": ["show its status: raymond status r"], "exit_code": 2,
    });
    assert_eq!(stopped, expected);
    for (arguments, kind) in [
        (&["status", "unknown", "--json"][..], "not_found"),
        (&["start", "nowhere", "--json", "--detach"], "not_found"),
        (&["limit", "r", "--json"], "usage"),
        (&["limit", "r", "--budget", "much", "--json"], "usage"),
        (&["tell", "r", "--json", "main_x", "hello"], "not_found"),
        (&["tell", "r", "--json", " "], "usage"),
        (&["answer", "r", "--json", "yes"], "refused"),
        (&["resume", "c", "--json"], "refused"),
        // The half in the background has refused.
        (&["resume", "c", "--json", "--detach"], "refused"),
        (&["start", "flow", "--id", "c", "--json", "--detach"], "refused"),
    ] {
        let failure = failure(&project.raymond(arguments));
        assert_eq!(failure["kind"], kind, "{arguments:?}: {failure}");
        assert!(failure["hints"].is_array(), "{failure}");
    }
    project.write(".raymond/config.toml", "budget = \"much\"\n");
    let settings = failure(&project.raymond(&["start", "flow", "--json"]));
    assert_eq!(settings["kind"], "refused", "{settings}");
    fs::remove_file(project.file(".raymond/config.toml")).unwrap();
    // Elsewhere `--json` is a word like any other, and people read sentences.
    let text = project.raymond(&["start", "--", "--json"]);
    assert!(text.stderr.starts_with("error: "), "{text:?}");
    let people = project.raymond(&["resume", "c", "--detach"]);
    assert!(people.stderr.contains("error: run `c` is cancelled\n\nhint: "), "{people:?}");
}

#[test]
fn change_for_programs_prints_what_the_run_is_then() {
    let (project, mut child) = running();
    let printed = |arguments: &[&str]| -> Value {
        let ran = project.raymond(arguments);
        serde_json::from_str(&ran.stdout).unwrap_or_else(|_| panic!("{ran:?}"))
    };
    let state =
        |status: &str, steps: u64| json!({ "run": "r", "status": status, "running_steps": steps });
    assert_eq!(printed(&["limit", "r", "--budget", "3", "--json"]), state("running", 1));
    assert_eq!(printed(&["tell", "r", "hello", "--json"]), state("running", 1));
    assert_eq!(printed(&["stop", "r", "--now", "--json"]), state("paused", 0));
    let _ = child.wait();
    assert_eq!(printed(&["resume", "r", "--detach", "--json"]), state("running", 1));
    assert_eq!(printed(&["cancel", "r", "--yes", "--json"]), state("cancelled", 0));
    assert_eq!(printed(&["cancel", "r", "--yes", "--json"]), state("cancelled", 0));
}
