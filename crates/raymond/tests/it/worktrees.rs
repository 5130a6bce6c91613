//! Worktrees of workers, with the real program and real git.

use std::{path::Path, process::Command};

use serde_json::Value;

use crate::env::Project;

/// Runs git in a directory of the project and returns what it prints.
#[track_caller]
pub(crate) fn git_in(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

/// A project whose files are committed.
pub(crate) fn repository<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Project {
    let project = Project::new(files);
    project.write(".gitignore", ".raymond\n.config\n.state\nlog\n");
    project.write("a.txt", "one\n");
    git_in(project.path(), &["init", "--quiet", "--initial-branch=main"]);
    for (key, value) in [("user.name", "t"), ("user.email", "t@localhost")] {
        git_in(project.path(), &["config", key, value]);
    }
    git_in(project.path(), &["add", "--all"]);
    git_in(project.path(), &["commit", "--quiet", "-m", "first"]);
    project
}

/// Two workers that change the same file, and one that fails. Their parent hands on what the join gave it.
const FORKS: [(&str, &str); 4] = [
    (
        "START.sh",
        "for n in 1 2 3; do echo \"<fork next='WAIT' worktree='true' n='$n'>WORK</fork>\"; done",
    ),
    (
        "WORK.sh",
        "echo $n > a.txt; echo $n > new$n; [ $n != 3 ] || exit 1; echo \"<result>$PWD</result>\"",
    ),
    ("WAIT.sh", "echo '<join failed=\"pass\">END</join>'"),
    ("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\""),
];

#[test]
fn every_worker_has_a_worktree_and_its_work_is_on_a_branch_when_it_is_joined() {
    let project = repository(FORKS);
    let ran = project.raymond(&["flow", "--id", "r"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let joined: Value = serde_json::from_str(ran.stdout.trim()).unwrap();
    for (index, worker) in joined.as_array().unwrap().iter().enumerate() {
        let n = index + 1;
        assert_eq!(worker["branch"], format!("raymond/r/main_work{n}"));
        let path = worker["worktree"].as_str().unwrap();
        assert!(path.ends_with(&format!(".raymond/worktrees/r/main_work{n}")), "{path}");
        let branch = worker["branch"].as_str().unwrap();
        let changed = git_in(project.path(), &["diff", "--name-only", "main", branch]);
        assert_eq!(changed, format!("a.txt\nnew{n}"), "also that of the failed one");
        assert_eq!(worker["result"].is_null(), n == 3, "{worker}");
    }
    assert_eq!(project.read("a.txt"), "one\n");
    assert_eq!(git_in(project.path(), &["status", "--porcelain"]), "");
    let status = project.raymond(&["status", "r"]);
    assert!(status.stdout.contains("main_work2  raymond/r/main_work2"), "{}", status.stdout);
}

#[test]
fn fork_with_a_worktree_is_refused_before_anything_starts_where_there_is_no_clean_checkout() {
    let project = Project::new(FORKS);
    let ran = project.raymond(&["flow", "--id", "r"]);
    ran.failed(1, "is not in a git repository: make one (git init) and commit the files");
    let project = repository(FORKS);
    project.write("a.txt", "mine\n");
    let ran = project.raymond(&["flow", "--id", "r"]);
    ran.failed(1, "changes that are not committed, which the worker would not see: commit it");
    git_in(project.path(), &["checkout", "--quiet", "a.txt"]);
    let ran = project.raymond(&["resume", "r"]);
    assert_eq!(ran.code, 0, "{ran:?}");
}
