//! Resuming a run: nothing finished is repeated, and the current files of the workflow are used.

use raymond_flow::{
    machine::{Input, SessionPlan, Status},
    turn::Outcome,
};

use crate::sim::{Sim, session};

const POLICY: &str =
    "---\nallowed_transitions: [{ tag: goto, target: A.md }, { tag: result }]\n---\nstart";

#[test]
fn failed_agent_is_retried_at_the_state_where_it_failed() {
    let mut sim = Sim::new([("START.md", "start"), ("A.md", "a"), ("W.md", "w")]);
    sim.reply("main", "<fork next=\"A\">W</fork>");
    sim.reply("main", "<result>fine</result>");
    sim.reply("main_w1", "no tag");
    assert_eq!(sim.run.status, Status::Failed);
    sim.world.files.insert("W.md".to_owned(), b"fixed".to_vec());
    sim.resume();
    assert_eq!(sim.names(), ["main_w1"], "nothing else is repeated");
    assert_eq!(sim.child("main_w1").prompt(), "fixed");
    sim.reply("main_w1", "<result>now</result>");
    assert_eq!(sim.run.status, Status::Completed);
}

#[test]
fn rejected_answer_is_used_if_the_fixed_workflow_allows_it() {
    let mut sim = Sim::new([("START.md", "start")]);
    sim.reply_costing("main", "<goto>A</goto>", 3.0);
    assert_eq!(sim.error("main"), "state `A` not found: there is neither A.md nor A.sh");
    sim.world.files.insert("A.md".to_owned(), b"a".to_vec());
    sim.resume();
    assert_eq!(sim.state("main"), "A.md");
    assert_eq!(sim.child("main").session(), &SessionPlan::Resume { id: session("s1") });
    assert_eq!(sim.main().steps, 2, "the paid turn was not repeated");
}

#[test]
fn answer_that_is_still_rejected_is_asked_for_again() {
    let mut sim = Sim::new([("START.md", "start"), ("A.md", "a")]);
    sim.reply("main", "no tag");
    sim.world.files.insert("START.md".to_owned(), POLICY.as_bytes().to_vec());
    sim.resume();
    assert_eq!(sim.state("main"), "START.md");
    assert_eq!(sim.child("main").prompt(), "start");
    assert!(!sim.child("main").turn().recovers);
}

#[test]
fn answer_is_judged_by_the_policy_it_was_given() {
    let mut sim = Sim::new([("START.md", POLICY), ("A.md", "a"), ("B.md", "b")]);
    let changed = POLICY.replace("A.md", "B.md");
    sim.world.files.insert("START.md".to_owned(), changed.into_bytes());
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.state("main"), "A.md");
}

#[test]
fn prompt_is_read_again_at_every_step() {
    let mut sim = Sim::new([("START.md", "one"), ("A.md", "a")]);
    let first = sim.child("main").step.digest.clone();
    sim.world.files.insert("START.md".to_owned(), b"two".to_vec());
    sim.reply("main", "<goto>START</goto>");
    assert_eq!(sim.child("main").prompt(), "two");
    assert_ne!(sim.child("main").step.digest, first, "the journal tells which text was used");
}

#[test]
fn crash_between_any_two_steps_changes_nothing() {
    let mut sim = Sim::new([("START.md", POLICY), ("A.md", "a"), ("W.md", "w")]);
    sim.crash();
    sim.reply("main", "nonsense");
    sim.crash();
    sim.reply("main", "<goto>A</goto>");
    sim.crash();
    sim.reply("main", "<call return=\"START\">W</call>");
    sim.crash();
    sim.reply("main", "<result>x</result>");
    sim.crash();
    sim.end("main", Outcome::Lost, 0.0);
    sim.crash();
    sim.reply("main", "<result>end</result>");
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.run.agents.len(), 0);
}

#[test]
fn step_ids_are_the_same_when_the_tail_of_the_journal_is_lost() {
    let mut sim = Sim::new([("START.md", "s"), ("A.md", "a")]);
    sim.reply("main", "<goto>A</goto>");
    let (id, child) = sim.children.first_key_value().unwrap();
    let (id, plan_state) = (id.clone(), child.step.state.clone());
    // The intent is gone, and so is what led to it.
    sim.journal.truncate(2);
    sim.children.clear();
    let first = raymond_flow::machine::replay(sim.journal.clone()).unwrap();
    sim.run = first;
    let step = raymond_flow::id::StepId { agent: id.agent.clone(), number: 1 };
    let outcome = Outcome::Reply { text: "<goto>A</goto>".to_owned() };
    let spent = raymond_flow::machine::Spent::default();
    let input = raymond_flow::turn::conclude(&sim.run, &step, outcome, spent, &sim.world);
    sim.input(input);
    let (again, child) = sim.children.first_key_value().unwrap();
    assert_eq!((again, &child.step.state), (&id, &plan_state));
}

#[test]
fn completed_run_cannot_be_resumed() {
    let mut sim = Sim::new([("START.md", "s")]);
    sim.reply("main", "<result>x</result>");
    let run = sim.run.clone();
    let (settings, limits) = (run.settings.clone(), run.limits.clone());
    sim.input(Input::Resume { settings, limits });
    assert_eq!(sim.run, run);
}

#[test]
fn input_and_metadata_reach_the_prompts_they_are_for() {
    let mut begin = crate::sim::started("START.md");
    begin.input = Some("the task".to_owned());
    begin.metadata.insert("issue".to_owned(), "bd-195".to_owned());
    let files = [
        ("START.md", "{{input}} {{issue}} {{workflow_id}} {{agent_id}}"),
        ("A.md", "{{input}} {{issue}}"),
    ];
    let world = raymond_flow::world::MemoryWorld::new(files);
    let mut sim = Sim::with(begin, world);
    assert_eq!(sim.child("main").prompt(), "the task bd-195 test-00000001 main");
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.child("main").prompt(), "{{input}} bd-195");
}

#[test]
fn first_prompt_that_uses_an_input_is_not_paid_for_without_one() {
    let files = [("START.md", "do {{input}}"), ("A.md", "a")];
    let sim = Sim::new(files);
    let expected = "`START.md` uses {{input}}, but the run was started without an input";
    assert_eq!(sim.error("main"), expected);
    assert_eq!(sim.main().steps, 0);
    let mut begin = crate::sim::started("START.md");
    begin.metadata.insert("input".to_owned(), "it".to_owned());
    let sim = Sim::with(begin, raymond_flow::world::MemoryWorld::new(files));
    assert_eq!(sim.child("main").prompt(), "do it");
}

#[test]
fn optional_input_is_empty_in_any_state_that_has_none() {
    let optional = "---\ninput: optional\n---\ndo {{input}}.";
    let mut sim = Sim::new([("START.md", optional), ("A.md", optional)]);
    assert_eq!(sim.child("main").prompt(), "do .");
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.child("main").prompt(), "do .");
}

#[test]
fn input_reaches_a_first_script_as_a_variable() {
    let mut begin = crate::sim::started("START.sh");
    begin.input = Some("the task".to_owned());
    let sim = Sim::with(begin, raymond_flow::world::MemoryWorld::new([("START.sh", "")]));
    assert_eq!(sim.child("main").environment()["RAYMOND_INPUT"], "the task");
}
