#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::path::Path;

use raymond_flow::{
    id::SessionId,
    machine::{SessionPlan, Step, Turn},
};

use super::*;
use crate::testing::{turn, turn_step};

fn ask(agent: &ScriptedAgent, state: &str) -> ReadyAnswer {
    let turn: Turn = turn(SessionPlan::Fresh { id: SessionId::new("s") });
    let step = Step { state: StateName::new(state), ..turn_step(turn.clone()) };
    let request = TurnRequest {
        agent: &AgentId::main(),
        step: &step,
        turn: &turn,
        cwd: Path::new("/"),
        prompt: "words",
        continuation: "",
        earlier: &[],
        folder: None,
        state_dir: Path::new("/work/.raymond"),
        scope: Path::new("/nowhere"),
        follows_a_model: false,
    };
    agent.answer(&request).unwrap()
}

fn text(answer: ReadyAnswer) -> String {
    match answer.end.outcome {
        Outcome::Reply { text } => text,
        Outcome::Failed(failure) => format!("failed: {}", failure.message),
        outcome => panic!("{outcome:?}"),
    }
}

/// The replies of a state: their texts, and how often each is given.
type Replies<'a> = (&'a str, &'a [(&'a str, Option<u64>)]);

fn agent<const N: usize>(replies: [Replies<'_>; N]) -> ScriptedAgent {
    let script = replies.into_iter().map(|(state, replies)| {
        let reply = |(text, times): &(&str, Option<u64>)| ScriptedReply {
            times: *times,
            ..ScriptedReply::text(*text)
        };
        (state.to_owned(), replies.iter().map(reply).collect())
    });
    ScriptedAgent::new(script.collect())
}

#[test]
fn replies_are_given_in_order_as_often_as_they_say() {
    let agent =
        agent([("A", &[("one", Some(1)), ("two", Some(2)), ("none", Some(0)), ("rest", None)])]);
    let given: Vec<_> = (0..6).map(|_| text(ask(&agent, "A.md"))).collect();
    assert_eq!(given, ["one", "two", "two", "rest", "rest", "rest"]);
    assert_eq!(agent.left_over(), []);
    assert_eq!(agent.missing(), [""; 0]);
}

#[test]
fn reply_that_is_not_there_fails_and_is_told() {
    let agent = agent([("A", &[("one", Some(1))])]);
    assert_eq!(text(ask(&agent, "A.md")), "one");
    assert_eq!(text(ask(&agent, "A.md")), "failed: the script has only 1 reply for A.md");
    assert_eq!(text(ask(&agent, "B.md")), "failed: the script has no reply for B.md");
    assert_eq!(agent.missing().len(), 2);
}

#[test]
fn state_is_named_with_or_without_its_extension_and_the_whole_name_wins() {
    let agent = agent([
        ("A", &[("stem", Some(1))]),
        ("A.md", &[("whole", Some(1))]),
        ("B", &[("b", None)]),
    ]);
    assert_eq!(text(ask(&agent, "A.md")), "whole");
    assert_eq!(text(ask(&agent, "B.md")), "b");
    assert_eq!(agent.left_over(), [("A".to_owned(), 1)]);
}

#[test]
fn copies_are_the_same_agent() {
    let agent = agent([("A", &[("one", Some(1)), ("two", Some(1))])]);
    let copy = agent.clone();
    assert_eq!(text(ask(&copy, "A.md")), "one");
    assert_eq!(text(ask(&agent, "A.md")), "two");
    let prompts = agent.prompts();
    assert_eq!(prompts.len(), 2);
    assert_eq!((&*prompts[0].prompt, prompts[0].state.as_str()), ("words", "A.md"));
}

#[test]
fn reply_that_is_given_for_ever_leaves_a_moment_to_interrupt_it() {
    let endless = agent([("A", &[("x", None)])]);
    assert!(ask(&endless, "A.md").after > Duration::ZERO);
    let once = agent([("A", &[("x", Some(1))])]);
    assert_eq!(ask(&once, "A.md").after, Duration::ZERO);
}

#[test]
fn cost_and_failure_are_those_of_the_script() {
    let class = FailureClass::Authentication;
    let failure = TurnFailure { class, message: "no".to_owned() };
    let cost_usd = Usd::from_dollars(0.5).unwrap();
    let reply = ScriptedReply { answer: Err(failure.clone()), cost_usd, ..ScriptedReply::text("") };
    let agent = ScriptedAgent::new(Script::from([("A".to_owned(), vec![reply])]));
    let end = ask(&agent, "A.md").end;
    assert_eq!(end.outcome, Outcome::Failed(failure));
    assert_eq!(end.spent.cost_usd, cost_usd);
}
