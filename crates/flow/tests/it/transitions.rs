//! The six tags: what each does to session and return stack.

use std::collections::BTreeMap;

use raymond_flow::{
    id::StateName,
    machine::{Frame, Record, Session, SessionPlan, Status},
    payload::Payload,
    policy::Transition,
};

use crate::sim::{Sim, agent, session, usd};

const FILES: [(&str, &str); 7] = [
    ("START.md", "start"),
    ("A.md", "a"),
    ("B.md", "b with {{result}}"),
    ("C.md", "c"),
    ("D.md", "d"),
    ("S.sh", "script"),
    ("T.sh", "script"),
];

fn sim() -> Sim {
    Sim::new(FILES)
}

fn resume(name: &str) -> SessionPlan {
    SessionPlan::Resume { id: session(name) }
}

fn fresh(name: &str) -> SessionPlan {
    SessionPlan::Fresh { id: session(name) }
}

fn branch(from: &str, name: &str) -> SessionPlan {
    SessionPlan::Branch { from: session(from), id: session(name), cwd: None }
}

fn frame(open: &str, state: &str) -> Frame {
    Frame {
        session: Session::Open(session(open)),
        session_agent: None,
        state: StateName::new(state),
        cwd: None,
        model: None,
        arguments: BTreeMap::new(),
        visits: BTreeMap::new(),
        workers_since: 0,
    }
}

/// The return stack of `main`, without how often its states were visited.
fn stack(sim: &Sim) -> Vec<Frame> {
    let stack = sim.main().stack.iter().cloned();
    stack.map(|frame| Frame { visits: BTreeMap::new(), ..frame }).collect()
}

#[test]
fn first_invocation_is_an_implicit_fresh_start() {
    let sim = sim();
    assert_eq!(sim.state("main"), "START.md");
    assert_eq!(sim.child("main").session(), &fresh("s1"));
    assert_eq!(sim.child("main").cwd, "/project");
}

#[test]
fn goto_resumes_the_current_session() {
    let mut sim = sim();
    sim.reply("main", "<goto>A.md</goto>");
    assert_eq!(sim.state("main"), "A.md");
    assert_eq!(sim.child("main").session(), &resume("s1"));
}

#[test]
fn goto_keeps_the_return_stack() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    sim.reply("main", "<goto>C.md</goto>");
    assert_eq!(stack(&sim), [frame("s1", "B.md")]);
}

#[test]
fn reset_starts_a_fresh_session_for_this_and_later_states() {
    let mut sim = sim();
    sim.reply("main", "<reset>A.md</reset>");
    assert_eq!(sim.child("main").session(), &fresh("s2"));
    sim.reply("main", "<goto>C.md</goto>");
    assert_eq!(sim.child("main").session(), &resume("s2"));
}

#[test]
fn reset_discards_pending_returns_and_the_record_says_how_many() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    sim.reply("main", "<reset>C.md</reset>");
    assert_eq!(stack(&sim), []);
    let discarded = sim.journal.iter().rev().find_map(|record| match record {
        Record::Followed { discarded_returns, .. } => Some(*discarded_returns),
        _ => None,
    });
    assert_eq!(discarded, Some(2));
}

#[test]
fn reset_changes_the_working_directory_of_the_agent_itself() {
    let mut sim = sim();
    sim.world.directories.insert("/project/sub".to_owned());
    sim.reply("main", "<reset cd=\"sub\">A.md</reset>");
    assert_eq!(sim.child("main").cwd, "/project/sub");
    sim.reply("main", "<goto>C.md</goto>");
    assert_eq!(sim.child("main").cwd, "/project/sub");
}

#[test]
fn subtask_works_in_its_own_directory_and_its_caller_returns_to_the_old_one() {
    for kind in ["call", "function"] {
        let mut sim = sim();
        sim.world.directories.extend(["/project/sub".to_owned(), "/project/sub/deep".to_owned()]);
        sim.reply("main", &format!("<{kind} return=\"B.md\" cd=\"sub\">A.md</{kind}>"));
        assert_eq!(sim.child("main").cwd, "/project/sub", "{kind}");
        // A subtask of the subtask without a directory stays there, one with a directory starts from there.
        sim.reply("main", "<function return=\"C.md\">A.md</function>");
        assert_eq!(sim.child("main").cwd, "/project/sub");
        sim.reply("main", "<result>x</result>");
        sim.reply("main", "<call return=\"C.md\" cd=\"deep\">A.md</call>");
        assert_eq!(sim.child("main").cwd, "/project/sub/deep");
        sim.reply("main", "<result>x</result>");
        assert_eq!(sim.child("main").cwd, "/project/sub");
        sim.reply("main", "<result>x</result>");
        assert_eq!((sim.state("main"), &*sim.child("main").cwd), ("B.md", "/project"));
    }
}

