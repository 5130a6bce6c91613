//! Sessions and the coding agents that own them: who names them, who can resume and branch them.

use std::collections::BTreeMap;

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    id::{SessionId, StateName},
    machine::{FailureClass, Input, SessionPlan, Started, Status, TurnFailure},
    turn::Outcome,
    world::MemoryWorld,
};

use crate::sim::{Sim, session, started};

/// It names its sessions and can do everything else, too.
const NAMING: Capabilities = Capabilities { names_sessions: true, ..Capabilities::FULL };

/// A run whose coding agents are `claude`, which is the default, and `codex`, which can do `codex`.
fn sim<'a>(codex: Capabilities, files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Sim {
    let files: Vec<_> = files.into_iter().collect();
    let entry = files[0].0;
    let mut world = MemoryWorld::new(files);
    let named = [("claude".to_owned(), Capabilities::FULL), ("codex".to_owned(), codex)];
    world.coding_agents = CodingAgents::new(Capabilities::FULL, BTreeMap::from(named));
    let mut started: Started = started(entry);
    started.settings.agent = Some("claude".to_owned());
    Sim::with(started, world)
}

const CODEX: &str = "---\nagent: codex\n---\nx";

fn answers(sim: &mut Sim, text: &str, session: &str) {
    sim.end_in("main", Outcome::Reply { text: text.to_owned() }, 0.0, Some(session));
}

fn fails(sim: &mut Sim, session: Option<&str>) {
    let class = FailureClass::Transient { retry_after_ms: None };
    let failure = TurnFailure { class, message: "busy".to_owned() };
    sim.end_in("main", Outcome::Failed(failure), 0.0, session);
    sim.wake("main");
}

#[test]
fn session_that_the_coding_agent_named_is_resumed_and_branched_by_that_name() {
    let files = [("START.md", CODEX), ("A.md", CODEX), ("B.md", CODEX)];
    let mut sim = sim(NAMING, files);
    answers(&mut sim, "<goto>A</goto>", "thread-1");
    assert_eq!(*sim.child("main").session(), SessionPlan::Resume { id: session("thread-1") });
    answers(&mut sim, "<call return=\"A\">B</call>", "thread-1");
    let SessionPlan::Branch { from, .. } = sim.child("main").session() else { panic!() };
    assert_eq!(*from, session("thread-1"));
    answers(&mut sim, "<goto>B</goto>", "thread-2");
    assert_eq!(*sim.child("main").session(), SessionPlan::Resume { id: session("thread-2") });
    answers(&mut sim, "<result>x</result>", "thread-2");
    assert_eq!(*sim.child("main").session(), SessionPlan::Resume { id: session("thread-1") });
    sim.crash();
    assert_eq!(*sim.child("main").session(), SessionPlan::Resume { id: session("thread-1") });
}

#[test]
fn answer_in_another_session_than_the_one_to_be_resumed_is_a_missing_session() {
    let mut sim = sim(NAMING, [("START.md", CODEX), ("A.md", CODEX)]);
    answers(&mut sim, "<goto>A</goto>", "thread-1");
    answers(&mut sim, "<result>forgot everything</result>", "thread-9");
    let error =
        "session `thread-1` was not resumed: the coding agent answered in session `thread-9`";
    assert_eq!(sim.error("main"), error);
    sim.resume();
    assert!(matches!(sim.child("main").session(), SessionPlan::Fresh { .. }));
    assert_eq!(sim.state("main"), "A.md");
}

#[test]
fn branch_that_is_the_callers_session_is_refused() {
    let mut sim = sim(NAMING, [("START.md", CODEX), ("A.md", CODEX)]);
    answers(&mut sim, "<call return=\"START\">A</call>", "thread-1");
    answers(&mut sim, "<result>x</result>", "thread-1");
    assert!(sim.error("main").contains("session `thread-1` was not branched"));
}

#[test]
fn coding_agent_that_names_sessions_must_report_them() {
    let mut sim = sim(NAMING, [("START.md", CODEX)]);
    sim.reply("main", "<result>x</result>");
    assert!(sim.error("main").contains("did not report the id"), "{}", sim.error("main"));
}

#[test]
fn turn_that_failed_is_continued_only_in_a_session_that_is_known() {
    let mut sim = sim(NAMING, [("START.md", CODEX)]);
    fails(&mut sim, None);
    assert!(!sim.child("main").turn().recovers);
    assert!(matches!(sim.child("main").session(), SessionPlan::Fresh { .. }));
    fails(&mut sim, Some("thread-1"));
    assert!(sim.child("main").turn().recovers);
    assert_eq!(*sim.child("main").session(), SessionPlan::Resume { id: session("thread-1") });
}

#[test]
fn prompt_is_given_again_if_a_turn_cannot_be_continued() {
    let forgetful = Capabilities { can_continue: false, ..Capabilities::FULL };
    let mut sim = sim(forgetful, [("START.md", CODEX), ("A.md", CODEX)]);
    let first = sim.child("main").session().id().clone();
    fails(&mut sim, Some(first.as_str()));
    assert!(!sim.child("main").turn().recovers);
    assert_ne!(*sim.child("main").session().id(), first);
    let second = sim.child("main").session().id().clone();
    sim.reply("main", "<goto>A</goto>");
    fails(&mut sim, None);
    assert_eq!(*sim.child("main").session(), SessionPlan::Resume { id: second });
    assert!(!sim.child("main").turn().recovers);
}

