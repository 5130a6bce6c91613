//! Questions to people: how they are asked, answered and followed.

use raymond_flow::{
    machine::{
        Due, Halt, Input, Launch, Limits, OnAsk, Phase, RAYMOND, Record, Run, SETTING, Status,
        TIMEOUT, Via,
    },
    policy::Transition,
    tag::{QUESTION_BYTES_MAX, Tag, TagKind, parse},
    world::MemoryWorld,
};

use crate::{
    fixtures::{check_journal, check_state},
    sim::{Sim, response, started},
};

const PLAN: &str = "---\nallowed_transitions:\n  - { tag: ask, next: PLAN, choices: approve=SHIP|revise|stop=END, timeout: 2h, default: stop }\n---\nPlan.";

const FILES: [(&str, &str); 4] = [
    ("PLAN.md", PLAN),
    ("SHIP.md", "{{result}}, {{comment}}, {{files}}"),
    ("END.sh", "end"),
    ("REST.md", "rest {{comment}}"),
];

fn approval() -> Sim {
    Sim::new(FILES)
}

#[test]
fn question_waits_without_a_step_and_its_answer_leads_on_in_the_same_session() {
    let mut sim = approval();
    sim.reply("main", "<ask>Is this right?</ask>");
    assert!(sim.children.is_empty());
    assert_eq!(sim.run.status, Status::Running);
    assert!(sim.run.waits_for_people());
    let (id, question) = sim.question("main");
    assert_eq!(id.to_string(), "main.1");
    assert_eq!(question.text, "Is this right?");
    assert_eq!(question.deadline_ms, Some(7_200_000));
    assert_eq!(sim.run.iteration_count, 1, "asking counts nothing");
    let mut answer = response("approve");
    answer.comment = "but gently".to_owned();
    sim.questions.clear();
    sim.input(Input::Answered { id, response: Box::new(answer) });
    assert_eq!(sim.state("main"), "SHIP.md");
    assert_eq!(sim.child("main").prompt(), "approve, but gently, ");
    assert_eq!(sim.child("main").session().id().as_str(), "s1");
    assert_eq!(sim.run.iteration_count, 2);
    sim.reply("main", "<goto>REST</goto>");
    assert_eq!(sim.child("main").prompt(), "rest {{comment}}", "only the next state sees it");
}

#[test]
fn bare_choice_leads_to_next_and_others_to_their_own_states() {
    for (label, state) in [("approve", "SHIP.md"), ("revise", "PLAN.md"), ("stop", "END.sh")] {
        let mut sim = approval();
        sim.reply("main", "<ask>Is this right?</ask>");
        sim.answer("main", label);
        assert_eq!(sim.state("main"), state);
    }
}

#[test]
fn free_text_is_the_result_and_scripts_find_it_in_their_environment() {
    let mut sim = Sim::new([("START.sh", "s"), ("NEXT.sh", "n")]);
    sim.prints("main", "<ask next=\"NEXT\" timeout=\"90\" default=\"none\">Which table?</ask>");
    assert_eq!(sim.question("main").1.deadline_ms, Some(90_000));
    sim.answer("main", "the old one");
    let environment = sim.child("main").environment();
    assert_eq!(environment["RAYMOND_RESULT"], "the old one");
    assert_eq!(environment["RAYMOND_COMMENT"], "");
    assert_eq!(environment["RAYMOND_FILES"], "");
    sim.prints("main", "<goto>START</goto>");
    let Launch::Script { environment } = &sim.child("main").launch else { panic!() };
    assert!(!environment.contains_key("RAYMOND_COMMENT"));
}

#[test]
fn answer_that_is_no_choice_or_comes_late_decides_nothing() {
    let mut sim = approval();
    sim.reply("main", "<ask>Is this right?</ask>");
    let id = sim.question("main").0;
    let length = sim.journal.len();
    sim.input(Input::Answered { id: id.clone(), response: Box::new(response("perhaps")) });
    assert_eq!(sim.journal.len(), length);
    sim.answer("main", "approve");
    let length = sim.journal.len();
    sim.input(Input::Answered { id, response: Box::new(response("stop")) });
    assert_eq!(sim.journal.len(), length);
    assert_eq!(sim.state("main"), "SHIP.md");
}

#[test]
fn model_that_sets_a_timeout_or_a_default_is_reminded() {
    for name in ["timeout", "default"] {
        let mut sim = approval();
        sim.reply("main", &format!("<ask {name}=\"approve\">Is this right?</ask>"));
        assert!(sim.questions.is_empty());
        let prompt = sim.child("main").prompt();
        let said = format!("`{name}` is not for coding agents");
        assert!(prompt.contains(&said), "{prompt}");
        assert!(prompt.contains("- <ask>…</ask>"), "{prompt}");
    }
}

