//! Subworkflows: folders of a scope that subtasks and workers enter.

use raymond_flow::{
    machine::{Phase, Status},
    turn::Outcome,
};

use crate::{fixtures::check_journal, sim::Sim};

const REVIEW: &str = "---
allowed_transitions:
  - { tag: goto, target: PLAN }
  - { tag: call, target: deep/, return: PLAN }
---
review";

fn sim() -> Sim {
    Sim::new([
        ("START.md", "start"),
        ("PLAN.md", "the caller's plan, {{result}}"),
        ("WORK.md", "work"),
        ("review/START.md", REVIEW),
        ("review/PLAN.md", "the plan of the review: {{input}}"),
        ("review/CHECK.sh", ""),
        ("review/deep/1_START.md", "deep"),
        ("review/deep/PLAN.md", "the deepest plan"),
    ])
}

#[test]
fn names_in_a_subworkflow_are_found_there_until_it_returns_to_its_caller() {
    for tag in ["call", "function"] {
        let mut sim = sim();
        sim.reply("main", &format!("<{tag} return=\"PLAN\">review/</{tag}>"));
        assert_eq!(sim.state("main"), "review/START.md");
        sim.reply("main", "<goto input=\"x\">PLAN</goto>");
        assert_eq!(sim.state("main"), "review/PLAN.md");
        assert_eq!(sim.child("main").prompt(), "the plan of the review: x");
        sim.reply("main", "<goto>CHECK</goto>");
        assert_eq!(sim.state("main"), "review/CHECK.sh");
        sim.prints("main", "<result>fine</result>");
        assert_eq!(sim.state("main"), "PLAN.md");
        assert_eq!(sim.child("main").prompt(), "the caller's plan, fine");
        sim.reply("main", "<goto>WORK</goto>");
        assert_eq!(sim.state("main"), "WORK.md");
    }
}

#[test]
fn subworkflow_is_entered_at_the_state_that_the_target_names() {
    let mut sim = sim();
    sim.reply("main", "<function return=\"PLAN\">review/PLAN.md</function>");
    assert_eq!(sim.state("main"), "review/PLAN.md");
}

#[test]
fn subworkflow_enters_another_that_lies_in_it() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"PLAN\">review/</call>");
    sim.reply("main", "<call return=\"PLAN\">deep/</call>");
    assert_eq!(sim.state("main"), "review/deep/1_START.md");
    sim.reply("main", "<goto>PLAN</goto>");
    assert_eq!(sim.state("main"), "review/deep/PLAN.md");
    sim.reply("main", "<result>1</result>");
    assert_eq!(sim.state("main"), "review/PLAN.md");
    sim.reply("main", "<result>2</result>");
    assert_eq!(sim.state("main"), "PLAN.md");
}

#[test]
fn subworkflow_does_not_see_the_states_around_it() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"PLAN\">review/PLAN</call>");
    sim.reply("main", "<goto>WORK</goto>");
    let said = "state `WORK` not found: there is neither WORK.md nor WORK.sh";
    assert_eq!(sim.error("main"), said);
    // And it is fixed where it was missing.
    sim.world.files.insert("review/WORK.md".to_owned(), b"own work".to_vec());
    sim.resume();
    assert_eq!(sim.state("main"), "review/WORK.md");
    assert_eq!(sim.child("main").prompt(), "own work");
}

#[test]
fn worker_in_a_subworkflow_stays_there_and_is_named_after_it() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"WORK\">review/</fork>");
    sim.reply("main", "<fork next=\"WORK\">review/PLAN</fork>");
    assert_eq!(sim.names(), ["main", "main_review1", "main_plan2"]);
    assert_eq!(sim.state("main"), "WORK.md");
    sim.reply("main_review1", "<goto>PLAN</goto>");
    assert_eq!(sim.state("main_review1"), "review/PLAN.md");
    sim.reply("main_plan2", "<reset>CHECK</reset>");
    assert_eq!(sim.state("main_plan2"), "review/CHECK.sh", "a reset stays in the folder");
    sim.prints("main_plan2", "<result>2</result>");
    sim.reply("main_review1", "<result>1</result>");
    sim.reply("main", "<join>PLAN</join>");
    assert_eq!(sim.state("main"), "PLAN.md");
    assert!(
        sim.child("main").prompt().contains("\"state\":\"review/START.md\""),
        "{}",
        sim.child("main").prompt()
    );
}

#[test]
fn policy_of_a_state_in_a_subworkflow_is_about_the_states_there() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"PLAN\">review/</call>");
    sim.reply("main", "<goto>../PLAN</goto>");
    assert!(sim.child("main").prompt().contains("is a path"), "{}", sim.child("main").prompt());
    sim.reply("main", "<call return=\"PLAN\">deep/PLAN</call>");
    assert!(sim.child("main").prompt().contains("not among the transitions"));
    sim.reply("main", "<call return=\"PLAN.md\">deep/1_START</call>");
    assert_eq!(sim.state("main"), "review/deep/1_START.md", "the same state as `deep/`");
}

#[test]
fn evaluators_visits_and_questions_of_a_subworkflow_stay_in_it() {
    let looping = "---
max_visits: 1
then: { tag: goto, target: LAST }
evaluators: [{ prompt: JUDGE }]
---
loop";
    let mut sim = Sim::new([
        ("START.md", "start"),
        ("LAST.md", "the caller's last"),
        ("sub/START.md", looping),
        ("sub/JUDGE.md", "judge of the subworkflow"),
        ("sub/LAST.md", "last of the subworkflow"),
    ]);
    sim.reply("main", "<function return=\"LAST\">sub/</function>");
    sim.reply("main", "<ask choices=\"again=START|stop=LAST\">?</ask>");
    assert_eq!(sim.child("main").prompt(), "judge of the subworkflow");
    sim.reply("main", "<result>accept</result>");
    let (_, question) = sim.question("main");
    assert_eq!(question.choices[1].target.as_str(), "sub/LAST.md");
    sim.answer("main", "again");
    assert_eq!(sim.state("main"), "sub/LAST.md");
    assert_eq!(sim.child("main").prompt(), "last of the subworkflow");
}

#[test]
fn subworkflow_survives_a_crash_and_a_lost_step() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"PLAN\">review/PLAN</call>");
    sim.crash();
    sim.end("main", Outcome::Lost, 0.0);
    assert_eq!(sim.state("main"), "review/PLAN.md");
    sim.reply("main", "<result>x</result>");
    assert_eq!(sim.state("main"), "PLAN.md");
    sim.reply("main", "<result>done</result>");
    assert_eq!(sim.run.status, Status::Completed);
}

#[test]
fn folder_that_is_gone_fails_the_agent_and_is_entered_again_when_it_is_back() {
    let mut sim = sim();
    let files = sim.world.files.clone();
    sim.world.files.retain(|name, _| !name.starts_with("review/"));
    sim.reply("main", "<call return=\"PLAN\">review/</call>");
    assert_eq!(sim.error("main"), "there is no subworkflow `review/`");
    assert!(matches!(sim.agent("main").phase, Phase::Failed { .. }));
    sim.world.files = files;
    sim.resume();
    assert_eq!(sim.state("main"), "review/START.md", "the answer was paid for and is judged again");
}

#[test]
fn journal_names_the_states_of_a_subworkflow_by_their_path() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"PLAN\">review/PLAN</call>");
    sim.reply("main", "<fork next=\"PLAN\">deep/</fork>");
    check_journal("subworkflow", &sim.journal);
    assert_eq!(sim.agent("main_deep1").current_state.folder(), "review/deep/");
}
