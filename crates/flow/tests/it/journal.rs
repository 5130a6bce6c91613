//! The durable formats of journal and state file, and that old samples stay readable.

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    history::{CodingAgentsMessage, InputMessage, Records},
    id::AgentId,
    machine::{FailureClass, Input, Record, TurnFailure, replay},
    snapshot::{Snapshot, SnapshotError},
    turn::Outcome,
    world::MemoryWorld,
};

use crate::sim::{Sim, started, usd};

const POLICY: &str = "---\nallowed_transitions: [{ tag: goto, target: A.md }, { tag: result }]\nevaluators: [{ prompt: JUDGE.md }]\n---\nx";

/// A run that uses every part of the format that a healthy run has.
fn sim() -> Sim {
    let mut sim = Sim::new([
        ("START.md", POLICY),
        ("A.md", "a"),
        ("W.md", "w"),
        ("S.sh", "s"),
        ("JUDGE.md", "j"),
    ]);
    sim.reply_costing("main", "hm", 0.01);
    sim.reply_costing("main", "<goto>A</goto>", 0.02);
    sim.reply_costing("main", "<result>accept</result>", 0.001);
    sim.reply("main", "<fork next=\"S\" item=\"one\">W</fork>");
    sim.prints("main", "<call return=\"A\">W</call>");
    sim.reply("main_w1", "no tag");
    sim
}

/// One JSON object per line, as an earlier version of Raymond wrote it. Never changed: every journal
/// that was ever written must stay readable.
const V1: &str = include_str!("../fixtures/v1/journal.jsonl");
/// Of a program whose agents did not know their parents.
const V1_STATE_WITHOUT_PARENTS: &str = include_str!("../fixtures/v1/state.json");
/// Of a program whose workers could not be joined.
const V1_STATE_WITHOUT_CREWS: &str = include_str!("../fixtures/v1/state-with-parents.json");
const V1_STATE: &str = include_str!("../fixtures/v1/state-with-workers.json");

/// The same run by a program whose turns have shares of the budget.
const V1_SHARES: &str = include_str!("../fixtures/v1/journal-with-shares.jsonl");
const V1_SHARES_STATE: &str = include_str!("../fixtures/v1/state-with-shares.json");

/// A turn that spends its share, is continued with more, fails and is retried.
const V1_MORE_MONEY: &str = include_str!("../fixtures/v1/more-money.jsonl");

/// A policy that declares the attributes of a fork.
const V1_DECLARED: &str = include_str!("../fixtures/v1/declared.jsonl");

/// Each record as its own line, without the brackets of a decision.
pub(crate) fn lines(records: &[Record]) -> String {
    let on_disk = |record| serde_json::to_string(&Records::from(std::slice::from_ref(record)));
    let lines = records.iter().map(|record| on_disk(record).unwrap());
    lines.map(|line| line.trim_matches(['[', ']']).to_owned() + "\n").collect()
}

pub(crate) fn record(line: &str) -> Record {
    let records: Records = serde_json::from_str(&format!("[{line}]")).unwrap();
    Vec::from(records).remove(0)
}

#[test]
fn journal_of_version_1_is_readable_for_ever() {
    let records: Vec<Record> = V1.lines().map(record).collect();
    let run = replay(records).unwrap();
    assert_eq!(run.total_cost_usd, usd(0.031));
    let state = Snapshot::from_json(V1_STATE).unwrap();
    assert_eq!(state.run, run);
    assert_eq!(state.journal_offset, 4096);
}

