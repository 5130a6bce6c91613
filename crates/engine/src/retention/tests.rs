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
