//! Events as JSON, field by field as `docs/events.md` describes them: programs depend on every name here.

use std::{collections::BTreeMap, path::PathBuf};

use raymond_flow::{
    id::{AgentId, SessionId, StateName, StepId},
    machine::{
        Attachment, CountsAs, Halt, Instead, Limit, Limits, Overrider, Record, Response, Run,
        SavedWork, Settings, Spent, Status, Taken, Tokens, Via, Work, Worktree,
    },
    money::Usd,
    policy::{Forked, Join, OnFailed, Source, Transition},
};
use serde_json::{Value, json};

use crate::{
    agent::Activity,
    observe::views::{closed, of_seen},
    run::events::{Event, Seen, StepEnd},
    store::journal::Trimmed,
    testing::{
        asked, failed, fork, goto, intended, question, result, retried_with, script_step, started,
        step_id,
    },
};

fn main() -> AgentId {
    AgentId::main()
}

fn usd(dollars: f64) -> Usd {
    Usd::from_dollars(dollars).unwrap()
}

/// The JSON of an event that happened at 5.
#[track_caller]
fn check(event: Event, mut expected: Value) {
    expected["at"] = json!(5);
    assert_eq!(of_seen(&Seen { at_ms: 5, event }), expected);
}

/// The JSON of a record about a run that has just begun, in which `main` is in `START.sh`.
#[track_caller]
fn check_record(record: Record, expected: Value) {
    let run = Run::new(&started("/flow"));
    check(Event::recorded(record, &run), expected);
}

#[test]
fn step_is_started_acts_and_ends() {
    let (step, folder) = (Box::new(script_step()), PathBuf::from("/steps/main.1"));
    let environment = vec![("SECRET".to_owned(), "x".to_owned())];
    let event = Event::StepStarted {
        id: step_id(1),
        step: step.clone(),
        folder: folder.clone(),
        is_found: true,
        environment,
    };
    // The environment is not told.
    let expected = json!({
        "event": "step_started", "agent": "main", "number": 1, "state": "START.sh",
        "folder": "/steps/main.1", "is_found": true,
    });
    check(event, expected);
    let does = |activity| Event::Activity { id: step_id(1), activity };
    let base = json!({ "event": "activity", "agent": "main", "number": 1 });
    let with = |fields: &[(&str, &str)]| {
        let mut value = base.clone();
        for (name, text) in fields {
            value[*name] = json!(text);
        }
        value
    };
    check(does(Activity::Says("Hi".to_owned())), with(&[("says", "Hi")]));
    let uses = Activity::Uses { tool: "Bash".to_owned(), what: "make".to_owned() };
    check(does(uses), with(&[("tool", "Bash"), ("on", "make")]));
    check(does(Activity::Waits("limit".to_owned())), with(&[("waits", "limit")]));
    for (end, word, code) in [
        (StepEnd::Code(3), "exited", json!(3)),
        (StepEnd::NoCode, "ended", Value::Null),
        (StepEnd::Answered, "answered", Value::Null),
        (StepEnd::NotStarted, "not_started", Value::Null),
        (StepEnd::Lost, "lost", Value::Null),
    ] {
        let event = Event::StepEnded {
            id: step_id(1),
            step: step.clone(),
            folder: folder.clone(),
            end,
            duration_ms: 9,
        };
        let expected = json!({
            "event": "step_ended", "agent": "main", "number": 1, "state": "START.sh", "end": word,
            "exit_code": code, "duration_ms": 9,
        });
        check(event, expected);
    }
}

#[test]
fn run_is_opened_warned_about_and_closed() {
    let run = Run::new(&started("/flow"));
    let opened = Event::Opened { id: run.id.clone(), run: Box::new(run.clone()), is_new: true };
    check(opened, json!({ "event": "opened", "run": "r", "is_new": true }));
    check(Event::WaitsForPeople, json!({ "event": "waits_for_people" }));
    check(Event::Trouble("hm".to_owned()), json!({ "event": "warning", "text": "hm" }));
    let trimmed = Trimmed { offset: 7, bytes: 2, kept: PathBuf::from("/r.trimmed") };
    let expected =
        json!({ "event": "journal_trimmed", "offset": 7, "bytes": 2, "kept": "/r.trimmed" });
    check(Event::JournalTrimmed(trimmed), expected);
    let state = StateName::new("START.md");
    let unknown = Event::UnknownVariables { agent: main(), state, names: vec!["x".to_owned()] };
    let expected = json!({
        "event": "unknown_variables", "agent": "main", "state": "START.md", "names": ["x"],
    });
    check(unknown, expected);
    let end = closed(&run);
    assert!(end["at"].is_u64());
    for (name, value) in [
        ("event", json!("closed")),
        ("run", json!("r")),
        ("status", json!("running")),
        ("result", Value::Null),
        ("total_cost_usd", json!(0.0)),
    ] {
        assert_eq!(end[name], value, "{name}");
    }
}

