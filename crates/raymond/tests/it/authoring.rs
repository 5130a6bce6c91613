//! The commands for authors of workflows, on the real program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::env::{Project, Ran};

fn examples() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut found: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    let is_yaml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "yaml");
    found.retain(|path| path.is_dir() || is_yaml(path));
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
fn lint_level_hides_findings_below_it() {
    let next = "---\nallowed_transitions:\n  - { tag: goto, target: LAST }\n---\nx";
    let project =
        Project::new([("START.md", next), ("LAST.md", "<result>x</result> <goto>LAST</goto>")]);
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
    assert!(first["path"].as_str().unwrap().ends_with("START.sh"));
    assert_eq!((first["line"].as_u64(), first["column"].as_u64()), (Some(1), Some(13)));
}

#[test]
fn lint_of_a_directory_of_workflows_reports_about_each() {
    let project = Project::new([("one/START.sh", "echo '<goto>GONE</goto>'")]);
    project.write("flow/two/START.sh", "echo '<goto>AWAY</goto>'");
    let ran = project.raymond(&["lint", "flow", "--format", "github"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let files: Vec<_> =
        ran.stdout.lines().filter_map(|line| line.split(['=', ',']).nth(1)).collect();
    assert_eq!(files.len(), 2, "{ran:?}");
    assert!(
        files[0].ends_with("flow/one/START.sh") && files[1].ends_with("flow/two/START.sh"),
        "{files:?}"
    );
}

#[test]
fn lint_denies_warnings_and_rules_and_allows_others() {
    let start = "Say {{x}} <result>x</result> or <goto>START</goto>";
    let project = Project::new([("START.md", start)]);
    let lint = |options: &[&str]| {
        let ran = project.raymond(&[&["lint", "flow"], options].concat());
        (ran.code, ran.stderr)
    };
    let counted = |code, counts: &str| (code, format!("{counts}, 0 notes\n"));
    let allow = |rule| ["--deny", "warnings", "--allow", rule];
    assert_eq!(lint(&[]), counted(0, "0 errors, 2 warnings"));
    assert_eq!(lint(&["--deny", "warnings"]), counted(1, "2 errors, 0 warnings"));
    assert_eq!(lint(&["--deny", "no-policy"]), counted(1, "1 error, 1 warning"));
    assert_eq!(lint(&allow("no-policy")), counted(1, "1 error, 0 warnings"));
    let both = [&allow("no-policy")[..], &["--allow", "unknown-variable"]].concat();
    assert_eq!(lint(&both), counted(0, "0 errors, 0 warnings"));
    project
        .raymond(&["lint", "flow", "--allow", "nopolicy"])
        .failed(2, "did you mean `no-policy`?");
}

#[test]
fn lint_explains_a_rule_and_suggests_one_for_a_slip() {
    let project = Project::new([]);
    let ran = project.raymond(&["lint", "--explain", "dead-end"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.stdout.starts_with("`dead-end` (error): "), "{}", ran.stdout);
    project.raymond(&["lint", "--explain", "deadend"]).failed(2, "did you mean `dead-end`?");
}

#[test]
fn diagram_is_mermaid_by_default() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    assert!(project.raymond(&["diagram", "flow"]).stdout.starts_with("flowchart TD\n"));
    let dot = project.raymond(&["diagram", "flow", "--format", "dot"]);
    assert!(dot.stdout.starts_with("digraph \"flow\" {"), "{dot:?}");
    let page = project.raymond(&["diagram", "flow", "--html"]);
    assert!(page.stdout.starts_with("<!doctype html>"), "{page:?}");
}

#[test]
fn diagram_of_a_run_counts_the_visits_of_each_state() {
    let again =
        "test -e twice && echo '<goto>LAST</goto>' || { touch twice; echo '<goto>START</goto>'; }";
    let project = Project::new([
        ("START.sh", again),
        ("LAST.sh", "echo '<result>x</result>'"),
        ("NEVER.sh", "echo '<result>x</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "one"]).completed("x");
    // The run knows its workflow.
    let ran = project.raymond(&["diagram", "--run", "one"]);
    assert!(ran.stdout.contains("START.sh<br/>2×, "), "{ran:?}");
    assert!(ran.stdout.contains("LAST.sh<br/>1×, "), "{ran:?}");
    assert!(ran.stdout.contains("NEVER.sh\"]]:::script"), "{ran:?}");
    assert!(ran.stdout.contains("  class n0 visited\n  class n2 visited\n  linkStyle"), "{ran:?}");
}

#[test]
fn new_workflow_lints_clean_on_either_platform() {
    let project = Project::new([]);
    for template in
        ["linear", "review", "approval", "fan-out", "map-review", "worktrees", "retry", "polling"]
    {
        let made = project.raymond(&["new", template, "--template", template]);
        assert_eq!(made.code, 0, "{made:?}");
        assert!(made.stdout.starts_with(&format!("{template}/")), "{made:?}");
        for platform in ["unix", "windows"] {
            is_clean(&project.raymond(&["lint", template, "--platform", platform]), template);
        }
    }
}

#[test]
fn new_does_not_overwrite_an_existing_directory() {
    let project = Project::new([("START.md", "mine")]);
    project.raymond(&["new", "flow"]).failed(2, "flow already exists");
    assert_eq!(project.read("flow/START.md"), "mine");
}

#[test]
fn pack_makes_an_archive_that_can_be_started_and_is_always_the_same() {
    let project = Project::new([
        ("START.sh", "echo \"<goto>LAST</goto>\""),
        ("LAST.sh", "echo \"<result>$(cat \"$RAYMOND_STATE_DIR/words.txt\")</result>\""),
        ("words.txt", "from the archive"),
        (".hidden", "x"),
    ]);
    let packed = project.raymond(&["pack", "flow"]);
    assert_eq!((packed.code, packed.stdout.as_str()), (0, "flow.zip\n"), "{packed:?}");
    project.raymond(&["flow.zip"]).completed("from the archive");
    is_clean(&project.raymond(&["lint", "flow.zip"]), "the archive");
    // Neither the time nor the mode of a file, nor the order on the disk, changes a byte.
    let copy = project.file("flow/words.txt");
    fs::remove_file(&copy).unwrap();
    project.write("flow/words.txt", "from the archive");
    let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    fs::File::options().append(true).open(&copy).unwrap().set_modified(old).unwrap();
    project.raymond(&["pack", "flow", "-o", "again.zip"]);
    assert_eq!(
        fs::read(project.file("flow.zip")).unwrap(),
        fs::read(project.file("again.zip")).unwrap()
    );
}

#[test]
fn pack_rejects_a_path_that_is_not_a_directory() {
    let project = Project::new([("START.md", "x")]);
    project.raymond(&["pack", "flow/START.md"]).failed(2, "is not a directory");
}

#[test]
fn packed_workflow_has_its_tests_and_they_can_be_run() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    fs::create_dir(project.file("flow/tests")).unwrap();
    project.write("flow/tests/main.yaml", "expect: { result: x }\n");
    assert_eq!(project.raymond(&["pack", "flow", "-o", "elsewhere.zip"]).code, 0);
    fs::remove_dir_all(project.file("flow")).unwrap();
    let ran = project.raymond(&["test", "elsewhere.zip"]);
    assert_eq!((ran.code, ran.stdout.contains("ok     main")), (0, true), "{ran:?}");
    project.raymond(&["test", "elsewhere.zip", "--update"]).failed(2, "unpack it");
    project.raymond(&["elsewhere.zip"]).completed("x");
}

#[test]
fn state_directory_is_ignored_by_git_except_for_its_settings() {
    let project = Project::new([("START.sh", "echo '<result>x</result>'")]);
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        let ran = command.args(arguments).current_dir(project.path());
        String::from_utf8(ran.output().unwrap().stdout).unwrap()
    };
    fs::remove_dir_all(project.file(".raymond")).unwrap();
    git(&["init", "-q"]);
    project.raymond(&["flow"]).completed("x");
    let status = || git(&["status", "--short", "-uall", "--", ".raymond", "flow"]);
    assert_eq!(status(), "?? flow/START.sh\n");
    assert_eq!(project.raymond(&["init"]).code, 0);
    assert_eq!(status(), "?? .raymond/config.toml\n?? flow/START.sh\n");
    // Another folder may be the user's: nothing is written to it.
    fs::create_dir(project.file("mine")).unwrap();
    project.raymond(&["flow", "--data-dir", "mine"]).completed("x");
    assert!(!project.file("mine/.gitignore").exists());
    project.raymond(&["flow", "--data-dir", "new"]).completed("x");
    assert!(project.file("new/.gitignore").exists());
}
