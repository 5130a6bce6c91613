//! Questions that a coding agent asks with a tool of its own, in the middle of a turn.

use raymond_flow::{
    machine::{Input, OnAsk, SessionPlan, Status},
    money::Usd,
    turn::{Outcome, OwnOption, OwnQuestion},
    world::MemoryWorld,
};

use crate::{
    fixtures::{check_journal, check_state},
    sim::{Sim, response, started},
};

const START: &str =
    "---\nallowed_transitions:\n  - { tag: goto, target: NEXT }\n  - { tag: result }\n---\nDo it.";

fn sim() -> Sim {
    Sim::new([("START.md", START), ("NEXT.md", "next {{result}}{{comment}}")])
}

fn question(text: &str, options: &[&str], takes_several: bool) -> OwnQuestion {
    let option = |label: &&str| OwnOption {
        label: (*label).to_owned(),
        description: format!("about {label}"),
    };
    OwnQuestion {
        text: text.to_owned(),
        options: options.iter().map(option).collect(),
        takes_several,
        grants: None,
    }
}

fn asks(sim: &mut Sim, questions: &[OwnQuestion]) {
    sim.end("main", Outcome::Asks { questions: questions.to_vec() }, 0.25);
}

#[test]
fn answer_continues_the_turn_in_its_session_and_enters_no_state() {
    let mut sim = sim();
    asks(&mut sim, &[question("Which?", &["red", "blue"], false)]);
    assert!(sim.children.is_empty());
    assert!(sim.run.waits_for_people());
    assert_eq!(Some(sim.run.total_cost_usd), Usd::from_dollars(0.25), "the part before it is paid");
    let (id, asked) = sim.question("main");
    assert_eq!(asked.text, "Which?\n- red: about red\n- blue: about blue");
    let labels: Vec<_> = asked.choices.iter().map(|choice| choice.label.as_str()).collect();
    assert_eq!(labels, ["red", "blue", "something else"]);
    let mut answer = response("something else");
    answer.comment = "green, please".to_owned();
    sim.questions.clear();
    sim.input(Input::Answered { id, response: Box::new(answer) });
    let child = sim.child("main");
    assert_eq!(child.step.state.as_str(), "START.md");
    assert!(matches!(child.session(), SessionPlan::Resume { id } if id.as_str() == "s1"));
    assert_eq!(
        child.prompt(),
        "Here is the user's answer to what you asked:\n\nsomething else\n\ngreen, please\n\n\
         Go on with your task.\n\nEnd with exactly one of these transition tags:\n\n\
         - <goto>NEXT</goto>\n- <result>…</result> (your own text in place of …)\n"
    );
    assert_eq!(sim.run.iteration_count, 1, "no state was entered");
    sim.reply("main", "<goto>NEXT</goto>");
    assert_eq!(sim.child("main").prompt(), "next {{result}}{{comment}}");
    assert_eq!(sim.child("main").session().id().as_str(), "s1");
}

#[test]
fn several_questions_or_answers_are_answered_by_one_text() {
    let mut sim = sim();
    let both =
        [question("Which?", &["red", "blue"], false), question("What on it?", &["egg"], true)];
    asks(&mut sim, &both);
    let (_, asked) = sim.question("main");
    assert_eq!(
        asked.text,
        "1. Which?\n- red: about red\n- blue: about blue\n\n2. What on it? (one or several)\n- egg: about egg"
    );
    assert!(asked.choices.is_empty());
    sim.answer("main", "red, with egg");
    assert!(sim.child("main").prompt().contains("\n\nred, with egg\n"));
    for options in [&["x", "x"][..], &["something else"], &["two\nlines"], &[""], &[]] {
        asks(&mut sim, &[question("And?", options, false)]);
        assert!(sim.question("main").1.choices.is_empty(), "{options:?}");
        sim.answer("main", "y");
    }
    assert_eq!(sim.run.agents.values().next().unwrap().asks, 6);
}

#[test]
fn questions_do_not_use_up_reminders_and_reminders_stay_counted() {
    let mut sim = sim();
    for _ in 0..3 {
        asks(&mut sim, &[question("Which?", &[], false)]);
        sim.answer("main", "this");
        sim.reply("main", "no tag");
    }
    asks(&mut sim, &[question("Which?", &[], false)]);
    sim.answer("main", "this");
    sim.reply("main", "no tag");
    assert!(sim.error("main").ends_with("(after 3 reminders)"), "{}", sim.error("main"));
}

#[test]
fn question_in_a_run_without_people_is_asked_when_the_run_is_resumed_with_them() {
    let mut begin = started("START.md");
    begin.settings.on_ask = OnAsk::Fail;
    let mut sim = Sim::with(begin, MemoryWorld::new([("START.md", START)]));
    asks(&mut sim, &[question("Which?", &["red"], false)]);
    assert_eq!(sim.run.status, Status::Failed);
    assert!(sim.error("main").contains("nobody is there to answer"), "{}", sim.error("main"));
    let (mut settings, limits) = (sim.run.settings.clone(), sim.run.limits.clone());
    settings.on_ask = OnAsk::Wait;
    sim.input(Input::Resume { settings, limits });
    sim.crash();
    assert!(sim.children.is_empty(), "the turn is not paid twice");
    sim.answer("main", "red");
    assert!(
        matches!(sim.child("main").session(), SessionPlan::Resume { id } if id.as_str() == "s1")
    );
}

#[test]
fn evaluator_that_asks_is_reminded_of_what_it_may_answer() {
    let start = "---\nevaluators:\n  - prompt: JUDGE.md\n---\ndo it";
    let mut sim = Sim::new([("START.md", start), ("JUDGE.md", "judge"), ("NEXT.md", "n")]);
    sim.reply("main", "<goto>NEXT</goto>");
    asks(&mut sim, &[question("Which?", &[], false)]);
    assert!(sim.child("main").prompt().contains("was not a judgement"));
    sim.reply("main", "<result>accept</result>");
    assert_eq!(sim.state("main"), "NEXT.md");
}

#[test]
fn own_question_is_kept_in_journal_and_state_file() {
    let mut sim = sim();
    asks(&mut sim, &[question("Which?", &["red", "blue"], false)]);
    check_state("own-question", &sim.run);
    let question = sim.question("main").1;
    assert!(question.continues.is_some());
    sim.answer("main", "blue");
    check_journal("own-question", &sim.journal);
}

#[test]
fn tool_that_a_person_allows_may_be_used_until_the_next_state() {
    let granted = |answer: &str| {
        let mut sim = sim();
        asks(&mut sim, &[OwnQuestion::of_tool("shell", "touch x")]);
        let (_, asked) = sim.question("main");
        assert_eq!(asked.text.lines().next(), Some("May the coding agent use `shell`?"));
        sim.answer("main", answer);
        if answer == "allow" {
            check_journal("granted", &sim.journal);
        }
        sim.crash();
        let granted = sim.child("main").turn().settings.granted.clone();
        sim.reply("main", "<goto>NEXT</goto>");
        assert!(sim.child("main").turn().settings.granted.is_empty());
        granted
    };
    assert_eq!(granted("allow"), ["shell"]);
    assert!(granted("refuse").is_empty());
    assert!(granted("something else").is_empty());
}