#[test]
fn tag_that_disagrees_with_its_entry_is_not_allowed() {
    for tag in [
        "<ask next=\"SHIP\">?</ask>",
        "<ask choices=\"approve=SHIP\">?</ask>",
        "<ask choices=\"approve=SHIP|revise|stop=SHIP\">?</ask>",
    ] {
        let mut sim = approval();
        sim.reply("main", tag);
        let prompt = sim.child("main").prompt();
        assert!(prompt.contains("is not among the transitions"), "{prompt}");
    }
    let mut sim = approval();
    sim.reply(
        "main",
        "<ask next=\"PLAN.md\" choices=\"approve=SHIP.md | revise|stop=END\">?</ask>",
    );
    assert_eq!(sim.question("main").1.text, "?");
}

#[test]
fn entry_with_a_question_is_a_gate_that_needs_no_tag() {
    let gate = "---\nallowed_transitions: [{ tag: ask, question: Ship it?, choices: yes=SHIP|no=PLAN }]\n---\n";
    let mut sim = Sim::new([("PLAN.md", gate), ("SHIP.md", "s")]);
    sim.reply("main", "The plan is done.");
    assert_eq!(sim.question("main").1.text, "Ship it?");
    let Some(Record::Asked { via, .. }) = sim.journal.last() else { panic!() };
    assert_eq!(*via, Via::Implicit);
    sim.answer("main", "yes");
    assert_eq!(sim.state("main"), "SHIP.md");
    // With the tag, the question may be left out, but not replaced.
    let mut sim = Sim::new([("PLAN.md", gate), ("SHIP.md", "s")]);
    sim.reply("main", "<ask>Or something else?</ask>");
    assert!(sim.questions.is_empty());
    sim.reply("main", "<ask></ask>");
    assert_eq!(sim.question("main").1.text, "Ship it?");
}

#[test]
fn question_that_leads_nowhere_is_rejected() {
    for (tag, said) in [
        ("<ask>?</ask>", "lacks the attribute `next`"),
        ("<ask choices=\"a|b=NEXT\">?</ask>", "the choice `a` leads nowhere"),
        ("<ask choices=\"a=GONE\">?</ask>", "state `GONE` not found"),
        ("<ask next=\"GONE\">?</ask>", "state `GONE` not found"),
        ("<ask next=\"NEXT\"> </ask>", "asks nothing"),
        ("<ask next=\"NEXT\" question=\"x\">?</ask>", "has no attribute `question`"),
        ("<ask next=\"NEXT\" timeout=\"1h\">?</ask>", "`timeout` without `default`"),
        ("<ask next=\"NEXT\" default=\"x\">?</ask>", "`default` without `timeout`"),
        ("<ask next=\"NEXT\" timeout=\"0\" default=\"x\">?</ask>", "at least one second"),
        (
            "<ask next=\"NEXT\" choices=\"a\" timeout=\"1h\" default=\"x\">?</ask>",
            "not one of the choices",
        ),
        ("<ask next=\"NEXT\" attach=\"../plan.md\">?</ask>", "without `..`"),
        ("<ask next=\"NEXT\" attach=\"/etc/passwd\">?</ask>", "below the agent's directory"),
        ("<ask next=\"NEXT\" attach=\"gone.md\">?</ask>", "no such file"),
    ] {
        let mut sim = Sim::new([("START.sh", "s"), ("NEXT.sh", "n")]);
        sim.prints("main", tag);
        assert_eq!(sim.run.status, Status::Failed, "{tag}");
        assert!(sim.error("main").contains(said), "{tag}: {}", sim.error("main"));
    }
}

#[test]
fn attached_files_are_named_in_the_question() {
    let mut world = MemoryWorld::new([("START.sh", "s")]);
    world.attachments.extend(["/project/plan.md".to_owned(), "/project/a/b.txt".to_owned()]);
    let mut sim = Sim::with(started("START.sh"), world);
    sim.prints("main", "<ask next=\"START\" attach=\"plan.md | a/b.txt\">Right?</ask>");
    assert_eq!(sim.question("main").1.attach, ["plan.md", "a/b.txt"]);
}

#[test]
fn other_agents_go_on_and_workers_may_ask() {
    let mut sim = Sim::new([("START.md", "s"), ("WORK.md", "w")]);
    sim.reply("main", "<fork next=\"START\">WORK</fork>");
    sim.reply("main_work1", "<ask next=\"WORK\">Which one?</ask>");
    assert!(!sim.run.waits_for_people(), "main goes on");
    sim.reply("main", "<result>done</result>");
    assert_eq!(sim.run.status, Status::Running, "a question is open");
    assert!(sim.run.waits_for_people());
    sim.answer("main_work1", "this");
    sim.reply("main_work1", "<result>x</result>");
    assert_eq!(sim.run.status, Status::Completed);
}

