#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use super::*;

fn folders(steps: &Path) -> Vec<String> {
    let names = fs::read_dir(steps).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn step(steps: &Path, name: &str) -> PathBuf {
    let path = steps.join(name);
    fs::create_dir(&path).unwrap();
    let end = r#"{"how":{"code":0},"duration_ms":1,"stdout_bytes":0}"#;
    fs::write(path.join("exit"), format!("{{\"reaper\":1}}\n{end}\n")).unwrap();
    path
}

#[test]
fn steps_are_removed_only_when_their_end_is_durable() {
    let steps = tempfile::tempdir().unwrap();
    let mut retention = Retention::new(2);
    for number in 1..=5 {
        retention.ended(step(steps.path(), &format!("main.{number}")));
    }
    assert_eq!(folders(steps.path()).len(), 5);
    retention.durable();
    retention.ended(step(steps.path(), "main.6"));
    drop(retention);
    assert_eq!(folders(steps.path()), ["main.4", "main.5", "main.6"]);
}

#[test]
fn step_that_never_ran_stays_because_its_directory_forbids_it() {
    let steps = tempfile::tempdir().unwrap();
    let id = StepId { agent: AgentId::main(), number: 1 };
    let forbidden = StepFolder::new(steps.path(), &id);
    assert!(forbidden.forbid().unwrap());
    let mut retention = Retention::new(1);
    retention.ended(forbidden.path().to_owned());
    retention.ended(step(steps.path(), "main.2"));
    retention.ended(step(steps.path(), "main.3"));
    retention.durable();
    drop(retention);
    assert_eq!(folders(steps.path()), ["main.1", "main.3"]);
}

#[test]
fn limit_of_zero_keeps_everything() {
    let steps = tempfile::tempdir().unwrap();
    let mut retention = Retention::new(0);
    retention.ended(step(steps.path(), "main.1"));
    retention.durable();
    drop(retention);
    assert_eq!(folders(steps.path()), ["main.1"]);
}

/// A turn's directory: it has a prompt.
fn turn(steps: &Path, name: &str) {
    let path = step(steps, name);
    fs::write(path.join("prompt"), "").unwrap();
}

#[test]
fn resumed_run_removes_what_its_predecessor_left_and_nothing_that_is_needed() {
    let mut run = Run::new(&crate::testing::started("/flow"));
    let main = run.agents.get_mut(&AgentId::main()).unwrap();
    main.steps = 5;
    let root = tempfile::tempdir().unwrap();
    let steps = root.path();
    for name in ["main.1", "main.2", "main.4", "main.5"] {
        step(steps, name);
    }
    turn(steps, "main.3");
    // Steps that the run does not know of: their records may have been lost with the journal's end.
    for name in ["main.6", "main_work1.1", "main_work1.2", "main", "main.x", "other"] {
        step(steps, name);
    }
    let mut retention = Retention::new(2);
    retention.find(steps, &run);
    assert_eq!(folders(steps).len(), 11, "nothing is removed before all is durable");
    retention.durable();
    drop(retention);
    let left = folders(steps);
    for name in ["main.3", "main.6", "main_work1.1", "main_work1.2", "main", "main.x", "other"] {
        assert!(left.contains(&name.to_owned()), "{name} is gone");
    }
    assert_eq!(left.len(), 7 + 2, "two scripts keep their files: {left:?}");
}

#[test]
fn step_in_flight_keeps_its_files() {
    use std::collections::BTreeMap;

    use raymond_flow::machine::{Action, Input, decide};
    let mut run = Run::new(&crate::testing::started("/flow"));
    let prepared = Ok(raymond_flow::machine::Prepared::Start {
        step: Box::new(crate::testing::script_step()),
        launch: raymond_flow::machine::Launch::Script { environment: BTreeMap::new() },
    });
    let input = Input::Prepared { agent: AgentId::main(), prepared };
    for record in decide(&run, input).records {
        raymond_flow::machine::apply(&mut run, &record).unwrap();
    }
    let in_flight = run.agents[&AgentId::main()].phase.step().unwrap();
    assert!(matches!(in_flight.action, Action::Script { .. }));
    let root = tempfile::tempdir().unwrap();
    step(root.path(), "main.1");
    let mut retention = Retention::new(1);
    retention.find(root.path(), &run);
    assert!(retention.ended.is_empty());
}

#[test]
fn run_that_keeps_everything_looks_for_nothing() {
    let mut run = Run::new(&crate::testing::started("/flow"));
    run.agents.get_mut(&AgentId::main()).unwrap().steps = 5;
    let root = tempfile::tempdir().unwrap();
    step(root.path(), "main.1");
    let mut retention = Retention::new(0);
    retention.find(root.path(), &run);
    assert!(retention.ended.is_empty());
}
