//! Joins: whom an agent waits for, what it is handed, and what a failed worker means.

use std::collections::BTreeMap;

use raymond_flow::{
    id::{AgentId, SessionId},
    machine::{
        Effect, FailureClass, Input, Launch, Phase, Prepared, Record, Run, Standing, Status,
        TurnFailure, Work, pending, replay,
    },
    payload::{Kept, Payload, Piece},
    turn::{Exit, Outcome, prepare},
    world::MemoryWorld,
};
use serde_json::{Value, json};

use crate::sim::{Sim, agent, started, usd};

fn sim() -> Sim {
    Sim::new([
        ("START.md", "start"),
        ("W.md", "work on {{item}}"),
        ("W2.sh", ""),
        ("MERGE.md", "merge {{result}} of {{input}}"),
        ("JOIN.sh", ""),
        ("CALLEE.md", "callee"),
        ("BACK.md", "back with {{result}}"),
    ])
}

/// A run whose `main` has forked workers with these items, and is at START again.
fn forked(items: &[&str]) -> Sim {
    let mut sim = sim();
    for item in items {
        sim.reply("main", &format!("<fork next=\"START\" item=\"{item}\">W</fork>"));
    }
    sim
}

/// What the state after a join was handed.
fn handed(sim: &Sim) -> Value {
    serde_json::from_str(sim.main().result.as_ref().unwrap().as_text().unwrap()).unwrap()
}

fn gives_up(sim: &mut Sim, name: &str) {
    let failure = TurnFailure { class: FailureClass::Refused, message: "no".to_owned() };
    sim.end(name, Outcome::Failed(failure), 0.0);
}

#[test]
fn join_waits_for_all_workers_and_hands_their_results_over_in_the_order_of_forking() {
    let mut sim = forked(&["a", "b"]);
    sim.reply("main", "<join input=\"all\">MERGE</join>");
    assert!(matches!(sim.main().phase, Phase::Joining { .. }));
    assert_eq!(sim.main().current_state.as_str(), "START.md");
    sim.reply("main_w2", "<result>two</result>");
    assert!(sim.children.keys().all(|id| id.agent != AgentId::main()), "it still waits");
    sim.crash();
    sim.reply("main_w1", "<result>\"one\"</result>");
    assert_eq!(sim.state("main"), "MERGE.md");
    let expected = json!([
        { "agent": "main_w1", "state": "W.md", "attributes": { "item": "a" }, "result": "\"one\"" },
        { "agent": "main_w2", "state": "W.md", "attributes": { "item": "b" }, "result": "two" },
    ]);
    assert_eq!(handed(&sim), expected);
    assert!(sim.child("main").prompt().ends_with(" of all"));
    assert!(sim.run.crews[&AgentId::main()].workers().is_empty());
    sim.reply("main", "<result>done</result>");
    assert_eq!(sim.run.status, Status::Completed);
}

/// The same run if the result `text` of a worker is kept elsewhere, as its journal then tells it.
fn with_kept(sim: &Sim, text: &str) -> Run {
    let (sha256, bytes) = ("ab".to_owned(), text.len() as u64);
    let kept = Kept { sha256, bytes, beginning: "on".to_owned(), is_json: false };
    let mut journal = sim.journal.clone();
    let mut payloads = journal.iter_mut().filter_map(Record::payload_mut);
    *payloads.find(|payload| payload.as_text() == Some(text)).unwrap() = kept.into();
    replay(journal).unwrap()
}