#[test]
fn state_file_without_parents_is_rejected_and_the_journal_has_them() {
    let error = Snapshot::from_json(V1_STATE_WITHOUT_PARENTS).unwrap_err();
    assert_eq!(error.to_string(), "it does not say who forked agent `main_w1`");
    let run = replay(V1.lines().map(record)).unwrap();
    let parents: Vec<_> = run.agents_by_birth().iter().map(|agent| agent.parent.clone()).collect();
    assert_eq!(parents, [None, Some(AgentId::main())]);
    // One agent needs no parent: such a file is still taken.
    let mut alone: serde_json::Value = serde_json::from_str(V1_STATE_WITHOUT_PARENTS).unwrap();
    alone["agents"].as_array_mut().unwrap().truncate(1);
    alone["fork_counters"] = serde_json::json!({});
    assert_eq!(Snapshot::from_json(&alone.to_string()).unwrap().run.agents.len(), 1);
}

#[test]
fn state_file_that_does_not_tell_of_workers_is_refused_and_its_journal_tells_of_them() {
    let error = Snapshot::from_json(V1_STATE_WITHOUT_CREWS).unwrap_err();
    assert_eq!(error.to_string(), "it does not tell of the workers of agent `main`");
    let run = replay(V1.lines().map(record)).unwrap();
    let crew = &run.crews[&AgentId::main()];
    assert_eq!(crew.workers().values().map(|w| w.agent.as_str()).collect::<Vec<_>>(), ["main_w1"]);
}

#[test]
fn journal_is_still_written_as_version_1_says() {
    // Whoever changes this on purpose adds a field with a default, writes a new sample beside the
    // old one, and leaves the old one alone.
    let sim = sim();
    assert_eq!(lines(&sim.journal), V1_SHARES);
    assert_eq!(Snapshot::to_json(&sim.run, 4096).unwrap(), V1_SHARES_STATE);
    assert_eq!(replay(V1_SHARES.lines().map(record)).unwrap(), sim.run);
    assert_eq!(Snapshot::from_json(V1_SHARES_STATE).unwrap().run, sim.run);
}

/// The first record of a run that has an identity.
const V1_IDENTITY: &str = include_str!("../fixtures/v1/started-with-identity.jsonl");

#[test]
fn identity_of_a_run_is_kept_in_journal_and_state_file() {
    let started = record(V1_IDENTITY.trim_end());
    assert_eq!(lines(std::slice::from_ref(&started)), V1_IDENTITY);
    let run = replay([started]).unwrap();
    assert_eq!(run.identity, "0f8e4c2a9b7d46518c3e5f60718293a4");
    let state = Snapshot::to_json(&run, 1).unwrap();
    assert_eq!(Snapshot::from_json(&state).unwrap().run, run);
}

/// A change of limits.
const V1_LIMITS: &str = include_str!("../fixtures/v1/limits-changed.jsonl");

#[test]
fn changed_limits_are_kept_in_journal_and_state_file() {
    let changed = record(V1_LIMITS.trim_end());
    assert_eq!(lines(std::slice::from_ref(&changed)), V1_LIMITS);
    let run = replay([record(V1_IDENTITY.trim_end()), changed]).unwrap();
    assert_eq!(run.limits.budget_usd, Some(usd(25.0)));
    let state = Snapshot::to_json(&run, 1).unwrap();
    assert_eq!(Snapshot::from_json(&state).unwrap().run.limits, run.limits);
}

/// A coding agent that is not available, and a turn that another one takes for it.
const V1_FAILOVER: &str = include_str!("../fixtures/v1/failover.jsonl");

#[test]
fn coding_agent_that_is_not_available_is_kept_in_journal_and_state_file() {
    let records: Vec<_> = V1_FAILOVER.lines().map(record).collect();
    assert_eq!(lines(&records), V1_FAILOVER);
    let run = replay([record(V1_IDENTITY.trim_end())].into_iter().chain(records)).unwrap();
    assert_eq!(run.stopped["claude"].resets_at, Some(1_794_899_999));
    let state = Snapshot::to_json(&run, 1).unwrap();
    assert_eq!(Snapshot::from_json(&state).unwrap().run, run);
}

/// A run with a limit on the time for retries, one of whose turns waits after a transient failure.
const V1_RETRIES: &str = include_str!("../fixtures/v1/retries.jsonl");
const V1_RETRIES_STATE: &str = include_str!("../fixtures/v1/state-with-retries.json");