#[test]
fn goto_into_a_state_of_another_coding_agent_is_refused_before_it_is_paid_for() {
    let files = [("START.md", "s"), ("A.md", CODEX), ("S.sh", "x")];
    for tag in ["<goto>A</goto>", "<call return=\"START\">A</call>", "<goto>S</goto>"] {
        let mut sim = sim(Capabilities::FULL, files);
        sim.reply("main", tag);
        if tag.contains('S') && tag.starts_with("<goto") {
            // The session stays the same through a script.
            sim.prints("main", "<goto>A</goto>");
        }
        let error = sim.error("main");
        assert!(error.contains("the session belongs to the coding agent `claude`"), "{error}");
        assert!(error.contains("<reset>, <function> or <fork>"), "{error}");
    }
}

#[test]
fn state_of_another_coding_agent_is_entered_in_a_fresh_session_and_left_again() {
    let files = [("START.md", "s"), ("A.md", CODEX), ("B.md", "b")];
    for tag in ["<reset>A</reset>", "<function return=\"B\">A</function>"] {
        let mut sim = sim(Capabilities::FULL, files);
        let first = sim.child("main").session().id().clone();
        sim.reply("main", tag);
        assert_eq!(sim.child("main").turn().settings.agent.as_deref(), Some("codex"));
        if tag.starts_with("<function") {
            sim.reply("main", "<result>x</result>");
            assert_eq!(*sim.child("main").session(), SessionPlan::Resume { id: first });
            assert_eq!(sim.child("main").turn().settings.agent.as_deref(), Some("claude"));
        }
    }
    let mut sim = sim(Capabilities::FULL, files);
    sim.reply("main", "<fork next=\"B\">A</fork>");
    assert_eq!(sim.state("main_a1"), "A.md");
}

#[test]
fn state_whose_coding_agent_was_changed_while_it_failed_starts_afresh() {
    let mut sim = sim(Capabilities::FULL, [("START.md", "s")]);
    let failure =
        TurnFailure { class: FailureClass::NotInstalled, message: "no claude".to_owned() };
    sim.end("main", Outcome::Failed(failure), 0.0);
    assert_eq!(sim.run.status, Status::Failed);
    sim.world.files.insert("START.md".to_owned(), "---\nagent: codex\n---\ns".into());
    sim.resume();
    assert!(!sim.child("main").turn().recovers);
    assert!(matches!(sim.child("main").session(), SessionPlan::Fresh { .. }));
}

#[test]
fn branch_of_a_session_that_cannot_be_branched_is_refused_before_it_is_paid_for() {
    let linear = Capabilities { can_branch: false, ..Capabilities::FULL };
    let mut sim = sim(linear, [("START.md", CODEX), ("A.md", CODEX)]);
    sim.reply("main", "<call return=\"START\">A</call>");
    let error = sim.error("main");
    assert_eq!(
        error,
        "`codex` cannot branch a session, which <call> needs; <function> starts a fresh one"
    );
}

#[test]
fn budget_is_refused_with_a_coding_agent_whose_cost_is_unknown() {
    let free = Capabilities { reports_cost: false, ..Capabilities::FULL };
    let mut sim = sim(free, [("START.md", CODEX)]);
    assert!(sim.error("main").contains("does not report what its turns cost"));
    let limits = raymond_flow::machine::Limits { budget_usd: None, ..sim.run.limits.clone() };
    sim.resume_with(limits);
    assert_eq!(sim.state("main"), "START.md");
}

#[test]
fn evaluator_of_an_unknown_coding_agent_fails_the_state_before_it_is_paid_for() {
    let start = "---\nevaluators: [{ prompt: JUDGE.md }]\n---\nx";
    let judge = "---\nagent: oracle\n---\nj";
    let sim = sim(Capabilities::FULL, [("START.md", start), ("JUDGE.md", judge)]);
    assert_eq!(
        sim.error("main"),
        "evaluator `JUDGE.md`: there is no coding agent `oracle`; known: claude, codex"
    );
}

#[test]
fn run_of_an_earlier_version_whose_session_has_no_owner_continues() {
    let mut sim = sim(Capabilities::FULL, [("START.md", "s"), ("A.md", CODEX)]);
    sim.holds_prepare = true;
    sim.reply("main", "<goto>A</goto>");
    let main = sim.run.agents.values_mut().next().unwrap();
    assert_eq!(main.session_agent.as_deref(), Some("claude"));
    main.session_agent = None;
    let prepared = raymond_flow::turn::prepare(
        &sim.run,
        &raymond_flow::id::AgentId::main(),
        &sim.world,
        SessionId::new("new"),
    );
    assert!(matches!(prepared.input, Input::Prepared { prepared: Ok(_), .. }));
    assert_eq!(sim.main().current_state, StateName::new("A.md"));
}

#[test]
fn reported_id_that_could_be_a_path_or_an_option_is_refused() {
    for id in ["", "-x", "../x", "a/b", ".a", "a b", "ä", &"x".repeat(201)] {
        assert!(SessionId::reported(id).is_err(), "{id}");
    }
    for id in ["01a1e084-8065-7fc3-b0cd-a773aa89505c", "ses_e1f661", "20261115_2", "a.b"] {
        assert_eq!(SessionId::reported(id).unwrap(), session(id));
    }
}
