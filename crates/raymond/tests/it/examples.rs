//! The workflows that come with the program do what their own tests say, on this platform.

use std::{fs, path::Path};

use crate::env::Project;

/// The scripts of some need the bash that git brings along, which Wine does not have.
fn needs_bash(workflow: &Path) -> bool {
    workflow.is_dir()
        && fs::read_dir(workflow).unwrap().any(|entry| {
            let path = entry.unwrap().path();
            is_batch(&path) && fs::read_to_string(path).unwrap().contains("!bash")
        })
}

fn is_batch(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "bat")
}

#[test]
fn tests_of_the_examples_pass() {
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let project = Project::new([]);
    let mut count = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let path = entry.unwrap().path();
        if cfg!(windows) && needs_bash(&path) {
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
        if cfg!(windows) && needs_bash(&project.file(template)) {
            continue;
        }
        let ran = project.raymond(&["test", template]);
        assert_eq!(ran.code, 0, "{template}:\n{}{}", ran.stdout, ran.stderr);
    }
}

/// Each is in the list, those that are ready for work with a picture that shows every state.
#[test]
fn list_of_the_examples_names_each_and_its_pictures_show_every_state() {
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"));
    let list = fs::read_to_string(examples.join("README.md")).unwrap();
    let mut pictures = 0;
    for entry in fs::read_dir(examples).unwrap() {
        let workflow = entry.unwrap().path();
        let name = workflow.file_name().unwrap().to_str().unwrap().to_owned();
        let link = format!("../docs/pictures/examples/{name}.svg");
        let has_picture = list.contains(&link);
        assert!(
            name == "README.md" || has_picture || list.contains(&format!("]({name})")),
            "{name}"
        );
        if !has_picture {
            continue;
        }
        pictures += 1;
        let picture = fs::read_to_string(examples.join(link)).unwrap();
        for entry in fs::read_dir(workflow).unwrap() {
            let path = entry.unwrap().path();
            let state = path.file_name().unwrap().to_str().unwrap();
            let is_shown = path.is_dir() || is_batch(&path) || picture.contains(state);
            assert!(is_shown, "{name}: {state} is not in the picture: run scripts/pictures");
        }
    }
    assert_eq!(pictures, 12);
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