#[test]
fn time_for_retries_is_kept_in_journal_and_state_file() {
    let mut begin = started("START.md");
    (begin.limits.budget_usd, begin.limits.retry_for_ms) = (None, 5_000);
    let mut sim = Sim::with(begin, MemoryWorld::new([("START.md", "s")]));
    let class = FailureClass::Transient { retry_after_ms: Some(3_000) };
    let failure = TurnFailure { class, message: "overloaded".to_owned() };
    sim.end("main", Outcome::Failed(failure), 0.0);
    assert_eq!(lines(&sim.journal), V1_RETRIES);
    assert_eq!(replay(V1_RETRIES.lines().map(record)).unwrap(), sim.run);
    assert_eq!(Snapshot::to_json(&sim.run, 4096).unwrap(), V1_RETRIES_STATE);
    assert_eq!(Snapshot::from_json(V1_RETRIES_STATE).unwrap().run, sim.run);
}

#[test]
fn journal_keeps_the_attributes_that_a_policy_declares() {
    let start = "---\nallowed_transitions:\n  - { tag: fork, target: A, next: A, kind: bug, attributes: [PART] }\n---\nx";
    let mut begin = started("START.md");
    begin.limits.budget_usd = None;
    let sim = Sim::with(begin, MemoryWorld::new([("START.md", start), ("A.md", "a")]));
    let intended = sim.journal.get(1..).unwrap();
    assert_eq!(lines(intended), V1_DECLARED);
    assert_eq!(V1_DECLARED.lines().map(record).collect::<Vec<_>>(), intended);
}

#[test]
fn journal_keeps_that_a_turn_has_spent_its_share() {
    let mut sim = Sim::new([("START.md", "s")]);
    let fails = |sim: &mut Sim, class, dollars| {
        let failure = TurnFailure { class, message: "it broke".to_owned() };
        sim.end("main", Outcome::Failed(failure), dollars);
    };
    fails(&mut sim, FailureClass::Budget, 5.5);
    fails(&mut sim, FailureClass::Transient { retry_after_ms: None }, 0.0);
    sim.wake("main");
    fails(&mut sim, FailureClass::UnknownModel, 0.0);
    let records = sim.journal.get(1..).unwrap();
    assert_eq!(lines(records), V1_MORE_MONEY);
    assert_eq!(V1_MORE_MONEY.lines().map(record).collect::<Vec<_>>(), records);
}

#[test]
fn state_file_has_the_documented_shape() {
    let json: serde_json::Value = serde_json::from_str(V1_STATE).unwrap();
    let keys = [
        "workflow_id",
        "scope_dir",
        "agents",
        "fork_counters",
        "total_cost_usd",
        "budget_usd",
        "iteration_count",
        "max_iterations",
        "metadata",
        "status",
    ];
    for key in keys {
        assert!(json.get(key).is_some(), "{key}");
    }
    let main = &json["agents"][0];
    assert_eq!(main["id"], "main");
    assert_eq!(main["current_state"], "W.md");
    assert_eq!(main["session_id"], "s1");
    assert_eq!(main["stack"][0]["session"], "s1");
    assert_eq!(main["stack"][0]["state"], "A.md");
    assert_eq!(main["cwd"], "/project");
    let worker = &json["agents"][1];
    assert_eq!(worker["fork_attributes"], serde_json::json!({ "item": "one" }));
    assert_eq!(json["fork_counters"], serde_json::json!({ "main": 1 }));
    assert_eq!(json["budget_usd"], 10.0);
    assert_eq!(json["status"], "running");
}

#[test]
fn state_file_of_a_newer_version_is_refused_with_its_number() {
    let newer = V1_STATE.replacen("\"version\": 1", "\"version\": 2", 1);
    let error = Snapshot::from_json(&newer).unwrap_err();
    assert!(matches!(error, SnapshotError::Newer { found: 2 }));
    assert_eq!(
        error.to_string(),
        "it has format version 2, and this program knows versions up to 1"
    );
}