#[test]
fn start_resume_and_new_limits_tell_settings_and_limits() {
    let mut start = started("/flow");
    start.input = Some("in".to_owned());
    start.settings.model = Some("opus".to_owned());
    start.settings.skip_permissions = true;
    start.limits = Limits { budget_usd: Some(usd(2.0)), max_parallel: 4, ..Limits::default() };
    let settings = json!({
        "model": "opus", "effort": null, "timeout_seconds": null, "agent": null,
        "skip_permissions": true, "failover": { "order": [], "handoff": false },
    });
    let limits = json!({ "budget_usd": 2.0, "max_iterations": null, "max_parallel": 4 });
    let resumed =
        Record::Resumed { settings: start.settings.clone(), limits: start.limits.clone() };
    check_record(resumed, json!({ "event": "resumed", "settings": settings, "limits": limits }));
    let changed = Record::LimitsChanged { limits: start.limits.clone() };
    check_record(changed, json!({ "event": "limits_changed", "limits": limits }));
    let expected = json!({
        "event": "started", "run": "r", "workflow": "/flow", "entry": "START.sh", "cwd": "/",
        "input": "in", "metadata": {}, "settings": settings, "limits": limits,
    });
    check_record(Record::Started(Box::new(start)), expected);
    assert_eq!(Settings::default().model, None);
}

#[test]
fn step_is_intended_and_paid() {
    let expected = json!({
        "event": "step_intended", "agent": "main", "number": 2, "state": "A.sh", "attempt": 1,
    });
    check_record(intended("main", 2, "A.sh"), expected);
    let spent = Spent {
        cost_usd: usd(0.5),
        is_estimate: false,
        tokens: Tokens { input: 1, output: 2, cache_read: 3, cache_write: 4 },
        model: Some("opus".to_owned()),
        version: Some("claude 2.1.326".to_owned()),
        duration_ms: 6,
        denied: vec!["Bash".to_owned()],
        session: Some(SessionId::new("s")),
        output: None,
        heard: Vec::new(),
        windows: Vec::new(),
        doubt: None,
    };
    let expected = json!({
        "event": "step_paid", "agent": "main", "number": 2, "cost_usd": 0.5,
        "estimated": false,
        "tokens": { "input": 1, "output": 2, "cache_read": 3, "cache_write": 4 },
        "model": "opus", "version": "claude 2.1.326", "duration_ms": 6, "denied": ["Bash"],
    });
    check_record(Record::Ended { agent: main(), number: 2, spent }, expected);
}

#[test]
fn records_about_an_agent_name_it() {
    for (record, name) in [
        (Record::Queued { agent: main() }, "queued"),
        (Record::Called { agent: main() }, "dequeued"),
        (Record::Placed { agent: main() }, "placed"),
        (Record::Woke { agent: main() }, "woke"),
    ] {
        check_record(record, json!({ "event": name, "agent": "main" }));
    }
    let expected = json!({ "event": "failed", "agent": "main", "error": "no" });
    check_record(failed("main", "no"), expected);
    let reminded =
        Record::Reminded { agent: main(), problem: "no tag".to_owned(), work: Work::Enter };
    let expected = json!({ "event": "reminded", "agent": "main", "problem": "no tag" });
    check_record(reminded, expected);
    let worktree = Worktree {
        path: "/w".to_owned(),
        branch: "b".to_owned(),
        repository: "/r".to_owned(),
        base: "c1".to_owned(),
        head: None,
        problem: None,
    };
    let (worktree, cwd) = (Box::new(worktree), "/w/sub".to_owned());
    let expected = json!({
        "event": "worktree_made", "agent": "main", "path": "/w", "branch": "b", "base": "c1",
        "cwd": "/w/sub",
    });
    check_record(Record::WorktreeMade { agent: main(), worktree, cwd }, expected);
    let saved = SavedWork { head: Some("c2".to_owned()), problem: None };
    let expected =
        json!({ "event": "worktree_saved", "agent": "main", "head": "c2", "problem": null });
    check_record(Record::WorktreeSaved { agent: main(), saved }, expected);
    let workers = vec![Taken { agent: AgentId::new("main_work1"), born: 1 }];
    let expected = json!({ "event": "joined", "agent": "main", "workers": ["main_work1"] });
    check_record(Record::Joined { agent: main(), workers }, expected);
    for (counts_as, word) in
        [(CountsAs::Retry, "retry"), (CountsAs::Loss, "loss"), (CountsAs::Nothing, "nothing")]
    {
        let expected = json!({
            "event": "retried", "agent": "main", "why": "busy", "delay_ms": 8, "counts_as": word,
        });
        check_record(retried_with("main", "busy", 8, counts_as), expected);
    }
}