#[test]
fn stack_is_kept_and_a_result_after_the_answer_returns() {
    let mut sim = Sim::new([("START.md", "s"), ("SUB.md", "sub"), ("BACK.md", "{{result}}")]);
    sim.reply("main", "<call return=\"BACK\">SUB</call>");
    sim.reply("main", "<ask next=\"SUB\">More?</ask>");
    sim.crash();
    sim.answer("main", "no");
    sim.reply("main", "<result>r</result>");
    assert_eq!(sim.child("main").prompt(), "r");
}

#[test]
fn limit_holds_the_answer_and_resuming_follows_it_without_asking_again() {
    let mut begin = started("PLAN.md");
    begin.limits.max_iterations = Some(1);
    let world = MemoryWorld::new([("PLAN.md", PLAN), ("SHIP.md", "{{result}}"), ("END.sh", "")]);
    let mut sim = Sim::with(begin, world);
    sim.reply("main", "<ask>Is this right?</ask>");
    sim.answer("main", "approve");
    assert_eq!(sim.run.status, Status::Stopped);
    assert!(matches!(sim.main().phase, Phase::Held { .. }));
    sim.crash();
    sim.resume_with(Limits { max_iterations: None, ..sim.run.limits.clone() });
    assert!(sim.questions.is_empty());
    assert_eq!(sim.child("main").prompt(), "approve");
    let asked = sim.journal.iter().filter(|record| matches!(record, Record::Asked { .. }));
    assert_eq!(asked.count(), 1);
}

#[test]
fn interrupted_run_pauses_with_its_question_open_and_resuming_waits_for_it() {
    let mut sim = approval();
    sim.reply("main", "<ask>Is this right?</ask>");
    sim.input(Input::Halt(Halt::Interrupted));
    assert_eq!(sim.run.status, Status::Paused);
    sim.resume();
    assert_eq!(sim.question("main").0.to_string(), "main.1");
    sim.input(Input::Halt(Halt::Asks));
    assert_eq!(sim.run.status, Status::Paused);
    sim.resume();
    sim.answer("main", "approve");
    assert_eq!(sim.state("main"), "SHIP.md");
    sim.reply("main", "<ask next=\"REST\">And this?</ask>");
    assert_eq!(sim.question("main").0.to_string(), "main.2");
}

#[test]
fn nobody_there_fails_the_agent_and_other_settings_ask_after_all() {
    for (on_ask, said) in [(OnAsk::Fail, "`ask = fail`"), (OnAsk::Default, "has no default")] {
        let mut begin = started("START.md");
        begin.settings.on_ask = on_ask;
        let mut sim = Sim::with(begin, MemoryWorld::new([("START.md", "s")]));
        sim.reply("main", "<ask next=\"START\">Which one?</ask>");
        assert!(sim.questions.is_empty());
        assert_eq!(sim.run.status, Status::Failed);
        assert!(sim.error("main").contains(said), "{}", sim.error("main"));
        let (mut settings, limits) = (sim.run.settings.clone(), sim.run.limits.clone());
        settings.on_ask = OnAsk::Wait;
        sim.input(Input::Resume { settings, limits });
        sim.crash();
        assert!(sim.children.is_empty(), "the turn is not paid twice");
        sim.answer("main", "this one");
        assert_eq!(sim.child("main").session().id().as_str(), "s1");
    }
}

#[test]
fn evaluator_can_put_a_question_in_the_place_of_a_transition() {
    let start = "---\nevaluators:\n  - match: risky\n    then: { tag: ask, question: Risky. Go on?, choices: yes=NEXT|no=START, timeout: 1m, default: no }\n---\ns";
    let mut sim = Sim::new([("START.md", start), ("NEXT.md", "n")]);
    sim.reply("main", "That is risky. <goto>NEXT</goto>");
    assert_eq!(sim.question("main").1.default.as_deref(), Some("no"));
    sim.answer("main", "yes");
    assert_eq!(sim.state("main"), "NEXT.md");
}

#[test]
fn question_may_mention_its_own_tag() {
    let question = |text: &str| match parse(text).map(|tag| tag.value) {
        Ok(Tag { kind: TagKind::Ask, content, .. }) => content.value,
        other => panic!("{other:?}"),
    };
    assert_eq!(question("<ask next=\"A\">What does <ask> mean?</ask>"), "What does <ask> mean?");
    assert_eq!(question("I end with <ask>.\n<ask next=\"A\"> Why? </ask>"), "Why?");
    assert_eq!(
        question("<ask>Say <goto>X</goto> or <result>y</result>?</ask>"),
        "Say <goto>X</goto> or <result>y</result>?"
    );
    let long = "x".repeat(usize::try_from(QUESTION_BYTES_MAX).unwrap() + 1);
    let error = parse(&format!("<ask next=\"A\">{long}</ask>")).unwrap_err().to_string();
    assert!(error.contains("the payload of <ask> has 65537 bytes"), "{error}");
    let several = parse("<result>a</result> <ask next=\"A\">b</ask>").unwrap_err().to_string();
    assert!(several.contains("2 transition tags"), "{several}");
}