#[test]
fn state_file_that_is_torn_is_refused() {
    for length in [0, 1, V1_STATE.len() / 2, V1_STATE.len() - 3] {
        let torn = V1_STATE.get(..length).unwrap();
        assert!(matches!(Snapshot::from_json(torn), Err(SnapshotError::Malformed(_))), "{length}");
    }
}

/// Forks of one answer with a limit, a join that passes a failure, arguments, and a state that was visited
/// too often.
const V1_JOIN: &str = include_str!("../fixtures/v1/join.jsonl");
const V1_JOIN_STATE: &str = include_str!("../fixtures/v1/state-with-join.json");

/// A run that uses every part of the format that joins, arguments and limits of visits have.
fn joining_sim() -> Sim {
    let ask = "---\ntools: [Edit, 'Bash(make:*)']\npermissions: plan\nmax_visits: 1\n\
               then: { tag: goto, target: SPREAD, input: again }\n---\nask {{file}}";
    let mut sim = Sim::new([("ASK.md", ask), ("SPREAD.sh", ""), ("W.md", "w"), ("LAST.md", "l")]);
    sim.reply("main", "<function return=\"ASK\" file=\"a.rs\" input=\"x\">LAST</function>");
    sim.reply("main", "<result>b</result>");
    let fork = |item: &str, input: &str| {
        format!("<fork next=\"SPREAD\" limit=\"1\" item=\"{item}\"{input}>W</fork>")
    };
    let forks = format!("{}{}{}", fork("1", " input=\"i\""), fork("2", ""), fork("3", ""));
    sim.prints("main", &forks);
    sim.reply("main_w1", "<nothing/>");
    sim.reply("main_w2", "<result>two</result>");
    sim.prints("main", "<join count=\"1\" failed=\"pass\" input=\"j\">LAST</join>");
    sim.reply("main", "<call return=\"LAST\" part=\"p\">LAST</call>");
    sim.reply("main", "<fork next=\"LAST\">W</fork>");
    sim.reply("main", "<join count=\"2\">LAST</join>");
    sim
}

#[test]
fn joins_arguments_and_visits_are_kept_in_journal_and_state_file() {
    let sim = joining_sim();
    assert_eq!(lines(&sim.journal), V1_JOIN);
    assert_eq!(Snapshot::to_json(&sim.run, 77).unwrap(), V1_JOIN_STATE);
    let run = replay(V1_JOIN.lines().map(record)).unwrap();
    assert_eq!(Snapshot::from_json(V1_JOIN_STATE).unwrap().run, run);
}

/// Inputs from another machine, one of each kind. Never changed: histories of runs under way contain them.
const V1_INPUTS: &str = include_str!("../fixtures/v1/inputs.jsonl");
const V1_INPUTS_FAILOVER: &str = include_str!("../fixtures/v1/inputs-with-failover.jsonl");

#[test]
fn inputs_of_earlier_programs_stay_readable_and_are_written_the_same() {
    for line in V1_INPUTS.lines().chain(V1_INPUTS_FAILOVER.lines()) {
        let message: InputMessage = serde_json::from_str(line).unwrap_or_else(|error| {
            panic!("{error}: {line}");
        });
        let input = Input::from(message);
        assert_eq!(serde_json::to_string(&InputMessage::from(input)).unwrap(), line);
    }
}

#[test]
fn coding_agents_are_the_same_on_another_machine() {
    let plain = Capabilities { can_branch: false, reports_cost: false, ..Capabilities::FULL };
    let agents = CodingAgents::new(plain, [("claude".to_owned(), Capabilities::FULL)].into());
    let json = serde_json::to_string(&CodingAgentsMessage::from(&agents)).unwrap();
    let read: CodingAgentsMessage = serde_json::from_str(&json).unwrap();
    assert_eq!(CodingAgents::from(read), agents, "{json}");
}