fn follow(transition: Transition, via: Via, workers: &[&str]) -> Record {
    Record::Followed {
        agent: main(),
        transition,
        via,
        session: None,
        workers: workers.iter().map(|worker| AgentId::new(*worker)).collect(),
        discarded_returns: 2,
    }
}

#[test]
fn transition_tells_where_from_where_to_and_what_chose_it() {
    for (via, word) in [
        (Via::Tag, "tag"),
        (Via::Implicit, "implicit"),
        (Via::Evaluator, "evaluator"),
        (Via::Visits, "max_visits"),
        (Via::Answer, "answer"),
    ] {
        let expected = json!({
            "event": "transition", "agent": "main", "from": "START.sh", "via": word,
            "worker": null, "discarded_returns": 2, "tag": "goto", "to": "NEXT.sh",
        });
        check_record(follow(goto("NEXT.sh"), via, &[]), expected);
    }
}

/// The fields of a transition alone.
fn told(transition: Transition, workers: &[&str]) -> Value {
    let run = Run::new(&started("/flow"));
    let event = Event::recorded(follow(transition, Via::Tag, workers), &run);
    let mut value = of_seen(&Seen { at_ms: 5, event });
    for name in ["event", "agent", "from", "via", "discarded_returns", "at"] {
        value.as_object_mut().unwrap().remove(name).unwrap();
    }
    value
}

#[test]
fn each_tag_has_its_fields_and_what_was_not_given_is_left_out() {
    let state = StateName::new;
    let arguments = BTreeMap::from([("n".to_owned(), "1".to_owned())]);
    let input = || Some("in".to_owned());
    let reset = Transition::Reset { target: state("A"), cd: Some("/d".to_owned()), input: input() };
    let expected = json!({ "tag": "reset", "to": "A", "cd": "/d", "input": "in", "worker": null });
    assert_eq!(told(reset, &[]), expected);
    let call = Transition::Call {
        target: state("A"),
        cd: None,
        return_to: state("B"),
        input: None,
        arguments: arguments.clone(),
    };
    let expected = json!({
        "tag": "call", "to": "A", "return": "B", "cd": null, "arguments": { "n": "1" },
        "worker": null,
    });
    assert_eq!(told(call, &[]), expected);
    let function = Transition::Function {
        target: state("A"),
        cd: Some("/d".to_owned()),
        return_to: state("B"),
        model: Some("opus".to_owned()),
        input: input(),
        arguments: BTreeMap::new(),
    };
    let expected = json!({
        "tag": "function", "to": "A", "return": "B", "cd": "/d", "model": "opus", "input": "in",
        "worker": null,
    });
    assert_eq!(told(function, &[]), expected);
    let join = Join { target: state("A"), count: Some(2), failed: OnFailed::Pass, input: None };
    let expected = json!({
        "tag": "join", "to": "A", "count": 2, "failed": "pass", "worker": null,
    });
    assert_eq!(told(Transition::Join(join), &[]), expected);
    let expected = json!({ "tag": "result", "result": "done", "worker": null });
    assert_eq!(told(result("done"), &[]), expected);
}

#[test]
fn fork_of_several_workers_tells_each_of_them() {
    let one = told(fork(&["a"]), &["main_work1"]);
    let expected = json!({
        "tag": "fork", "to": "WORK.sh", "next": "NEXT.sh", "cd": null,
        "attributes": { "name": "a" }, "worker": "main_work1",
    });
    assert_eq!(one, expected);
    let Transition::Fork { next, mut workers } = fork(&["a"]) else { panic!() };
    workers[0].limit = Some(2);
    workers.push(Forked {
        target: workers[0].target.clone(),
        cd: Some("/d".to_owned()),
        attributes: BTreeMap::new(),
        limit: Some(2),
        worktree: None,
        input: Some("in".to_owned()),
    });
    let fork = Transition::Fork { next, workers };
    let both = told(fork, &["main_work1", "main_work2"]);
    assert_eq!((&both["limit"], &both["more_workers"]), (&json!(2), &json!(["main_work2"])));
    let second = json!({
        "to": "WORK.sh", "cd": "/d", "attributes": {}, "limit": 2, "worktree": null, "input": "in",
    });
    assert_eq!(both["more"], json!([second]));
}

