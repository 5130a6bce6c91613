//! Second opinions on a valid transition.

use raymond_flow::{
    id::StateName,
    machine::{Instead, Overrider, Record, SessionPlan, Status, Via},
    policy::Transition,
};

use crate::sim::{Sim, session};

const MATCH: &str = "---
allowed_transitions:
  - { tag: goto, target: NEXT.md }
  - { tag: result }
evaluators:
  - match: '(?i)cannot proceed'
    then: { tag: goto, target: ESCALATE.md }
---
work";

const PROMPT: &str = "---
allowed_transitions:
  - { tag: goto, target: NEXT.md }
  - { tag: goto, target: OTHER.md }
evaluators:
  - prompt: JUDGE.md
    model: haiku
---
work";

fn sim(start: &str) -> Sim {
    Sim::new([
        ("START.md", start),
        ("NEXT.md", "next"),
        ("OTHER.md", "other"),
        ("ESCALATE.md", "escalate"),
        ("JUDGE.md", "It said {{output}} and wants {{transition}}"),
    ])
}

fn goto(target: &str) -> Transition {
    Transition::Goto { target: StateName::new(target), input: None }
}

#[test]
fn evaluator_pattern_replaces_the_transition_and_is_recorded() {
    let mut sim = sim(MATCH);
    sim.reply("main", "I CANNOT proceed. <goto>NEXT.md</goto>");
    assert_eq!(sim.state("main"), "ESCALATE.md");
    assert_eq!(sim.child("main").session(), &SessionPlan::Resume { id: session("s1") });
    let found = sim.journal.iter().find_map(|record| match record {
        Record::Overridden { asked, by, instead, .. } => Some((asked, by, instead)),
        _ => None,
    });
    let by = Overrider::Match { pattern: "(?i)cannot proceed".to_owned() };
    assert_eq!(found, Some((&goto("NEXT.md"), &by, &Instead::Follow(goto("ESCALATE.md")))));
    assert!(sim.journal.iter().any(|r| matches!(r, Record::Followed { via: Via::Evaluator, .. })));
}

#[test]
fn evaluator_pattern_that_does_not_match_changes_nothing() {
    let mut sim = sim(MATCH);
    sim.reply("main", "fine <goto>NEXT.md</goto>");
    assert_eq!(sim.state("main"), "NEXT.md");
    assert!(!sim.journal.iter().any(|r| matches!(r, Record::Overridden { .. })));
}

#[test]
fn evaluator_is_not_asked_about_an_answer_that_breaks_the_protocol() {
    let mut sim = sim(MATCH);
    sim.reply("main", "cannot proceed");
    assert_eq!(sim.state("main"), "START.md", "a reminder, not an escalation");
}

#[test]
fn evaluator_prompt_sees_output_and_transition_in_a_fresh_session() {
    let mut sim = sim(PROMPT);
    sim.reply("main", "look: <goto>NEXT</goto>");
    let child = sim.child("main");
    assert_eq!(child.step.state.as_str(), "JUDGE.md");
    assert_eq!(child.session(), &SessionPlan::Fresh { id: session("s2") });
    assert_eq!(child.turn().settings.model.as_deref(), Some("haiku"));
    let expected = "It said look: <goto>NEXT</goto> and wants <goto>NEXT.md</goto>";
    assert_eq!(child.prompt(), expected);
}

#[test]
fn evaluator_that_accepts_lets_the_transition_be_followed_in_the_agents_session() {
    let mut sim = sim(PROMPT);
    sim.reply("main", "<goto>NEXT</goto>");
    sim.reply("main", "<result> accept </result>");
    assert_eq!(sim.state("main"), "NEXT.md");
    assert_eq!(sim.child("main").session(), &SessionPlan::Resume { id: session("s1") });
    assert!(!sim.journal.iter().any(|r| matches!(r, Record::Overridden { .. })));
}

#[test]
fn evaluator_may_answer_with_another_transition_that_the_state_allows() {
    let mut sim = sim(PROMPT);
    sim.reply("main", "<goto>NEXT</goto>");
    sim.reply("main", "<goto>OTHER</goto>");
    assert_eq!(sim.state("main"), "OTHER.md");
    let found = sim.journal.iter().find_map(|record| match record {
        Record::Overridden { asked, by, instead, .. } => Some((asked, by, instead)),
        _ => None,
    });
    let by = Overrider::Prompt { prompt: "JUDGE.md".to_owned() };
    assert_eq!(found, Some((&goto("NEXT.md"), &by, &Instead::Follow(goto("OTHER.md")))));
}

