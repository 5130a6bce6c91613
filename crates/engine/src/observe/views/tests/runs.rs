//! A whole run, its agents and its cost.

use std::collections::BTreeMap;

use raymond_flow::{
    id::{AgentId, SessionId, StateName},
    machine::{Halt, Record, Spent, Status, Tokens, Via},
    money::Usd,
    policy::{Forked, Join, OnFailed, Transition},
};
use serde_json::{Value, json};

use super::{alive, dead, over};
use crate::{
    agent::Activity,
    observe::views::{agent, agents, cost, run, status},
    testing::{
        Written, asked, ended, failed, followed, fork, goto, intended, question, result, retried,
        started,
    },
};

fn main() -> AgentId {
    AgentId::main()
}

#[test]
fn run_can_be_changed_as_its_status_allows() {
    let resumable = json!(["resume", "cancel", "limits", "tell"]);
    let written = Written::new();
    let running = json!(["stop", "cancel", "limits", "tell"]);
    assert_eq!(run(&written.overview(), &alive())["can"], running);
    assert_eq!(run(&written.overview(), &dead())["can"], resumable, "its orchestrator died");
    for (status, can) in [
        (Status::Failed, &resumable),
        (Status::Stopped, &resumable),
        (Status::Paused, &resumable),
        (Status::Cancelled, &json!([])),
        (Status::Completed, &json!([])),
    ] {
        let mut written = Written::new();
        written.add(2000, over(Halt::Interrupted, status));
        let view = run(&written.overview(), &dead());
        assert_eq!((&view["can"], &view["ended_at"]), (can, &json!(2000)), "{status}");
    }
}