#[test]
fn question_and_its_answer_are_told() {
    let mut asks = question("Which?");
    asks.attach = vec!["plan.md".to_owned()];
    asks.default = Some("no".to_owned());
    asks.deadline_ms = Some(99);
    let expected = json!({
        "event": "asked", "agent": "main", "number": 1, "ask": "main.1", "state": "START.sh",
        "question": "Which?", "to": null, "attach": ["plan.md"], "default": "no", "deadline": 99,
        "choices": [{ "label": "yes", "to": "NEXT.sh" }, { "label": "no", "to": "STOP.sh" }],
    });
    check_record(asked("main", asks), expected);
    let attachment = Attachment { path: "plan.md".to_owned(), bytes: 3, sha256: "ab".to_owned() };
    let response = Response {
        result: "yes".to_owned(),
        comment: "but soon".to_owned(),
        files: Some("/files".to_owned()),
        by: "ann".to_owned(),
        how: "page".to_owned(),
        at_ms: 4,
        attachments: vec![attachment],
    };
    let expected = json!({
        "event": "answered", "agent": "main", "number": 1, "ask": "main.1", "result": "yes",
        "comment": "but soon", "files": "/files", "by": "ann", "how": "page", "answered_at": 4,
        "attachments": [{ "path": "plan.md", "bytes": 3, "sha256": "ab" }],
    });
    let record = Record::Answered { agent: main(), number: 1, response: Box::new(response) };
    check_record(record, expected);
}

#[test]
fn halt_has_its_reason_and_the_figures() {
    let spent = Limit::Budget { spent_usd: usd(3.0), budget_usd: usd(2.0) };
    for (why, mut expected) in [
        (Halt::ScriptFailed { agent: main() }, json!({ "why": "script_failed", "agent": "main" })),
        (Halt::Limit(spent), json!({ "why": "budget", "spent_usd": 3.0, "budget_usd": 2.0 })),
        (
            Halt::Limit(Limit::Iterations { max_iterations: 9 }),
            json!({ "why": "iterations", "max_iterations": 9 }),
        ),
        (Halt::Interrupted, json!({ "why": "interrupted" })),
        (Halt::UsageLimit { resets_at: Some(8) }, json!({ "why": "usage_limit", "resets_at": 8 })),
        (Halt::DiskLow { free_bytes: 7 }, json!({ "why": "disk_low", "free_bytes": 7 })),
        (Halt::Asks, json!({ "why": "asks" })),
        (Halt::Cancelled, json!({ "why": "cancelled" })),
    ] {
        expected["event"] = json!("halted");
        check_record(Record::Halted { why }, expected);
    }
    let limited = json!({ "event": "usage_limited", "resets_at": null });
    check_record(Record::UsageLimited { resets_at: None }, limited);
    let stopped = json!({
        "event": "agent_stopped", "coding_agent": "claude", "why": "no more", "resets_at": 9,
    });
    let (coding_agent, why) = ("claude".to_owned(), "no more".to_owned());
    check_record(Record::AgentStopped { coding_agent, why, resets_at: Some(9) }, stopped);
    check_record(Record::UsageLimitLifted, json!({ "event": "usage_limit_lifted" }));
    let finished = json!({ "event": "finished", "status": "stopped" });
    check_record(Record::Finished { status: Status::Stopped }, finished);
}

#[test]
fn overridden_transition_tells_what_overrode_it_and_what_happens_instead() {
    let next = json!({ "tag": "goto", "to": "NEXT.sh" });
    let other = json!({ "tag": "result", "result": "enough" });
    for (by, by_json) in [
        (Overrider::Match { pattern: "TODO".to_owned() }, json!({ "match": "TODO" })),
        (Overrider::Prompt { prompt: "JUDGE.md".to_owned() }, json!({ "prompt": "JUDGE.md" })),
        (Overrider::Visits { max_visits: 3 }, json!({ "max_visits": 3 })),
        (
            Overrider::Limit(Limit::Iterations { max_iterations: 9 }),
            json!({ "why": "iterations", "max_iterations": 9 }),
        ),
    ] {
        for (instead, instead_json) in
            [(Instead::Follow(result("enough")), &other), (Instead::Stop, &json!("stop"))]
        {
            let record = Record::Overridden {
                agent: main(),
                asked: goto("NEXT.sh"),
                source: Source::Tag,
                session: None,
                by: by.clone(),
                instead,
            };
            let expected = json!({
                "event": "overridden", "agent": "main", "asked": next, "by": by_json,
                "instead": instead_json,
            });
            check_record(record, expected);
        }
    }
}

#[test]
fn record_about_an_agent_that_is_unknown_has_no_origin() {
    let id = StepId { agent: AgentId::new("main_gone"), number: 1 };
    let mut record = follow(goto("NEXT.sh"), Via::Tag, &[]);
    if let Record::Followed { agent, .. } = &mut record {
        *agent = id.agent;
    }
    let run = Run::new(&started("/flow"));
    let value = of_seen(&Seen { at_ms: 5, event: Event::recorded(record, &run) });
    assert_eq!((&value["from"], &value["to"]), (&Value::Null, &json!("NEXT.sh")));
}