#[test]
fn evaluator_that_answers_anything_else_is_reminded_in_its_own_session() {
    let mut sim = sim(PROMPT);
    sim.reply("main", "<goto>NEXT</goto>");
    for answer in ["no tag", "<goto>ESCALATE</goto>", "<result>reject</result>"] {
        sim.reply("main", answer);
        let child = sim.child("main");
        assert_eq!(child.step.state.as_str(), "JUDGE.md");
        assert_eq!(child.session(), &SessionPlan::Resume { id: session("s2") });
        assert!(child.prompt().contains("- <result>accept</result>"), "{}", child.prompt());
        assert!(child.prompt().contains("- <goto>OTHER.md</goto>"), "{}", child.prompt());
    }
    sim.reply("main", "no tag");
    assert_eq!(sim.run.status, Status::Failed);
    let error = "evaluator `JUDGE.md`: no transition tag was found (after 3 reminders)";
    assert_eq!(sim.error("main"), error);
}

#[test]
fn evaluator_failure_does_not_repeat_the_state_that_it_judged() {
    let mut sim = sim(PROMPT);
    sim.reply("main", "<goto>NEXT</goto>");
    for _ in 0..4 {
        sim.reply("main", "no tag");
    }
    sim.resume();
    assert_eq!(sim.state("main"), "JUDGE.md");
    sim.reply("main", "<result>accept</result>");
    assert_eq!(sim.state("main"), "NEXT.md");
}

#[test]
fn removed_evaluator_is_not_asked_again() {
    let mut sim = sim(PROMPT);
    sim.reply("main", "<goto>NEXT</goto>");
    for _ in 0..4 {
        sim.reply("main", "no tag");
    }
    sim.world.files.insert("START.md".to_owned(), b"work".to_vec());
    sim.resume();
    assert_eq!(sim.state("main"), "NEXT.md");
}

#[test]
fn evaluators_are_tried_in_order_and_the_first_replacement_wins() {
    let both = "---
allowed_transitions: [{ tag: goto, target: NEXT.md }]
evaluators:
  - prompt: JUDGE.md
  - match: bad
    then: { tag: goto, target: ESCALATE.md }
  - match: '.'
    then: { tag: goto, target: OTHER.md }
---
work";
    let mut sim = sim(both);
    sim.reply("main", "this is bad");
    assert_eq!(sim.state("main"), "JUDGE.md");
    sim.reply("main", "<result>accept</result>");
    assert_eq!(sim.state("main"), "ESCALATE.md");
}

#[test]
fn evaluator_judges_an_implicit_transition_too() {
    let only = "---
allowed_transitions: [{ tag: goto, target: NEXT.md }]
evaluators: [{ match: stuck, then: { tag: goto, target: ESCALATE.md } }]
---
work";
    let mut sim = sim(only);
    sim.reply("main", "I am stuck");
    assert_eq!(sim.state("main"), "ESCALATE.md");
}

#[test]
fn evaluator_whose_state_is_missing_fails_the_agent_and_can_be_fixed() {
    let mut sim = sim(PROMPT);
    let judge = sim.world.files.remove("JUDGE.md").unwrap();
    sim.reply("main", "<goto>NEXT</goto>");
    assert_eq!(sim.error("main"), "evaluator `JUDGE.md`: state `JUDGE.md` not found");
    sim.world.files.insert("JUDGE.md".to_owned(), judge);
    sim.resume();
    assert_eq!(sim.state("main"), "JUDGE.md");
}

#[test]
fn evaluator_that_cannot_be_asked_is_found_before_the_turn_is_paid() {
    let broken = "---\nmodel: [\n---\nx";
    let judges = [
        (None, "evaluator `JUDGE`: state `JUDGE` not found"),
        (Some(("JUDGE.sh", "true")), "evaluator `JUDGE.sh` is not a prompt"),
        (Some(("JUDGE.md", broken)), "evaluator `JUDGE`: JUDGE.md:"),
    ];
    for (judge, expected) in judges {
        let start = PROMPT.replace("JUDGE.md", "JUDGE");
        let mut sim = Sim::new(
            [("START.md", &*start), ("NEXT.md", ""), ("OTHER.md", "")].into_iter().chain(judge),
        );
        assert!(sim.children.is_empty(), "no turn was started");
        assert!(sim.error("main").starts_with(expected), "{}", sim.error("main"));
        sim.world.files.remove("JUDGE.sh");
        sim.world.files.insert("JUDGE.md".to_owned(), b"judge".to_vec());
        sim.resume();
        assert_eq!(sim.state("main"), "START.md");
    }
}