#[test]
fn branch_knows_the_directory_of_the_session_that_it_starts_from() {
    let mut sim = sim();
    sim.world.directories.extend(["/project/sub".to_owned(), "/project/sub/deep".to_owned()]);
    sim.reply("main", "<call return=\"B.md\" cd=\"sub\">S.sh</call>");
    // The callee has no session of its own yet.
    sim.prints("main", "<call return=\"C.md\" cd=\"deep\">A.md</call>");
    let cwd = Some("/project".to_owned());
    let expected = SessionPlan::Branch { from: session("s1"), id: session("s3"), cwd };
    assert_eq!(sim.child("main").session(), &expected);
}

#[test]
fn reset_in_a_subtask_stays_in_its_directory() {
    let mut sim = sim();
    sim.world.directories.insert("/project/sub".to_owned());
    sim.reply("main", "<function return=\"B.md\" cd=\"sub\">A.md</function>");
    sim.reply("main", "<reset>C.md</reset>");
    assert_eq!(sim.child("main").cwd, "/project/sub");
}

#[test]
fn call_branches_the_callers_session_and_pushes_a_frame() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    assert_eq!(sim.state("main"), "A.md");
    assert_eq!(sim.child("main").session(), &branch("s1", "s2"));
    assert_eq!(stack(&sim), [frame("s1", "B.md")]);
}

#[test]
fn call_followed_by_gotos_and_a_result_returns_to_the_caller() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    sim.reply("main", "<goto>C.md</goto>");
    assert_eq!(sim.child("main").session(), &resume("s2"));
    sim.reply("main", "<goto>D.md</goto>");
    sim.reply("main", "<result>found it</result>");
    assert_eq!(sim.state("main"), "B.md");
    assert_eq!(sim.child("main").session(), &resume("s1"));
    assert_eq!(sim.child("main").prompt(), "b with found it");
    assert_eq!(stack(&sim), []);
}

#[test]
fn function_runs_in_a_fresh_session_and_returns_to_the_callers() {
    let mut sim = sim();
    sim.reply("main", "<function return=\"B.md\">A.md</function>");
    assert_eq!(sim.child("main").session(), &fresh("s2"));
    assert_eq!(stack(&sim), [frame("s1", "B.md")]);
    sim.reply("main", "<result>42</result>");
    assert_eq!(sim.child("main").session(), &resume("s1"));
    assert_eq!(sim.child("main").prompt(), "b with 42");
}

#[test]
fn calls_nest_and_results_return_in_reverse_order() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    sim.reply("main", "<function return=\"D.md\">C.md</function>");
    assert_eq!(stack(&sim), [frame("s1", "B.md"), frame("s2", "D.md")]);
    sim.reply("main", "<result>inner</result>");
    assert_eq!((sim.state("main"), sim.child("main").session()), ("D.md", &resume("s2")));
    sim.reply("main", "<result>outer</result>");
    assert_eq!((sim.state("main"), sim.child("main").session()), ("B.md", &resume("s1")));
}

#[test]
fn result_is_handed_to_the_return_state_only() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    sim.reply("main", "<result>once</result>");
    sim.reply("main", "<goto>B.md</goto>");
    assert_eq!(sim.child("main").prompt(), "b with {{result}}");
    assert_eq!(sim.unknown_variables, ["result"]);
}

#[test]
fn result_payload_is_passed_as_it_is() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    sim.reply("main", "done: <result> {{agent_id}}\n<goto>X</goto> </result>");
    assert_eq!(sim.child("main").prompt(), "b with  {{agent_id}}\n<goto>X</goto> ");
}

#[test]
fn result_with_an_empty_stack_ends_the_agent_and_the_last_one_ends_the_run() {
    let mut sim = sim();
    sim.reply_costing("main", "<result>all done</result>", 0.5);
    assert_eq!(sim.run.status, Status::Completed);
    assert_eq!(sim.run.result.as_ref().and_then(Payload::as_text), Some("all done"));
    assert!(sim.run.agents.is_empty());
    assert_eq!(sim.run.total_cost_usd, usd(0.5));
}

#[test]
fn fork_starts_a_worker_and_the_parent_continues_in_its_session() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B.md\">A.md</call>");
    sim.reply("main", "<fork next=\"C.md\" item=\"x\">D.md</fork>");
    assert_eq!(sim.names(), ["main", "main_d1"]);
    assert_eq!((sim.state("main"), sim.child("main").session()), ("C.md", &resume("s2")));
    assert_eq!(stack(&sim), [frame("s1", "B.md")]);
    let worker = sim.agent("main_d1");
    assert_eq!(sim.state("main_d1"), "D.md");
    assert_eq!(sim.child("main_d1").session(), &fresh("s4"));
    assert_eq!(worker.stack, []);
    assert_eq!(worker.fork_attributes["item"], "x");
}

