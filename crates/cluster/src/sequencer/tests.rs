//! The sequencer without Temporal: what it wants, given what happened.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{collections::BTreeMap, sync::Arc};

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    id::{RunId, StateName},
    machine::{Action, Conclusion, Limits, Settings},
    policy::{Forked, Question, Source, Transition},
};

use raymond_flow::machine::OnAsk;

use super::*;
use crate::messages::StoredBundle;

fn started(on_ask: OnAsk) -> Started {
    Started {
        workflow_id: RunId::new("r").unwrap(),
        identity: "i".to_owned(),
        state_dir: String::new(),
        scope_dir: "/flow".to_owned(),
        entry: StateName::new("START.md"),
        cwd: "/project".to_owned(),
        started_at_ms: 1,
        input: None,
        metadata: BTreeMap::new(),
        settings: Settings { on_ask, ..Settings::default() },
        limits: Limits::default(),
    }
}

fn sequencer(files: &[(&str, &str)], on_ask: OnAsk) -> Sequencer {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    let world = BundleWorld::new(Arc::new(files.collect()), CodingAgents::only(Capabilities::FULL));
    Sequencer::begin(started(on_ask), world)
}

fn step(number: u32) -> StepId {
    StepId { agent: AgentId::main(), number }
}

fn wants(number: u32) -> Vec<Wanted> {
    vec![Wanted::Step { id: step(number), is_started: false }]
}

/// The step of `main` ended with this transition.
fn followed(number: u32, transition: Transition) -> Input {
    let conclusion =
        Conclusion::Follow { transition, source: Source::Tag, session: None, replaced: None };
    Input::Ended { step: step(number), spent: Spent::default(), conclusion }
}

fn goto(target: &str) -> Transition {
    Transition::Goto { target: StateName::new(target), input: None }
}

#[test]
fn replay_wants_the_same_and_names_the_same_sessions() {
    let session = || {
        let mut all = sequencer(&[("START.md", "x")], OnAsk::Wait);
        assert_eq!(all.work_off(5).unwrap(), wants(1));
        let (_, running) = all.run().running_step(&step(1)).unwrap();
        let Action::Turn(turn) = &running.action else { panic!() };
        turn.session.id().to_string()
    };
    let first = session();
    assert_eq!(session(), first);
    assert!(uuid::Uuid::parse_str(&first).is_ok(), "{first}");
}

#[test]
fn lost_step_is_wanted_again_under_another_id_until_its_attempts_are_used_up() {
    let mut all = sequencer(&[("START.md", "x")], OnAsk::Wait);
    let mut wanted = all.work_off(0).unwrap();
    for number in 1..=3 {
        assert_eq!(wanted, wants(number));
        // A retry without a delay is a wake at once.
        wanted = all.input(all.gone(&step(number), Outcome::Lost), 0).unwrap();
        if let [Wanted::Wake { agent, delay_ms: 0 }] = &wanted[..] {
            let agent = agent.clone();
            wanted = all.input(Input::Woke { agent }, 0).unwrap();
        }
    }
    assert_eq!((wanted, all.run().status), (Vec::new(), Status::Failed));
}

#[test]
fn whatever_asks_for_a_directory_is_prepared_by_a_worker() {
    let limited = "---\nmax_visits: 1\nthen: { tag: reset, target: B.md, cd: sub }\n---\nx";
    let mut all = sequencer(&[("START.md", limited), ("B.md", "b")], OnAsk::Wait);
    assert_eq!(all.work_off(0).unwrap(), wants(1));
    let wanted = all.input(followed(1, goto("START.md")), 0).unwrap();
    assert!(matches!(&wanted[..], [Wanted::Prepare { .. }]), "{wanted:?}");
}

fn asking(on_ask: OnAsk, now_ms: u64) -> (Sequencer, Vec<Wanted>) {
    let mut all = sequencer(&[("START.md", "x"), ("YES.sh", "y")], on_ask);
    all.work_off(0).unwrap();
    let question = Question {
        text: "Shall I?".to_owned(),
        next: Some(StateName::new("YES.sh")),
        choices: Vec::new(),
        attach: Vec::new(),
        timeout: None,
        default: Some("yes".to_owned()),
        deadline_ms: Some(1000),
        continues: None,
        grants: None,
    };
    let wanted = all.input(followed(1, Transition::Ask(Box::new(question))), now_ms).unwrap();
    (all, wanted)
}

#[test]
fn question_is_answered_by_its_default_at_its_deadline_or_by_the_setting() {
    let id = AskId { agent: AgentId::main(), number: 1 };
    let (mut all, wanted) = asking(OnAsk::Wait, 400);
    assert_eq!(wanted, [Wanted::Deadline { id: id.clone(), delay_ms: 600 }]);
    all.look_at_question(&id, 1000).unwrap();
    assert_eq!(all.work_off(1000).unwrap(), wants(2));
    let (_, wanted) = asking(OnAsk::Default, 400);
    assert_eq!(wanted, wants(2));
}

#[test]
fn run_that_only_waits_for_people_rests_if_the_setting_says_so() {
    let (all, _) = asking(OnAsk::Pause, 400);
    assert_eq!(all.run().status, Status::Paused);
}

fn repository() -> Repository {
    let text = str::to_owned;
    Repository { root: text("/project"), commit: text("c0"), bundle: text("b") }
}

/// A run whose agents have checkouts that move with them.
fn carrying(files: &[(&str, &str)]) -> Sequencer {
    let terms = Terms {
        bundle: "x".to_owned(),
        coding_agents: CodingAgents::only(Capabilities::FULL),
        heartbeat_ms: 1,
        steps_per_history: 1,
        repository: Some(repository()),
    };
    sequencer(files, OnAsk::Wait).carrying(StoredAgents::default(), &terms)
}

