#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use raymond_flow::machine::Session;

use super::*;
use crate::testing::{step_id as id, turn, turn_step};

fn session(name: &str) -> SessionId {
    SessionId::new(name)
}

fn reuse(model: &str) -> Vec<String> {
    vec![model.to_owned()]
}

/// Calls `act` with the request for the next turn of `session` in `cwd`.
fn with_request<T>(
    plan: SessionPlan,
    cwd: &str,
    budget_usd: Option<Usd>,
    act: impl FnOnce(&TurnRequest<'_>) -> T,
) -> T {
    let turn = &Turn { budget_usd, ..turn(plan) };
    let step = turn_step(turn.clone());
    act(&TurnRequest {
        agent: &AgentId::main(),
        step: &step,
        turn,
        cwd: Path::new(cwd),
        prompt: "",
        continuation: "",
        earlier: &[],
        folder: None,
        state_dir: Path::new("/work/.raymond"),
        scope: Path::new("/nowhere"),
        follows_a_model: false,
    })
}

fn dollars(amount: f64) -> Option<Usd> {
    Usd::from_dollars(amount)
}

/// A process that led session `name` and waits, which was allowed to spend `budget` and has spent 1 dollar.
fn keep(warm: &mut Warm, number: ProcessNumber, name: &str, budget: Option<Usd>) {
    with_request(SessionPlan::Fresh { id: session(name) }, "/work", budget, |request| {
        warm.keep(number, &id(number), request, reuse("opus"));
    });
    warm.turn_ended(number, dollars(1.0).unwrap(), Some("1".to_owned()));
}

fn finds(warm: &Warm, name: &str, cwd: &str, model: &str, budget: Option<Usd>) -> bool {
    with_request(SessionPlan::Resume { id: session(name) }, cwd, budget, |request| {
        warm.find(request, &reuse(model)).is_some()
    })
}

#[test]
fn process_is_used_only_for_the_very_session_directory_and_model_that_it_was_started_for() {
    let mut warm = Warm::new(2);
    keep(&mut warm, 1, "s", None);
    assert!(finds(&warm, "s", "/work", "opus", None));
    assert!(!finds(&warm, "other", "/work", "opus", None));
    assert!(!finds(&warm, "s", "/elsewhere", "opus", None));
    assert!(!finds(&warm, "s", "/work", "haiku", None));
    let fresh = SessionPlan::Fresh { id: session("s") };
    let is_found =
        with_request(fresh, "/work", None, |request| warm.find(request, &reuse("opus")).is_some());
    assert!(!is_found, "a fresh session has no process");
}

#[test]
fn process_that_may_spend_more_than_the_share_or_much_less_is_not_used() {
    let mut warm = Warm::new(2);
    // It may spend 4 dollars more.
    keep(&mut warm, 1, "s", dollars(5.0));
    assert!(finds(&warm, "s", "/work", "opus", dollars(4.0)));
    assert!(finds(&warm, "s", "/work", "opus", dollars(8.0)));
    assert!(!finds(&warm, "s", "/work", "opus", dollars(3.9)));
    assert!(!finds(&warm, "s", "/work", "opus", dollars(8.1)));
    assert!(!finds(&warm, "s", "/work", "opus", None));
    keep(&mut warm, 2, "t", None);
    assert!(!finds(&warm, "t", "/work", "opus", dollars(100.0)), "it has no limit of its own");
}

#[test]
fn process_that_has_a_turn_is_not_given_another() {
    let mut warm = Warm::new(2);
    keep(&mut warm, 1, "s", None);
    warm.take(1);
    assert!(!finds(&warm, "s", "/work", "opus", None));
    warm.drop_sessions(&SessionPlan::Resume { id: session("s") });
    warm.drop_idle();
    assert!(warm.released().is_empty(), "nor is it let go");
    warm.drop_busy(1);
    assert_eq!(warm.released(), [1]);
}

#[test]
fn least_recently_used_process_is_let_go_when_there_are_too_many() {
    let mut warm = Warm::new(2);
    for (number, name) in [(1, "a"), (2, "b")] {
        keep(&mut warm, number, name, None);
    }
    // The first one is used again.
    warm.take(1);
    warm.turn_ended(1, Usd::ZERO, None);
    keep(&mut warm, 3, "c", None);
    assert_eq!(warm.released(), [2]);
    assert!(warm.released().is_empty(), "it is told once");
    assert!(finds(&warm, "a", "/work", "opus", None));
    assert!(!finds(&warm, "b", "/work", "opus", None));
}

#[test]
fn session_that_is_branched_or_resumed_elsewhere_loses_its_process() {
    let mut warm = Warm::new(9);
    for (number, name) in [(1, "from"), (2, "own"), (3, "other")] {
        keep(&mut warm, number, name, None);
    }
    warm.drop_sessions(&SessionPlan::Branch {
        from: session("from"),
        id: session("own"),
        cwd: None,
    });
    assert_eq!(warm.released(), [1, 2]);
}

#[test]
fn process_that_leaves_is_known_until_it_is_gone_so_that_what_it_spent_is_paid() {
    let mut warm = Warm::new(1);
    keep(&mut warm, 1, "s", None);
    warm.drop_idle();
    assert_eq!(warm.released(), [1]);
    let leaving = warm.gone(1).unwrap();
    assert_eq!((leaving.total.as_str(), leaving.first), ("1", id(1)));
    assert!(warm.gone(1).is_none(), "it is paid once");
    // One that is killed while it has a turn is paid by that turn.
    keep(&mut warm, 2, "s", None);
    warm.take(2);
    assert!(warm.gone(2).is_none());
}

#[test]
fn lock_files_are_those_of_the_own_session_and_of_the_one_that_it_branches_off() {
    let plan = SessionPlan::Branch { from: session("a"), id: session("b"), cwd: None };
    let files = lock_files(Path::new("/run"), &plan);
    assert_eq!(files.own, Path::new("/run/sessions/b.lock"));
    assert_eq!(files.source.as_deref(), Some(Path::new("/run/sessions/a.lock")));
    let files = lock_files(Path::new("/run"), &SessionPlan::Fresh { id: session("c") });
    assert_eq!(files.source, None);
}

#[test]
fn agent_that_ended_or_forgot_its_session_keeps_no_process() {
    let mut run = Run::new(&crate::testing::started("/flow"));
    let main = AgentId::main();
    let mut warm = Warm::new(9);
    keep(&mut warm, 1, "current", None);
    keep(&mut warm, 2, "forgotten", None);
    keep(&mut warm, 3, "caller", None);
    let agent = run.agents.get_mut(&main).unwrap();
    agent.session = Session::Open(session("current"));
    agent.stack.push(raymond_flow::machine::Frame {
        session: Session::Open(session("caller")),
        session_agent: None,
        state: raymond_flow::id::StateName::new("BACK.md"),
        cwd: None,
        model: None,
        arguments: std::collections::BTreeMap::new(),
        visits: std::collections::BTreeMap::new(),
        workers_since: 0,
    });
    warm.drop_forgotten(&run, &main);
    assert_eq!(warm.released(), [2]);
    run.agents.remove(&main);
    warm.drop_forgotten(&run, &AgentId::new("other"));
    assert!(warm.released().is_empty(), "another agent's are its own");
    warm.drop_forgotten(&run, &main);
    assert_eq!(warm.released(), [1, 3]);
}
