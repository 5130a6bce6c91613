//! The workflows that come with the program do what their own tests say, on this platform.

use std::fs;

use crate::env::Project;

/// The scripts of `worktrees` need the bash that git brings along, which Wine does not have.
const NEEDS_GIT: &str = "worktrees";

#[test]
fn tests_of_the_examples_pass() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let project = Project::new([]);
    let mut count = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if cfg!(windows) && path.ends_with(NEEDS_GIT) {
            continue;
        }
        if path.is_dir() || path.extension().is_some_and(|extension| extension == "yaml") {
            let ran = project.raymond(&["test", path.to_str().unwrap()]);
            assert_eq!(ran.code, 0, "{}:\n{}{}", path.display(), ran.stdout, ran.stderr);
            count += 1;
        }
    }
    assert!(count >= 11, "only {count} examples");
}

#[test]
fn new_workflows_come_with_a_test_that_passes() {
    let project = Project::new([]);
    for template in
        ["linear", "review", "approval", "fan-out", "map-review", "worktrees", "retry", "polling"]
    {
        assert_eq!(project.raymond(&["new", template, "--template", template]).code, 0);
        assert_eq!(project.raymond(&["lint", template]).code, 0, "{template}");
        if cfg!(windows) && template == NEEDS_GIT {
            continue;
        }
        let ran = project.raymond(&["test", template]);
        assert_eq!(ran.code, 0, "{template}:\n{}{}", ran.stdout, ran.stderr);
    }
}

/// A template that is also an example is the same workflow: the author finds the same files.
#[cfg(unix)]
#[test]
fn new_workflow_has_every_file_of_its_template_and_of_the_example_of_that_name() {
    let project = Project::new([]);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    for template in ["approval", "fan-out", "map-review", "worktrees", "retry"] {
        project.raymond(&["new", template, "--template", template]);
        for folder in
            [format!("crates/raymond/templates/{template}"), format!("examples/{template}")]
        {
            let new = project.file(template);
            let other = format!("{root}/{folder}");
            let mut diff = std::process::Command::new("diff");
            let compared = diff.arg("-r").arg(new).arg(other).output().unwrap();
            assert!(compared.status.success(), "{}", String::from_utf8_lossy(&compared.stdout));
        }
    }
}

#[test]
fn test_of_the_demo_passes() {
    let demo = concat!(env!("CARGO_MANIFEST_DIR"), "/demo");
    let project = Project::new([]);
    let ran = project.raymond(&["test", demo]);
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    let ran = project.raymond(&["lint", demo]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
}