#[test]
fn result_that_is_kept_elsewhere_is_joined_by_reference_and_read_where_it_is_named() {
    let one = "\"one\"\n";
    let mut sim = forked(&["a", "b"]);
    sim.reply("main", "<join input=\"all\">MERGE</join>");
    sim.reply("main_w2", "<result>two</result>");
    sim.reply("main_w1", &format!("<result>{one}</result>"));
    let run = with_kept(&sim, one);
    let result = run.agents[&AgentId::main()].result.as_ref().unwrap();
    let [Piece::Text(before), Piece::Kept(kept), Piece::Text(after)] = result.pieces() else {
        panic!("{result:?}")
    };
    assert!(before.ends_with(",\"result\":") && after.starts_with("},{") && kept.is_json);
    let json = serde_json::to_string(&run).unwrap();
    assert_eq!(serde_json::from_str::<Run>(&json).unwrap(), run);
    // The step is prepared as if the text were there; without it, the agent fails.
    let kept = BTreeMap::from([("ab".to_owned(), one.to_owned())]);
    let world = MemoryWorld { kept, ..sim.world.clone() };
    let prompt = |world: &MemoryWorld| {
        let mut again = run.clone();
        let main = again.agents.get_mut(&AgentId::main()).unwrap();
        main.phase = Phase::Ready { work: Work::Enter };
        match prepare(&again, &AgentId::main(), world, SessionId::new("s")).input {
            Input::Prepared { prepared: Ok(Prepared::Start { launch, .. }), .. } => match launch {
                Launch::Turn { prompt, .. } => Ok(prompt),
                Launch::Script { .. } => panic!("it is a prompt"),
            },
            Input::Prepared { prepared, .. } => Err(format!("{prepared:?}")),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(prompt(&world).unwrap(), sim.child("main").prompt());
    assert!(prompt(&sim.world).unwrap_err().contains("cannot read the result ab"));
}

#[test]
fn join_goes_on_in_the_same_session_with_the_same_stack() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"BACK\">CALLEE</call>");
    sim.reply("main", "<fork next=\"CALLEE\">W</fork>");
    let session = sim.child("main").session().id().clone();
    sim.reply("main", "<join>MERGE</join>");
    sim.reply("main_w1", "<result>x</result>");
    assert_eq!(sim.child("main").session().id(), &session);
    assert_eq!(sim.main().stack.len(), 1);
}

#[test]
fn join_without_workers_hands_over_an_empty_list_at_once() {
    let mut sim = sim();
    sim.reply("main", "<join>MERGE</join>");
    assert_eq!(sim.state("main"), "MERGE.md");
    assert_eq!(sim.main().result.as_ref().and_then(Payload::as_text), Some("[]"));
}

#[test]
fn join_takes_workers_that_ended_before_it() {
    let mut sim = forked(&["a"]);
    sim.reply("main_w1", "<result>early</result>");
    sim.reply("main", "<join>MERGE</join>");
    assert_eq!(handed(&sim)[0]["result"], "early");
}

#[test]
fn join_with_a_count_takes_the_first_to_end_and_leaves_the_others() {
    let mut sim = forked(&["a", "b", "c"]);
    sim.reply("main", "<join count=\"2\">MERGE</join>");
    sim.reply("main_w3", "<result>3</result>");
    sim.reply("main_w1", "<result>1</result>");
    let agents: Vec<_> =
        handed(&sim).as_array().unwrap().iter().map(|w| w["agent"].clone()).collect();
    assert_eq!(agents, ["main_w3", "main_w1"], "in the order of their ends");
    sim.reply("main", "<join count=\"2\">MERGE</join>");
    sim.reply("main_w2", "<result>2</result>");
    assert_eq!(handed(&sim).as_array().unwrap().len(), 1, "all that are left");
}

#[test]
fn join_in_a_function_never_waits_for_the_workers_of_its_caller() {
    let mut sim = forked(&["callers"]);
    sim.reply("main", "<function return=\"BACK\">CALLEE</function>");
    sim.reply("main", "<join>MERGE</join>");
    assert_eq!(sim.state("main"), "MERGE.md");
    assert_eq!(handed(&sim), json!([]));
    sim.reply("main", "<fork next=\"CALLEE\" item=\"own\">W</fork>");
    sim.reply("main", "<join>MERGE</join>");
    sim.reply("main_w2", "<result>own</result>");
    assert_eq!(handed(&sim)[0]["agent"], "main_w2");
    assert_eq!(handed(&sim).as_array().unwrap().len(), 1);
}

#[test]
fn join_takes_what_a_callee_left_unjoined() {
    let mut sim = forked(&["before"]);
    sim.reply("main", "<function return=\"BACK\">CALLEE</function>");
    sim.reply("main", "<fork next=\"CALLEE\" item=\"left\">W</fork>");
    sim.reply("main", "<result>back</result>");
    assert_eq!(sim.state("main"), "BACK.md");
    // A second callee does not take what the first has left.
    sim.reply("main", "<call return=\"BACK\">CALLEE</call>");
    sim.reply("main", "<join>CALLEE</join>");
    assert_eq!(handed(&sim), json!([]));
    sim.reply("main", "<result>back</result>");
    sim.reply("main", "<join>MERGE</join>");
    sim.reply("main_w1", "<result>1</result>");
    sim.reply("main_w2", "<result>2</result>");
    assert_eq!(handed(&sim).as_array().unwrap().len(), 2);
}