#[test]
fn run_is_shown_with_what_it_was_started_with_and_its_orchestrator() {
    let mut start = started("/home/me/plan");
    start.input = Some("a search box".to_owned());
    start.metadata.insert("branch".to_owned(), "main".to_owned());
    start.settings.model = Some("opus".to_owned());
    start.limits.max_parallel = 3;
    let written = Written::of(start);
    let view = run(&written.overview(), &alive());
    let expected = json!({
        "offset": written.offset(), "identity": "5f", "cwd": "/", "entry": "START.sh",
        "input": "a search box", "metadata": { "branch": "main" }, "agents_born": 1,
        "orchestrator": { "pid": 7, "since": 900 }, "ended_at": null, "problem": null,
        "status": "running", "name": "plan",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(view[name], *value, "{name}");
    }
    assert_eq!(view["settings"]["model"], "opus");
    assert_eq!(view["limits"]["max_parallel"], 3);
    assert_eq!(run(&written.overview(), &dead())["orchestrator"], Value::Null);
}

#[test]
fn halted_run_says_why_in_words_and_for_programs() {
    let mut written = Written::new();
    written.add(2000, over(Halt::DiskLow { free_bytes: 512 }, Status::Paused));
    let overview = written.overview();
    let view = run(&overview, &dead());
    assert_eq!(view["halt"], json!({ "why": "disk_low", "free_bytes": 512 }));
    assert_eq!(view["halted"], "the disk is nearly full: 512 bytes are free; make room on it");
    let status = status(&overview, overview.run().unwrap(), &dead());
    assert_eq!(status["halted"], view["halted"]);
}

#[test]
fn coding_agents_that_others_stand_in_for_are_listed() {
    let mut written = Written::new();
    let (coding_agent, why) = ("claude".to_owned(), "no more".to_owned());
    written.add(2000, [Record::AgentStopped { coding_agent, why, resets_at: Some(9) }]);
    let overview = written.overview();
    let expected = json!([{ "coding_agent": "claude", "resets_at": 9 }]);
    assert_eq!(run(&overview, &dead())["stopped_agents"], expected);
    assert_eq!(status(&overview, overview.run().unwrap(), &dead())["stopped_agents"], expected);
}

#[test]
fn run_that_cannot_be_read_still_has_a_view() {
    let written = Written::new();
    std::fs::remove_file(written.files().journal).unwrap();
    let view = run(&written.overview(), &dead());
    assert_eq!((&view["status"], &view["can"]), (&json!("unreadable"), &Value::Null));
    assert!(agents(&written.overview()).is_empty());
}

#[test]
fn living_agents_come_first_by_birth_and_then_those_that_ended_the_latest_first() {
    let mut written = Written::new();
    // Their names sort in another order than their births.
    let workers = ["main_work8", "main_work9", "main_work10", "main_work11"];
    written.add(2000, [followed("main", fork(&["d", "c", "b", "a"]), &workers)]);
    written.add(3000, [followed("main_work10", result("ok"), &[])]);
    written.add(4000, [followed("main_work8", result("ok"), &[])]);
    let overview = written.overview();
    let names: Vec<_> = agents(&overview).into_iter().map(|id| id.to_string()).collect();
    assert_eq!(names, ["main", "main_work9", "main_work11", "main_work8", "main_work10"]);
    let status = status(&overview, overview.run().unwrap(), &alive());
    let living: Vec<_> =
        status["agents"].as_array().unwrap().iter().map(|agent| &agent["agent"]).collect();
    assert_eq!(living, ["main", "main_work9", "main_work11"]);
}

#[test]
fn agent_that_ended_keeps_its_last_state_its_result_and_its_cost() {
    let mut written = Written::new();
    written.add(2000, [followed("main", fork(&["a"]), &["main_work1"])]);
    written.add(3000, [intended("main_work1", 1, "WORK.sh")]);
    written
        .add(4000, [ended("main_work1", 1, 0.5), followed("main_work1", result("found it"), &[])]);
    let view = agent(&written.overview(), &AgentId::new("main_work1"), &alive());
    let expected = json!({
        "agent": "main_work1", "parent": "main", "born": 1, "state": "WORK.sh", "phase": "ended",
        "result": "found it", "cost_usd": 0.5, "steps": 1, "is_ended": true, "ended_at": 4000,
        "attributes": { "name": "a" }, "step": null,
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(view[name], *value, "{name}");
    }
}

#[test]
fn running_agent_shows_its_step_its_tool_and_the_way_that_it_came() {
    let mut written = Written::new();
    written.step(("main", 1), "START.sh", (2000, 3000), goto("NEXT.md"));
    written.add(4000, [intended("main", 2, "NEXT.md")]);
    let mut live = alive();
    let doing = Activity::Uses { tool: "Bash".to_owned(), what: "make".to_owned() };
    live.activities.insert(main(), doing);
    let view = agent(&written.overview(), &main(), &live);
    let expected = json!({
        "state": "NEXT.md", "phase": "running", "step": 2, "tool": "Bash",
        "activity": "Bash: make", "since": 4000, "is_ended": false, "result": null,
        "came": { "from": "START.sh", "to": "NEXT.md", "kind": "goto" }, "steps": 2, "cwd": "/",
        "offset": written.offset(),
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(view[name], *value, "{name}");
    }
    live.activities.insert(main(), Activity::Says("Hello".to_owned()));
    let view = agent(&written.overview(), &main(), &live);
    assert_eq!((&view["tool"], &view["activity"]), (&Value::Null, &json!("“Hello”")));
}

#[test]
fn pending_returns_are_listed_the_next_one_first() {
    let call = |target: &str, return_to: &str| Transition::Call {
        target: StateName::new(target),
        cd: None,
        return_to: StateName::new(return_to),
        input: None,
        arguments: BTreeMap::new(),
    };
    let follow = |transition, session: Option<&str>| Record::Followed {
        agent: main(),
        transition,
        via: Via::Tag,
        session: session.map(SessionId::new),
        workers: Vec::new(),
        discarded_returns: 0,
    };
    let mut written = Written::new();
    written.add(2000, [follow(goto("A.sh"), Some("s9"))]);
    assert_eq!(agent(&written.overview(), &main(), &alive())["session"], "s9");
    written.add(3000, [follow(call("B.sh", "OUTER.sh"), None)]);
    written.add(4000, [follow(call("C.sh", "INNER.sh"), None)]);
    let view = agent(&written.overview(), &main(), &alive());
    assert_eq!(view["returns_to"], json!(["INNER.sh", "OUTER.sh"]));
    assert_eq!(view["came"]["kind"], "call");
}

#[test]
fn phase_of_an_agent_is_a_word_and_a_failure_has_its_error() {
    let phase = |records: Vec<Record>| {
        let mut written = Written::new();
        written.add(2000, records);
        let overview = written.overview();
        assert_eq!(overview.problem, None);
        let view = agent(&overview, &main(), &alive());
        (view["phase"].as_str().unwrap().to_owned(), view["error"].clone())
    };
    let begun = || vec![intended("main", 1, "START.sh"), ended("main", 1, 0.0)];
    let with = |record: Record| {
        let mut records = begun();
        records.push(record);
        records
    };
    let cases = [
        (vec![], "starting"),
        (vec![intended("main", 1, "START.sh")], "running"),
        (vec![Record::Queued { agent: main() }], "queued"),
        (with(retried("main", "overloaded", 100)), "waiting"),
        (with(retried("main", "overloaded", 0)), "starting"),
        (with(asked("main", question("Go on?"))), "asking"),
    ];
    for (records, word) in cases {
        assert_eq!(phase(records), (word.to_owned(), Value::Null));
    }
    assert_eq!(phase(with(failed("main", "no"))), ("failed".to_owned(), json!("no")));
}

#[test]
fn waiting_agent_says_until_when_and_why() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    written.add(3000, [ended("main", 1, 0.0), retried("main", "overloaded", 500)]);
    let view = agent(&written.overview(), &main(), &alive());
    assert_eq!((&view["waits_until"], &view["waits_why"]), (&json!(3500), &json!("overloaded")));
}

#[test]
fn joining_agent_counts_its_workers_and_a_worker_without_a_place_is_parked() {
    let worker = |limit| Forked {
        target: StateName::new("WORK.sh"),
        cd: None,
        attributes: BTreeMap::new(),
        limit: Some(limit),
        worktree: None,
        input: None,
    };
    let workers = vec![worker(1), worker(1)];
    let forked = Transition::Fork { next: StateName::new("NEXT.sh"), workers };
    let (target, failed_workers) = (StateName::new("ALL.sh"), OnFailed::Pass);
    let join = Join { target, count: None, failed: failed_workers, input: None };
    let mut written = Written::new();
    written.add(2000, [followed("main", forked, &["main_work1", "main_work2"])]);
    written.add(2000, [Record::Placed { agent: AgentId::new("main_work1") }]);
    written.add(3000, [followed("main", Transition::Join(join), &[])]);
    let of =
        |written: &Written, name: &str| agent(&written.overview(), &AgentId::new(name), &alive());
    assert_eq!(of(&written, "main_work2")["phase"], "parked");
    assert_eq!(of(&written, "main")["phase"], "joining");
    assert_eq!(of(&written, "main")["workers"], json!({ "ended": 0, "all": 2 }));
    written.add(4000, [followed("main_work1", result("ok"), &[])]);
    assert_eq!(of(&written, "main")["workers"], json!({ "ended": 1, "all": 2 }));
    assert_eq!(of(&written, "main_work2")["workers"], Value::Null);
    // The failure of the second one is handed over, and the worker stays as it is.
    written.add(5000, [Record::Placed { agent: AgentId::new("main_work2") }]);
    written.add(6000, [failed("main_work2", "no")]);
    let taken =
        |agent: &str, born| raymond_flow::machine::Taken { agent: AgentId::new(agent), born };
    let workers = vec![taken("main_work1", 1), taken("main_work2", 2)];
    written.add(7000, [Record::Joined { agent: main(), workers }]);
    let passed = of(&written, "main_work2");
    assert_eq!((&passed["phase"], &passed["error"]), (&json!("passed"), &json!("no")));
    assert_eq!(of(&written, "main")["state"], "ALL.sh");
}

#[test]
fn cost_is_told_in_all_and_by_state_model_version_and_agent() {
    let spent = |dollars, model: &str| Spent {
        cost_usd: Usd::from_dollars(dollars).unwrap(),
        model: Some(model.to_owned()),
        version: Some(if dollars < 1.0 { "claude 1.0.0" } else { "claude 1.0.1" }.to_owned()),
        tokens: Tokens { input: 10, ..Tokens::default() },
        duration_ms: 5,
        ..Spent::default()
    };
    let mut written = Written::new();
    written.add(2000, [followed("main", fork(&["a"]), &["main_work1"])]);
    for (name, number, state, spent) in [
        ("main", 1, "NEXT.sh", spent(0.5, "opus")),
        ("main_work1", 1, "WORK.sh", spent(0.25, "haiku")),
        ("main", 2, "NEXT.sh", spent(1.0, "opus")),
    ] {
        written.add(3000, [intended(name, number, state)]);
        let end = Record::Ended { agent: AgentId::new(name), number, spent };
        written.add(4000, [end, followed(name, goto(state), &[])]);
    }
    let cost = cost(&written.overview());
    assert_eq!(cost["total"]["cost_usd"], 1.75);
    assert_eq!((&cost["total"]["steps"], &cost["total"]["duration_ms"]), (&json!(3), &json!(15)));
    assert_eq!(cost["total"]["tokens"]["input"], 30);
    let by = |name: &str| -> Vec<(String, f64, u64)> {
        let row = |row: &Value| {
            let name = row["name"].as_str().unwrap().to_owned();
            (name, row["cost_usd"].as_f64().unwrap(), row["steps"].as_u64().unwrap())
        };
        cost[name].as_array().unwrap().iter().map(row).collect()
    };
    let rows = |rows: [(&str, f64, u64); 2]| {
        rows.map(|(name, cost, steps)| (name.to_owned(), cost, steps))
    };
    assert_eq!(by("by_state"), rows([("NEXT.sh", 1.5, 2), ("WORK.sh", 0.25, 1)]));
    assert_eq!(by("by_model"), rows([("haiku", 0.25, 1), ("opus", 1.5, 2)]));
    assert_eq!(by("by_version"), rows([("claude 1.0.0", 0.75, 2), ("claude 1.0.1", 1.0, 1)]));
    assert_eq!(by("by_agent"), rows([("main", 1.5, 2), ("main_work1", 0.25, 1)]));
}