#[test]
fn script_does_not_change_the_session() {
    let mut sim = sim();
    sim.reply("main", "<goto>S</goto>");
    assert_eq!(sim.state("main"), "S.sh");
    sim.prints("main", "<goto>A.md</goto>");
    assert_eq!(sim.child("main").session(), &resume("s1"));
}

#[test]
fn run_may_start_with_a_script() {
    let mut sim = Sim::new([("START.sh", ""), ("A.md", "a")]);
    sim.prints("main", "building…\n<goto>A</goto>\ndone");
    assert_eq!((sim.state("main"), sim.child("main").session()), ("A.md", &fresh("s2")));
}

#[test]
fn every_tag_works_from_a_script() {
    let tags = [
        ("<goto>A</goto>", "A.md", resume("s1")),
        ("<reset>A</reset>", "A.md", fresh("s3")),
        ("<call return=\"B\">A</call>", "A.md", branch("s1", "s3")),
        ("<function return=\"B\">A</function>", "A.md", fresh("s3")),
        ("<fork next=\"A\">C</fork>", "A.md", resume("s1")),
    ];
    for (tag, state, plan) in tags {
        let mut sim = sim();
        sim.reply("main", "<goto>S</goto>");
        sim.prints("main", tag);
        assert_eq!((sim.state("main"), sim.child("main").session()), (state, &plan), "{tag}");
    }
}

#[test]
fn result_of_a_script_returns_to_the_caller() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B\">S</call>");
    sim.prints("main", "<result>from a script</result>");
    assert_eq!(sim.child("main").prompt(), "b with from a script");
    assert_eq!(sim.child("main").session(), &resume("s1"));
}

#[test]
fn called_script_passes_the_branch_to_the_first_prompt_after_it() {
    let mut sim = sim();
    sim.reply("main", "<call return=\"B\">S</call>");
    sim.prints("main", "<goto>A</goto>");
    assert_eq!(sim.child("main").session(), &branch("s1", "s3"));
    sim.reply("main", "<result>ok</result>");
    assert_eq!(sim.child("main").session(), &resume("s1"));
}

#[test]
fn function_that_is_a_script_stays_without_the_callers_session() {
    let mut sim = sim();
    sim.reply("main", "<function return=\"B\">S</function>");
    sim.prints("main", "<goto>A</goto>");
    assert_eq!(sim.child("main").session(), &fresh("s3"));
}

#[test]
fn caller_without_a_session_is_returned_to_without_one() {
    let mut sim = Sim::new([("START.sh", ""), ("A.md", "a"), ("B.md", "b")]);
    sim.prints("main", "<call return=\"B\">A</call>");
    assert_eq!(sim.child("main").session(), &fresh("s2"));
    sim.reply("main", "<result>x</result>");
    assert_eq!(sim.child("main").session(), &fresh("s3"));
}

#[test]
fn returned_value_reaches_a_script_as_a_variable() {
    let mut sim = sim();
    sim.reply("main", "<function return=\"T.sh\">A.md</function>");
    sim.reply("main", "<result>value</result>");
    let environment = sim.child("main").environment();
    assert_eq!(environment["RAYMOND_RESULT"], "value");
    assert_eq!(environment["RAYMOND_WORKFLOW_ID"], "test-00000001");
    assert_eq!(environment["RAYMOND_AGENT_ID"], "main");
}

#[test]
fn transition_is_recorded_with_the_agent_and_what_it_asked_for() {
    let mut sim = sim();
    sim.reply("main", "<goto>A</goto>");
    let expected = Transition::Goto { target: StateName::new("A.md"), input: None };
    assert!(sim.journal.iter().any(|record| matches!(
        record,
        Record::Followed { agent: id, transition, .. } if *id == agent("main") && *transition == expected
    )));
}

#[test]
fn outcome_that_comes_twice_changes_nothing() {
    use raymond_flow::{
        machine::Spent,
        turn::{Outcome, conclude},
    };
    let mut sim = sim();
    let step = sim.step("main");
    let outcome = Outcome::Reply { text: "<goto>A</goto>".to_owned() };
    let input = conclude(&sim.run, &step, outcome, Spent::default(), &sim.world);
    sim.children.clear();
    sim.input(input.clone());
    let (run, length) = (sim.run.clone(), sim.journal.len());
    sim.input(input);
    assert_eq!((&sim.run, sim.journal.len()), (&run, length));
}