#[test]
fn join_after_a_reset_takes_the_workers_of_all_frames() {
    let mut sim = forked(&["a"]);
    sim.reply("main", "<call return=\"BACK\">CALLEE</call>");
    sim.reply("main", "<fork next=\"CALLEE\">W</fork>");
    sim.reply("main", "<reset>START</reset>");
    sim.reply("main", "<join>MERGE</join>");
    sim.reply("main_w1", "<result>1</result>");
    sim.reply("main_w2", "<result>2</result>");
    assert_eq!(handed(&sim).as_array().unwrap().len(), 2);
}

#[test]
fn failed_worker_keeps_the_join_waiting_and_only_it_is_repeated() {
    let mut sim = forked(&["a", "b"]);
    sim.reply("main", "<join>MERGE</join>");
    gives_up(&mut sim, "main_w1");
    assert_eq!(sim.run.status, Status::Running, "the other one can go on");
    sim.reply("main_w2", "<result>2</result>");
    assert_eq!(sim.run.status, Status::Failed);
    assert!(matches!(sim.main().phase, Phase::Joining { .. }));
    sim.resume();
    let steps: Vec<_> = sim.children.keys().map(|id| id.agent.as_str()).collect();
    assert_eq!(steps, ["main_w1"]);
    sim.reply("main_w1", "<result>1</result>");
    let results: Vec<_> =
        handed(&sim).as_array().unwrap().iter().map(|w| w["result"].clone()).collect();
    assert_eq!(results, ["1", "2"]);
}

#[test]
fn failed_worker_that_is_passed_is_data_and_does_not_fail_the_run() {
    let mut sim = forked(&["a", "b"]);
    gives_up(&mut sim, "main_w1");
    sim.reply("main", "<join failed=\"pass\">MERGE</join>");
    sim.reply("main_w2", "<result>2</result>");
    let expected = json!([
        { "agent": "main_w1", "state": "W.md", "attributes": { "item": "a" }, "error": "no" },
        { "agent": "main_w2", "state": "W.md", "attributes": { "item": "b" }, "result": "2" },
    ]);
    assert_eq!(handed(&sim), expected);
    sim.reply("main", "<result>done</result>");
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.names(), ["main_w1"], "a person can still see it");
}

#[test]
fn failed_script_of_a_worker_is_its_parents_business() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\">W2</fork>");
    sim.reply("main", "<fork next=\"START\">W2</fork>");
    sim.exits("main_w22", "", Exit::Code(1));
    assert_eq!(sim.run.halt, None, "the others go on");
    sim.reply("main", "<join count=\"1\" failed=\"pass\">MERGE</join>");
    assert_eq!(handed(&sim)[0]["agent"], "main_w22");
    assert!(handed(&sim)[0]["error"].as_str().unwrap().contains("exited with code 1"));
}

#[test]
fn failed_script_of_a_worker_without_parent_stops_the_run() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\">W2</fork>");
    sim.reply("main", "<fork next=\"START\">W</fork>");
    sim.reply("main", "<result>x</result>");
    sim.exits("main_w21", "", Exit::Code(1));
    assert!(sim.run.halt.is_some());
}

#[test]
fn parent_that_waits_for_a_held_worker_counts_as_stopped() {
    let mut begin = started("START.md");
    begin.limits.budget_usd = Some(usd(1.0));
    let mut sim = Sim::with(begin, sim().world);
    sim.reply("main", "<fork next=\"START\" item=\"a\">W</fork>");
    sim.reply("main", "<join>MERGE</join>");
    sim.reply_costing("main_w1", "<goto>W</goto>", 2.0);
    assert_eq!(sim.run.status, Status::Stopped);
    let limits = raymond_flow::machine::Limits { budget_usd: None, ..sim.run.limits.clone() };
    sim.resume_with(limits);
    sim.reply("main_w1", "<result>1</result>");
    assert_eq!(handed(&sim)[0]["result"], "1");
}

#[test]
fn join_counts_one_iteration() {
    let mut sim = forked(&["a"]);
    let before = sim.run.iteration_count;
    sim.reply("main", "<join>MERGE</join>");
    sim.reply("main_w1", "<result>1</result>");
    assert_eq!(sim.run.iteration_count, before + 1);
}

#[test]
fn script_may_join() {
    let mut sim = forked(&["a"]);
    sim.reply("main", "<goto>JOIN</goto>");
    sim.prints("main", "<join>MERGE</join>");
    sim.reply("main_w1", "<result>1</result>");
    assert_eq!(sim.state("main"), "MERGE.md");
}

