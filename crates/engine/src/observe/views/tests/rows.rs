//! A run in a list.

use std::fs;

use raymond_flow::{
    id::{AgentId, StateName},
    machine::{Halt, Limit, Record, Spent, Status, Taken},
    money::Usd,
    policy::{Join, OnFailed, Transition},
};
use serde_json::{Value, json};

use super::{alive, dead, over};
use crate::{
    agent::Activity,
    observe::views::{Group, LiveFacts, group, row},
    testing::{
        Written, asked, ended, failed, followed, fork, goto, id, intended, question, result,
        started,
    },
};

#[track_caller]
fn check(written: &Written, live: &LiveFacts, expected: (&str, Group)) {
    let overview = written.overview();
    assert_eq!(overview.problem, None);
    let row = row(&overview, live);
    assert_eq!((row["status"].as_str().unwrap(), group(&overview, live)), expected);
    assert_eq!(row["group"], expected.1.name());
}

#[test]
fn run_under_way_is_running_and_needs_you_when_its_orchestrator_died() {
    let written = Written::new();
    check(&written, &alive(), ("running", Group::Running));
    check(&written, &dead(), ("died", Group::NeedsYou));
    let row = row(&written.overview(), &dead());
    assert_eq!((&row["why"], &row["waiting_since"]), (&json!("its program died"), &json!(1000)));
}

#[test]
fn ended_run_needs_you_unless_it_is_done_or_was_stopped_on_purpose() {
    let limit = Halt::Limit(Limit::Iterations { max_iterations: 3 });
    let cases = [
        (Halt::Interrupted, Status::Paused, "paused", Group::Waiting),
        (Halt::Asks, Status::Paused, "paused", Group::NeedsYou),
        (Halt::DiskLow { free_bytes: 5 }, Status::Paused, "paused", Group::NeedsYou),
        (limit, Status::Stopped, "stopped", Group::NeedsYou),
        (Halt::Cancelled, Status::Cancelled, "cancelled", Group::Ended),
    ];
    for (why, status, word, group) in cases {
        let mut written = Written::new();
        written.add(5000, over(why, status));
        // The orchestrator leaves a moment after its last record.
        check(&written, &alive(), (word, group));
        check(&written, &dead(), (word, group));
        let since = &row(&written.overview(), &dead())["waiting_since"];
        let expected = if group == Group::Ended { Value::Null } else { json!(5000) };
        assert_eq!(*since, expected, "{word}");
    }
    let mut written = Written::new();
    written.add(5000, [followed("main", result("done"), &[])]);
    written.add(5000, [Record::Finished { status: Status::Completed }]);
    check(&written, &dead(), ("completed", Group::Ended));
    assert_eq!(row(&written.overview(), &dead())["result"], "done");
}

#[test]
fn groups_are_in_the_order_in_which_people_look() {
    let order = [Group::NeedsYou, Group::Running, Group::Waiting, Group::Ended];
    assert!(order.is_sorted());
}

#[test]
fn run_that_cannot_be_read_needs_you_and_says_why() {
    let written = Written::new();
    fs::write(written.files().journal, "").unwrap();
    let empty = row(&written.overview(), &dead());
    assert_eq!((&empty["status"], &empty["group"]), (&json!("unreadable"), &json!("needs_you")));
    assert_eq!((&empty["run"], &empty["error"]), (&json!(id()), &json!("its journal is empty")));
    fs::remove_file(written.files().journal).unwrap();
    let missing = row(&written.overview(), &dead());
    assert!(missing["why"].as_str().unwrap().contains("r.journal"), "{missing}");
}

#[test]
fn row_has_the_name_of_the_workflow_and_the_limits() {
    let mut started = started("/home/me/plan");
    started.limits.budget_usd = Usd::from_dollars(2.5);
    started.limits.max_iterations = Some(9);
    let mut written = Written::of(started);
    written.add(2000, [intended("main", 1, "START.sh")]);
    written.add(3000, [ended("main", 1, 0.5), followed("main", goto("NEXT.sh"), &[])]);
    let row = row(&written.overview(), &alive());
    let expected = json!({
        "workflow": "/home/me/plan", "name": "plan", "started_at": 1, "last_at": 3000,
        "agents": 1, "steps": 1, "states_entered": 2, "max_iterations": 9, "total_cost_usd": 0.5,
        "budget_usd": 2.5, "why": null, "halted": null, "halt": null, "usage_limit": null,
        "denied": 0, "asks": [], "result": null, "error": null, "waiting_since": null,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(row[name], *value, "{name}");
    }
}

#[test]
fn failed_run_names_the_agent_the_state_and_the_error() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    written.add(3000, [ended("main", 1, 0.0), failed("main", "exit code 1\nmore")]);
    // While other agents go on, the run still runs.
    let row = |written: &Written, live: LiveFacts| row(&written.overview(), &live);
    let why = json!("main failed in START.sh: exit code 1 more");
    assert_eq!(row(&written, alive())["why"], why);
    written.add(4000, [Record::Finished { status: Status::Failed }]);
    check(&written, &dead(), ("failed", Group::NeedsYou));
    assert_eq!(row(&written, dead())["why"], why);
}

