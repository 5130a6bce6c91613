//! The durable formats of journal, state file and inputs.

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    formats::Snapshot,
    machine::{FailureClass, Input, Record, TurnFailure, replay},
    turn::Outcome,
    world::MemoryWorld,
};

use crate::{
    fixtures::{check_journal, check_state, read},
    sim::{Sim, started, usd},
};

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

#[test]
fn run_is_kept_in_journal_and_state_file() {
    let sim = sim();
    check_journal("run", &sim.journal);
    check_state("run", &sim.run);
    let run = replay(read::<Record>("run")).unwrap();
    assert_eq!(run, sim.run);
    assert_eq!(run.total_cost_usd, usd(0.031));
}

#[test]
fn records_that_few_runs_have_are_kept() {
    let run = replay(read::<Record>("rare")).unwrap();
    assert_eq!(run.identity, "0f8e4c2a9b7d46518c3e5f60718293a4");
    assert_eq!(run.limits.budget_usd, Some(usd(25.0)));
    assert_eq!(run.stopped["claude"].resets_at, Some(1_794_899_999));
    check_state("rare", &run);
}

#[test]
fn time_for_retries_is_kept_in_journal_and_state_file() {
    let mut begin = started("START.md");
    (begin.limits.budget_usd, begin.limits.retry_for_ms) = (None, 5_000);
    let mut sim = Sim::with(begin, MemoryWorld::new([("START.md", "s")]));
    let class = FailureClass::Transient { retry_after_ms: Some(3_000) };
    let failure = TurnFailure { class, message: "overloaded".to_owned() };
    sim.end("main", Outcome::Failed(failure), 0.0);
    check_journal("retries", &sim.journal);
    check_state("retries", &sim.run);
}

#[test]
fn journal_keeps_the_attributes_that_a_policy_declares() {
    let start = "---\nallowed_transitions:\n  - { tag: fork, target: A, next: A, kind: bug, attributes: [PART] }\n---\nx";
    let mut begin = started("START.md");
    begin.limits.budget_usd = None;
    let sim = Sim::with(begin, MemoryWorld::new([("START.md", start), ("A.md", "a")]));
    check_journal("declared", &sim.journal);
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
    check_journal("spent-share", &sim.journal);
}

#[test]
fn state_file_has_the_documented_shape() {
    let json: serde_json::Value = serde_json::to_value(Snapshot::new(&sim().run, 4096)).unwrap();
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
    assert_eq!(main["session_id"]["branch_of"], "s1");
    assert_eq!(main["stack"][0]["session"], "s1");
    assert_eq!(main["stack"][0]["state"], "A.md");
    assert_eq!(main["cwd"], "/project");
    let worker = &json["agents"][1];
    assert_eq!(worker["fork_attributes"], serde_json::json!({ "item": "one" }));
    assert_eq!(json["fork_counters"], serde_json::json!({ "main": 1 }));
    assert_eq!(json["budget_usd"], 10.0);
    assert_eq!(json["status"], "running");
}

/// Forks of one answer with a limit, a join that passes a failure, arguments, and a state that was visited too often.
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
    check_journal("join", &sim.journal);
    check_state("join", &sim.run);
}

#[test]
fn inputs_from_another_machine_are_kept() {
    assert_eq!(read::<Input>("inputs").len(), 34);
}

#[test]
fn coding_agents_are_the_same_on_another_machine() {
    let plain = Capabilities { can_branch: false, reports_cost: false, ..Capabilities::FULL };
    let agents = CodingAgents::new(plain, [("claude".to_owned(), Capabilities::FULL)].into());
    let json = serde_json::to_string(&agents).unwrap();
    assert_eq!(serde_json::from_str::<CodingAgents>(&json).unwrap(), agents, "{json}");
}