#[test]
fn joins_of_workers_nest() {
    let mut sim = forked(&["a"]);
    sim.reply("main", "<join>MERGE</join>");
    sim.reply("main_w1", "<fork next=\"W\" item=\"deep\">W</fork>");
    sim.reply("main_w1", "<join>W</join>");
    gives_up(&mut sim, "main_w1_w1");
    assert_eq!(sim.run.status, Status::Failed, "nobody can go on");
    sim.resume();
    sim.reply("main_w1_w1", "<result>deep</result>");
    sim.reply("main_w1", "<result>mid</result>");
    assert_eq!(handed(&sim)[0]["result"], "mid");
}

#[test]
fn join_can_be_complete_while_nothing_new_may_start() {
    let mut sim = forked(&["a"]);
    sim.reply("main", "<join>MERGE</join>");
    sim.input(raymond_flow::machine::Input::Halt(raymond_flow::machine::Halt::Interrupted));
    sim.reply("main_w1", "<result>1</result>");
    assert_eq!(sim.run.status, Status::Paused);
    sim.resume();
    assert_eq!(sim.state("main"), "MERGE.md");
    assert_eq!(handed(&sim)[0]["result"], "1");
}

#[test]
fn join_attributes_that_mean_nothing_are_refused() {
    for (tag, error) in [
        ("<join count=\"0\">MERGE</join>", "`0` in `count` is not a whole number from 1"),
        ("<join count=\"all\">MERGE</join>", "`all` in `count` is not a whole number from 1"),
        ("<join failed=\"skip\">MERGE</join>", "`skip` in `failed` is neither `hold` nor `pass`"),
        (
            "<fork next=\"START\" limit=\"-1\">W</fork>",
            "`-1` in `limit` is not a whole number from 1",
        ),
    ] {
        let mut sim = sim();
        sim.reply("main", tag);
        assert_eq!(sim.error("main"), error);
    }
}

/// The workers of `main` that are under way, and those that wait for a place.
fn places(sim: &Sim) -> (Vec<&str>, Vec<&str>) {
    let crew = sim.run.crews.get(&AgentId::main());
    let workers = crew.into_iter().flat_map(|crew| crew.workers().values());
    let of = |standing: &Standing| {
        let workers = workers.clone().filter(|worker| worker.standing == *standing);
        workers.map(|worker| worker.agent.as_str()).collect()
    };
    (of(&Standing::UnderWay), of(&Standing::Parked))
}

#[test]
fn fork_with_a_limit_starts_no_more_workers_than_that() {
    let mut sim = sim();
    for _ in 0..4 {
        sim.reply("main", "<fork next=\"START\" limit=\"2\">W</fork>");
    }
    assert_eq!(places(&sim), (vec!["main_w1", "main_w2"], vec!["main_w3", "main_w4"]));
    assert!(matches!(sim.agent("main_w3").phase, Phase::Parked { .. }));
    sim.crash();
    assert_eq!(sim.children.len(), 3);
    sim.reply("main_w2", "<result>x</result>");
    assert_eq!(places(&sim), (vec!["main_w1", "main_w3"], vec!["main_w4"]));
    gives_up(&mut sim, "main_w1");
    assert_eq!(places(&sim), (vec!["main_w3", "main_w4"], vec![]), "a failed one makes room");
    sim.reply("main", "<join>MERGE</join>");
    sim.reply("main_w3", "<result>x</result>");
    sim.reply("main_w4", "<result>x</result>");
    assert_eq!(sim.run.status, Status::Failed);
    sim.resume();
    sim.reply("main_w1", "<result>x</result>");
    assert_eq!(sim.state("main"), "MERGE.md");
}

#[test]
fn fork_with_a_limit_holds_when_failed_workers_are_resumed() {
    let mut sim = sim();
    for _ in 0..3 {
        sim.reply("main", "<fork next=\"START\" limit=\"1\">W</fork>");
    }
    sim.reply("main", "<join>MERGE</join>");
    for name in ["main_w1", "main_w2", "main_w3"] {
        gives_up(&mut sim, name);
    }
    assert_eq!(sim.run.status, Status::Failed);
    sim.resume();
    for name in ["main_w1", "main_w2", "main_w3"] {
        assert_eq!(sim.children.len(), 1, "one at a time");
        sim.reply(name, "<result>x</result>");
    }
    assert_eq!(sim.state("main"), "MERGE.md");
}