#[test]
fn failure_that_a_join_handed_over_is_not_blamed() {
    let (target, failed_workers) = (StateName::new("ALL.sh"), OnFailed::Pass);
    let join = Join { target, count: None, failed: failed_workers, input: None };
    let mut written = Written::new();
    written.add(2000, [followed("main", fork(&["a"]), &["main_work1"])]);
    written.add(3000, [failed("main_work1", "not found")]);
    written.add(4000, [followed("main", Transition::Join(join), &[])]);
    let taken = Taken { agent: AgentId::new("main_work1"), born: 1 };
    written.add(5000, [Record::Joined { agent: AgentId::main(), workers: vec![taken] }]);
    assert_eq!(row(&written.overview(), &alive())["why"], Value::Null);
    written.add(6000, [failed("main", "exit code 1")]);
    written.add(6000, [Record::Finished { status: Status::Failed }]);
    let why = &row(&written.overview(), &dead())["why"];
    assert_eq!(*why, "main failed in ALL.sh: exit code 1");
}

#[test]
fn usage_limit_is_waited_for_and_the_row_says_until_when() {
    let mut written = Written::new();
    written.add(4000, [Record::UsageLimited { resets_at: None }]);
    check(&written, &alive(), ("running", Group::Waiting));
    let row = row(&written.overview(), &alive());
    assert_eq!(row["usage_limit"], json!({ "resets_at": null }));
    assert_eq!(row["why"], "usage limit: all agents wait some minutes, then try again");
    assert_eq!(row["waiting_since"], 4000);
    written.add(5000, [Record::UsageLimitLifted]);
    check(&written, &alive(), ("running", Group::Running));
}

#[test]
fn denied_tools_need_you_while_the_run_runs() {
    for (count, why) in [(1, "a tool was not allowed"), (2, "2 uses of tools were not allowed")] {
        let spent = Spent { denied: vec!["Bash".to_owned(); count], ..Spent::default() };
        let mut written = Written::new();
        written.add(2000, [intended("main", 1, "START.sh")]);
        let end = Record::Ended { agent: AgentId::main(), number: 1, spent };
        written.add(3000, [end, followed("main", goto("NEXT.sh"), &[])]);
        check(&written, &alive(), ("running", Group::NeedsYou));
        let row = row(&written.overview(), &alive());
        assert_eq!((&row["denied"], &row["why"]), (&json!(count), &json!(why)));
    }
}

#[test]
fn open_questions_are_listed_the_oldest_first_and_short() {
    let mut written = Written::new();
    written.add(2000, [followed("main", fork(&["a"]), &["main_work1"])]);
    let mut first = question(&format!("Which one?{}", "x".repeat(1000)));
    first.default = Some("no".to_owned());
    first.deadline_ms = Some(99);
    written.add(3000, [asked("main_work1", first)]);
    written.add(4000, [asked("main", question("Go on?"))]);
    check(&written, &alive(), ("running", Group::NeedsYou));
    let row = row(&written.overview(), &alive());
    assert_eq!(row["why"], "waits for an answer");
    let asks = row["asks"].as_array().unwrap();
    let names: Vec<_> = asks.iter().map(|ask| ask["ask"].as_str().unwrap()).collect();
    assert_eq!(names, ["main_work1.1", "main.1"]);
    let first = &asks[0];
    assert!(first["question"].as_str().unwrap().chars().count() < 400);
    assert_eq!((&first["asked_at"], &first["deadline"]), (&json!(3000), &json!(99)));
    assert_eq!((&first["state"], &first["default"]), (&json!("WORK.sh"), &json!("no")));
    assert_eq!(first["choices"][1], json!({ "label": "no", "to": "STOP.sh" }));
}

#[test]
fn question_of_a_run_that_was_stopped_needs_you_because_an_answer_resumes_it() {
    let mut written = Written::new();
    written.add(2000, [asked("main", question("Go on?"))]);
    written.add(3000, over(Halt::Interrupted, Status::Paused));
    for live in [alive(), dead()] {
        check(&written, &live, ("paused", Group::NeedsYou));
    }
    assert_eq!(row(&written.overview(), &dead())["asks"][0]["ask"], "main.1");
}

#[test]
fn row_shows_the_agent_of_which_something_was_heard_last() {
    let mut written = Written::new();
    let workers = ["main_work1", "main_work2"];
    written.add(2000, [followed("main", fork(&["a", "b"]), &workers)]);
    let now = |written: &Written, live: &LiveFacts| row(&written.overview(), live)["now"].clone();
    assert_eq!(now(&written, &dead()), Value::Null, "nothing goes on");
    written.add(3000, [intended("main_work1", 1, "WORK.sh")]);
    written.add(3500, [Record::Queued { agent: AgentId::main() }]);
    let shown = now(&written, &alive());
    assert_eq!((&shown["agent"], &shown["phase"]), (&json!("main_work1"), &json!("running")));
    written.add(4000, [intended("main_work2", 1, "WORK.sh")]);
    assert_eq!(now(&written, &alive())["agent"], "main_work2", "it began later");
    let mut live = alive();
    let doing = Activity::Uses { tool: "Bash".to_owned(), what: "make".to_owned() };
    live.activities.insert(AgentId::new("main_work1"), doing);
    let shown = now(&written, &live);
    assert_eq!((&shown["agent"], &shown["since"]), (&json!("main_work1"), &json!(3000)));
    assert_eq!(shown["activity"], "Bash: make");
    written.add(5000, [ended("main_work1", 1, 0.0), failed("main_work1", "no")]);
    assert_eq!(now(&written, &live)["agent"], "main_work2", "a failed agent does nothing");
}