fn left(commit: &str) -> StoredCheckout {
    let bundles = vec![StoredBundle { hash: format!("b-{commit}"), commit: commit.to_owned() }];
    StoredCheckout {
        branch: "raymond/r/main".to_owned(),
        commit: commit.to_owned(),
        bundles,
        problem: None,
    }
}

fn fork(worktree: Option<WorktreePlan>) -> Transition {
    let worker = Forked {
        target: StateName::new("WORK.md"),
        cd: None,
        attributes: BTreeMap::new(),
        limit: None,
        worktree: worktree.map(Box::new),
        input: None,
    };
    Transition::Fork { next: StateName::new("START.md"), workers: vec![worker] }
}

#[test]
fn worker_starts_from_the_commit_of_its_parent_and_its_parent_has_its_branch() {
    let mut all = carrying(&[("START.md", "x"), ("WORK.md", "x")]);
    all.work_off(5).unwrap();
    let (main, worker) = (AgentId::main(), AgentId::new("main_work1"));
    assert_eq!(all.checkout(&main).unwrap().own.commit, "c0");
    all.keep(&step(1), None, Some(left("c1")));
    all.input(followed(1, fork(None)), 5).unwrap();
    all.keep(&step(2), None, Some(left("c2")));
    all.input(followed(2, goto("START.md")), 5).unwrap();
    let of_worker = all.checkout(&worker).unwrap();
    assert_eq!((&*of_worker.own.commit, &*of_worker.own.branch), ("c1", "raymond/r/main_work1"));
    assert_eq!(of_worker.own.bundles, left("c1").bundles);
    let of_main = all.checkout(&main).unwrap();
    assert_eq!((&*of_main.own.commit, &*of_main.workers), ("c2", &[of_worker.own][..]));
    assert_eq!(all.work().len(), 2);
}

#[test]
fn worktree_of_a_fork_is_the_checkout_that_the_worker_has_anyway() {
    let mut all = carrying(&[("START.md", "x"), ("WORK.md", "x")]);
    all.work_off(5).unwrap();
    let plan = WorktreePlan {
        name: Some("parser".to_owned()),
        repository: "/project".to_owned(),
        inside: "sub".to_owned(),
        commit: "c0".to_owned(),
    };
    all.keep(&step(1), None, Some(left("c1")));
    all.input(followed(1, fork(Some(plan))), 5).unwrap();
    let worker = AgentId::new("main_work1");
    let branch = "raymond/r/main_work1-parser";
    assert_eq!(all.checkout(&worker).unwrap().own.branch, branch);
    let made = &all.run().worktrees[&worker];
    let nowhere = "/project/.raymond/worktrees/r/main_work1-parser";
    assert_eq!((&*made.branch, &*made.path), (branch, nowhere), "no directory of the user");
    assert_eq!(all.run().agents[&worker].cwd, "/project/sub");
}

#[test]
fn what_a_step_could_not_save_reaches_the_run_and_is_not_forgotten_by_the_next_step() {
    let mut all = carrying(&[("START.md", "x"), ("WORK.md", "x")]);
    all.work_off(5).unwrap();
    let plan = WorktreePlan {
        name: None,
        repository: "/project".to_owned(),
        inside: String::new(),
        commit: "c0".to_owned(),
    };
    all.input(followed(1, fork(Some(plan))), 5).unwrap();
    let worker = AgentId::new("main_work1");
    let step = StepId { agent: worker.clone(), number: 1 };
    let problem = Some("`own` in it is a git repository of its own".to_owned());
    all.keep(&step, None, Some(StoredCheckout { problem: problem.clone(), ..left("c0") }));
    let transition = Transition::Result { payload: "w".into() };
    let conclusion =
        Conclusion::Follow { transition, source: Source::Tag, session: None, replaced: None };
    all.input(Input::Ended { step, spent: Spent::default(), conclusion }, 5).unwrap();
    assert_eq!(all.run().worktrees[&worker].problem, problem);
    assert_eq!(all.work().len(), 1, "`fetch` says it, too");
}

#[test]
fn sessions_follow_their_agent_until_it_forgets_them() {
    let mut all = sequencer(&[("START.md", "x"), ("NEXT.md", "x")], OnAsk::Wait);
    all.work_off(5).unwrap();
    let Some((_, running)) = all.run().running_step(&step(1)) else { panic!() };
    let Action::Turn(turn) = &running.action else { panic!() };
    let id = turn.session.id().clone();
    let session = StoredSession { id: id.clone(), files: "f1".to_owned() };
    all.keep(&step(1), Some(session), None);
    let conclusion = Conclusion::Follow {
        transition: goto("NEXT.md"),
        source: Source::Tag,
        session: Some(id.clone()),
        replaced: None,
    };
    let ended = Input::Ended { step: step(1), spent: Spent::default(), conclusion };
    all.input(ended, 5).unwrap();
    assert_eq!(all.stored_sessions(&step(2)), [(id.clone(), "f1".to_owned())].into());
    assert_eq!(all.stored().0[&AgentId::main()].sessions.len(), 1);
    all.keep(&step(2), None, None);
    assert!(all.stored_sessions(&step(2)).is_empty(), "the stored version is not the newest");
    let reset = Transition::Reset { target: StateName::new("START.md"), cd: None, input: None };
    all.input(followed(2, reset), 5).unwrap();
    assert!(all.stored_sessions(&step(3)).is_empty());
    assert!(all.stored().0.is_empty(), "it is forgotten");
}