#[test]
fn fork_with_a_limit_holds_after_the_parent_has_ended() {
    let mut sim = sim();
    for _ in 0..3 {
        sim.reply("main", "<fork next=\"START\" limit=\"1\">W</fork>");
    }
    sim.reply("main", "<result>x</result>");
    for name in ["main_w1", "main_w2", "main_w3"] {
        assert_eq!(sim.children.len(), 1);
        sim.crash();
        sim.reply(name, "<result>x</result>");
    }
    assert_eq!(sim.run.status, Status::Completed);
    assert!(sim.run.crews.is_empty());
}

const MANY: &str = "---\nallowed_transitions:\n  - { tag: fork, target: W, next: JOIN, many: true }\n  - { tag: result }\n---\nstart";

#[test]
fn answer_may_fork_many_workers_where_the_policy_says_so() {
    let mut sim = Sim::new([
        ("START.md", MANY),
        ("W.md", "{{item}}"),
        ("JOIN.sh", ""),
        ("M.md", "{{result}}"),
    ]);
    let iterations = sim.run.iteration_count;
    let fork = |item: &str| format!("<fork next=\"JOIN\" item=\"{item}\">W</fork>\n");
    sim.reply("main", &format!("{}{}{}", fork("a"), fork("b"), fork("c")));
    assert_eq!(sim.names(), ["main", "main_w1", "main_w2", "main_w3"]);
    assert_eq!(sim.child("main_w3").prompt(), "c");
    assert_eq!(sim.state("main"), "JOIN.sh");
    assert_eq!(sim.run.iteration_count, iterations + 4, "three workers and one next state");
    let forks = |record: &&Record| matches!(record, Record::Followed { workers, .. } if !workers.is_empty());
    assert_eq!(sim.journal.iter().filter(forks).count(), 1, "one decision");
}

#[test]
fn answer_may_not_fork_many_workers_elsewhere() {
    let two = "<fork next=\"JOIN\">W</fork><fork next=\"JOIN\">W</fork>";
    let said = "2 <fork> tags were found where exactly one transition tag is allowed";
    let mut sim = Sim::new([("START.md", ""), ("W.md", ""), ("JOIN.sh", "")]);
    sim.reply("main", two);
    assert_eq!(sim.error("main"), said);
    let policy = "---\nallowed_transitions: [{ tag: fork }, { tag: goto }]\n---\n";
    let mut sim = Sim::new([("START.md", policy), ("W.md", ""), ("JOIN.sh", "")]);
    sim.reply("main", two);
    assert!(sim.child("main").prompt().contains(said), "it is reminded");
}

#[test]
fn forks_of_one_answer_must_go_on_at_the_same_state() {
    let mut sim = Sim::new([("START.sh", ""), ("W.md", ""), ("JOIN.sh", "")]);
    sim.prints("main", "<fork next=\"JOIN\">W</fork><fork next=\"W\">W</fork>");
    let said = "script `START.sh`: the forks of one answer must have the same `next`, not `JOIN.sh` and `W.md`";
    assert_eq!(sim.error("main"), said);
}

#[test]
fn script_may_fork_many_workers_with_a_limit() {
    let mut sim = Sim::new([("START.sh", ""), ("W.sh", ""), ("JOIN.sh", ""), ("M.sh", "")]);
    let fork = |n| format!("<fork next=\"JOIN\" limit=\"5\" n=\"{n}\">W</fork>");
    let forks: Vec<_> = (0..50).map(fork).collect();
    sim.prints("main", &forks.join("\n"));
    sim.prints("main", "<join>M</join>");
    for n in 1..=50 {
        assert!(sim.children.len() <= 5);
        let name = format!("main_w{n}");
        assert_eq!(sim.child(&name).environment()["n"], (n - 1).to_string());
        sim.prints(&name, "<result>x</result>");
    }
    assert_eq!(handed(&sim).as_array().unwrap().len(), 50);
}

#[test]
fn pending_asks_for_nothing_where_agents_wait_for_each_other() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"START\" limit=\"1\">W</fork>");
    sim.reply("main", "<fork next=\"START\" limit=\"1\">W</fork>");
    sim.reply("main", "<join>MERGE</join>");
    let effects = pending(&sim.run);
    assert!(
        matches!(effects.as_slice(), [Effect::Reattach { id, .. }] if id.agent == agent("main_w1"))
    );
}
