//! Messages that people send to agents at work: they reach a turn, and each only once.

use raymond_flow::{
    machine::{Again, Conclusion, FailureClass, Halt, Input, Record, Status, TurnFailure},
    prompt::before_messages,
    turn::Outcome,
};

use crate::{
    fixtures::{check_journal, check_state},
    sim::Sim,
};

fn sim() -> Sim {
    Sim::new([("START.md", "begin"), ("A.md", "go on"), ("S.sh", ""), ("W.md", "work")])
}

fn reply(text: &str) -> Outcome {
    Outcome::Reply { text: text.to_owned() }
}

fn overloaded() -> Outcome {
    let class = FailureClass::Transient { retry_after_ms: None };
    Outcome::Failed(TurnFailure { class, message: "overloaded".to_owned() })
}

/// How often each of two messages is in a text.
fn counts(text: &str) -> [usize; 2] {
    ["use the other table", "be quick"].map(|message| text.matches(message).count())
}

fn heard(sim: &Sim) -> Vec<&str> {
    sim.journal
        .iter()
        .filter_map(|record| match record {
            Record::Heard { messages, .. } => Some(messages.iter().map(String::as_str)),
            _ => None,
        })
        .flatten()
        .collect()
}

#[test]
fn message_to_a_running_turn_is_offered_to_it_and_not_repeated_once_it_was_taken() {
    let mut sim = sim();
    sim.tell("main", "use the other table");
    assert_eq!(sim.told.len(), 1);
    sim.end_hearing("main", reply("<goto>A</goto>"), &["use the other table"]);
    assert_eq!(heard(&sim), ["use the other table"]);
    assert_eq!(sim.child("main").prompt(), "go on");
}

#[test]
fn message_that_a_running_turn_did_not_take_comes_with_the_next_prompt() {
    let mut sim = sim();
    sim.tell("main", "use the other table");
    sim.reply("main", "<goto>S</goto>");
    assert_eq!(heard(&sim), Vec::<&str>::new());
    assert!(sim.told.is_empty(), "a script takes none");
    sim.tell("main", "be quick");
    sim.prints("main", "<goto>A</goto>");
    let prompt = sim.child("main").prompt();
    assert_eq!(counts(prompt), [1, 1], "{prompt}");
    assert_eq!(before_messages(prompt), "go on");
    assert!(sim.told.is_empty(), "they are in the prompt");
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(heard(&sim), ["use the other table", "be quick"]);
    assert_eq!(sim.child("main").prompt(), "go on");
}

#[test]
fn reminder_has_the_message_that_the_turn_before_did_not_take() {
    let policy =
        "---\nallowed_transitions: [{ tag: goto, target: A }, { tag: result }]\n---\nbegin";
    let mut sim = Sim::new([("START.md", policy), ("A.md", "go on")]);
    sim.tell("main", "use the other table");
    sim.reply("main", "no tag");
    assert_eq!(counts(sim.child("main").prompt()), [1, 0]);
}

#[test]
fn turn_that_is_tried_again_in_its_session_is_given_only_what_the_session_does_not_have() {
    let mut sim = sim();
    sim.tell("main", "use the other table");
    sim.end_hearing("main", overloaded(), &["use the other table"]);
    assert_eq!(heard(&sim), Vec::<&str>::new(), "the turn was not answered");
    sim.tell("main", "be quick");
    sim.wake("main");
    let child = sim.child("main");
    assert!(child.turn().recovers);
    assert_eq!(counts(child.continuation()), [0, 1]);
    assert_eq!(counts(child.prompt()), [1, 1], "if the session does not have the prompt");
    sim.end("main", overloaded(), 0.0);
    sim.wake("main");
    assert_eq!(counts(sim.child("main").continuation()), [0, 0]);
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(heard(&sim), ["use the other table", "be quick"]);
    assert_eq!(sim.child("main").prompt(), "go on");
}

#[test]
fn message_to_a_paused_run_is_kept_and_comes_when_it_is_resumed() {
    let mut sim = sim();
    sim.input(Input::Halt(Halt::Interrupted));
    sim.end("main", Outcome::Interrupted, 0.0);
    assert_eq!(sim.run.status, Status::Paused);
    sim.tell("main", "use the other table");
    sim.resume();
    assert_eq!(counts(sim.child("main").continuation()), [1, 0]);
}

#[test]
fn message_is_offered_again_after_a_crash_until_the_turn_has_ended() {
    let mut sim = sim();
    sim.tell("main", "use the other table");
    sim.crash();
    assert_eq!(sim.told.len(), 1);
    sim.end_hearing("main", reply("<goto>A</goto>"), &["use the other table"]);
    sim.crash();
    assert!(sim.told.is_empty());
}

#[test]
fn message_is_taken_once_however_often_it_is_sent() {
    let mut sim = sim();
    sim.tell("main", "be quick");
    sim.tell("main", "be quick");
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(counts(sim.child("main").prompt()), [0, 1]);
    sim.reply("main", "<goto>A</goto>");
    sim.tell("main", "be quick");
    assert!(sim.told.is_empty());
    assert_eq!(sim.journal.iter().filter(|it| matches!(it, Record::Told { .. })).count(), 1);
}

#[test]
fn message_is_for_its_agent_only_and_no_agent_that_has_ended_takes_one() {
    let mut sim = sim();
    sim.reply("main", "<fork next=\"A\">W</fork>");
    sim.tell("main_w1", "be quick");
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.child("main").prompt(), "go on");
    sim.reply("main_w1", "<result></result>");
    let before = sim.journal.len();
    sim.tell("main_w1", "use the other table");
    sim.reply("main", "<result></result>");
    sim.tell("main", "use the other table");
    assert!(!sim.journal[before..].iter().any(|it| matches!(it, Record::Told { .. })));
}

#[test]
fn evaluator_is_not_told_what_the_state_is_told() {
    let policy = "---\nallowed_transitions: [{ tag: goto, target: A }]\nevaluators: [{ prompt: JUDGE }]\n---\nbegin";
    let mut sim = Sim::new([("START.md", policy), ("A.md", "go on"), ("JUDGE.md", "judge")]);
    sim.reply("main", "<goto>A</goto>");
    assert_eq!(sim.state("main"), "JUDGE.md");
    sim.tell("main", "be quick");
    assert!(sim.told.is_empty());
    sim.reply("main", "<result>accept</result>");
    assert_eq!(counts(sim.child("main").prompt()), [0, 1]);
}

/// A message, and that it was heard.
#[test]
fn messages_are_kept_in_journal_and_state_file() {
    let mut sim = sim();
    sim.tell("main", "use the other table");
    sim.end_hearing("main", reply("<goto>A</goto>"), &["use the other table"]);
    sim.tell("main", "be quick");
    check_journal("messages", &sim.journal);
    check_state("messages", &sim.run);
    assert_eq!(sim.agent("main").unheard().count(), 1);
}

#[test]
fn conclusion_of_a_failed_turn_names_what_its_session_contains() {
    let mut sim = sim();
    sim.tell("main", "be quick");
    let id = sim.step("main");
    let spent = raymond_flow::machine::Spent {
        heard: vec!["be quick".to_owned()],
        ..raymond_flow::machine::Spent::default()
    };
    let input = raymond_flow::turn::conclude(&sim.run, &id, overloaded(), spent, &sim.world);
    let Input::Ended { conclusion: Conclusion::Again { why: Again::Failed(_), left }, .. } = input
    else {
        panic!("it failed")
    };
    assert_eq!(left.unwrap().given, ["be quick"]);
}