#[test]
fn transition_is_written_as_the_tag_that_asks_for_it() {
    let mut world = MemoryWorld::new([("START.sh", "s"), ("NEXT.md", "n")]);
    world.attachments.insert("/project/plan.md".to_owned());
    let mut sim = Sim::with(started("START.sh"), world);
    let tag = "<ask choices=\"yes=NEXT.md|no=START.sh\" attach=\"plan.md\">Go?</ask>";
    sim.prints("main", tag);
    let question = sim.question("main").1.clone();
    assert_eq!(Transition::Ask(Box::new(question)).to_string(), tag);
}

/// Asked by a script with everything that a question can have, and answered with everything that an answer can have.
#[test]
fn questions_and_answers_are_kept_in_journal_and_state_file() {
    let mut world = MemoryWorld::new([("START.sh", "s"), ("NEXT.md", "n"), ("END.md", "e")]);
    world.attachments.insert("/project/plan.md".to_owned());
    world.now_ms = 1_700_000_000_000;
    let mut begin = started("START.sh");
    begin.settings.on_ask = OnAsk::Pause;
    begin.limits.max_iterations = Some(1);
    let mut sim = Sim::with(begin, world);
    let tag = "<ask next=\"NEXT\" choices=\"approve=END|revise\" attach=\"plan.md\" timeout=\"1h\" default=\"revise\">Right?</ask>";
    sim.prints("main", tag);
    check_state("asking", &sim.run);
    let id = sim.question("main").0;
    let mut answer = response("approve");
    answer.comment = "fine".to_owned();
    answer.files = Some("/state/asks/main.1/files".to_owned());
    answer.attachments = vec![raymond_flow::machine::Attachment {
        path: "plan.md".to_owned(),
        bytes: 4,
        sha256: "e7f6c011776e8db7cd330b54174fd76f7d0216b612387a5ffcfb81e6f0919683".to_owned(),
    }];
    sim.questions.clear();
    sim.input(Input::Answered { id, response: Box::new(answer) });
    sim.resume_with(Limits { max_iterations: None, ..sim.run.limits.clone() });
    sim.input(Input::Halt(Halt::Asks));
    check_journal("asks", &sim.journal);
}

#[test]
fn default_is_due_at_the_deadline_or_at_once_by_the_setting() {
    let mut sim = approval();
    sim.reply("main", "<ask>Is this right?</ask>");
    let (id, question) = sim.question("main");
    let deadline = question.deadline_ms.unwrap();
    assert_eq!(sim.run.default_answer(&id, deadline - 1), Due::Later(1));
    let due = |run: &Run, now_ms| match run.default_answer(&id, now_ms) {
        Due::Now(response) => (response.result, response.by, response.how, response.at_ms),
        other => panic!("{other:?}"),
    };
    let answer = |how: &str, at_ms| ("stop".to_owned(), RAYMOND.to_owned(), how.to_owned(), at_ms);
    assert_eq!(due(&sim.run, deadline), answer(TIMEOUT, deadline));
    let mut by_setting = sim.run.clone();
    by_setting.settings.on_ask = OnAsk::Default;
    assert_eq!(due(&by_setting, 5), answer(SETTING, 5));
    sim.answer("main", "approve");
    assert_eq!(sim.run.default_answer(&id, deadline), Due::Never, "it is answered");
}

#[test]
fn only_a_person_answers_a_question_without_deadline() {
    let mut sim = Sim::new([("START.sh", "s"), ("NEXT.sh", "n")]);
    sim.prints("main", "<ask next=\"NEXT\">Which table?</ask>");
    let (id, _) = sim.question("main");
    assert_eq!(sim.run.default_answer(&id, u64::MAX), Due::Never);
}

#[test]
fn idle_run_rests_only_if_it_must_not_wait_for_people() {
    for (on_ask, status) in [(OnAsk::Wait, Status::Running), (OnAsk::Pause, Status::Paused)] {
        let mut begin = started("PLAN.md");
        begin.settings.on_ask = on_ask;
        let mut sim = Sim::with(begin, MemoryWorld::new(FILES));
        sim.input(Input::Idle);
        assert_eq!(sim.run.status, Status::Running, "main has a turn");
        sim.reply("main", "<ask>Is this right?</ask>");
        assert_eq!(sim.run.status, Status::Running, "an answer may be there already");
        sim.input(Input::Idle);
        assert_eq!(sim.run.status, status);
    }
}
