//! The tools for those who write workflows, on the real program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::env::{Project, Ran};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    found.retain(|path| path.is_dir());
    found.sort();
    found
}

#[track_caller]
fn is_clean(ran: &Ran, what: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{what}: {ran:?}");
}

#[test]
fn lint_finds_nothing_in_the_examples_on_either_platform() {
    let project = Project::new([]);
    assert!(examples().len() > 10, "the examples are where this test looks for them");
    for example in examples() {
        let path = example.to_str().unwrap();
        for platform in ["unix", "windows"] {
            is_clean(&project.raymond(&["lint", path, "--platform", platform]), path);
        }
    }
}

#[test]
fn lint_shows_file_line_and_column_and_fails_on_errors() {
    let project = Project::new([("START.sh", "echo '<goto>GONE</goto>'")]);
    let ran = project.raymond(&["lint", "flow"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.stdout.contains("error[missing-target]: state `GONE` not found"), "{}", ran.stdout);
    assert!(ran.stdout.contains("--> flow/START.sh:1:13\n"), "{}", ran.stdout);
    assert!(ran.stdout.contains("            ^^^^\n"), "{}", ran.stdout);
    assert_eq!(ran.stderr, "1 error, 0 warnings, 0 notes\n");
}

#[test]
fn lint_shows_what_is_at_least_as_bad_as_asked_for() {
    let next = "---\nallowed_transitions:\n  - { tag: goto, target: LAST }\n---\nx";
    let project = Project::new([("START.md", next), ("LAST.md", "<result>x</result>")]);
    let shown = |level: &str| project.raymond(&["lint", "flow", "--level", level]);
    is_clean(&shown("error"), "a warning is no error");
    assert!(shown("warning").stdout.contains("warning[no-policy]"));
    assert!(!shown("warning").stdout.contains("note["));
    assert!(shown("note").stdout.contains("note[implicit-transition]"));
    assert_eq!(shown("note").code, 0, "only errors fail");
}

#[test]
fn lint_prints_json_that_programs_can_read() {
    let project = Project::new([("START.sh", "echo '<goto>GONE</goto>'")]);
    let ran = project.raymond(&["lint", "flow/START.sh", "--json"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
    let first = &found[0];
    assert_eq!(first["rule"], "missing-target");
    assert_eq!(first["severity"], "error");
    assert_eq!(first["file"], "START.sh");
    assert_eq!((first["line"].as_u64(), first["column"].as_u64()), (Some(1), Some(13)));
}

#[test]
fn lint_explains_a_rule_and_suggests_one_for_a_slip() {
    let project = Project::new([]);
    let ran = project.raymond(&["lint", "--explain", "dead-end"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("`dead-end` (error): "), "{}", ran.stdout);
    project.raymond(&["lint", "--explain", "deadend"]).failed(2, "did you mean `dead-end`?");
}
