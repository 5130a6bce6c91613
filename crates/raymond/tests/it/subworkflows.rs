//! Subworkflows in directories and in archives: run, killed and resumed, tested, packed.

use std::{fs, time::Duration};

use crate::env::{Project, kill, wait_until};

const START: &str =
    "echo \"main START\" >> log; echo '<function return=\"END\" PART=\"one\">review/</function>'";
const REVIEW: &str = "echo \"review START\" >> log; cat \"$RAYMOND_STATE_DIR/data.txt\" >> log; echo '<goto>CHECK</goto>'";
const CHECK: &str = "echo \"review CHECK\" >> log; echo \"<fork next='WAIT'>deep/</fork>\"";
const WAIT: &str = "echo '<join>LAST</join>'";
const LAST: &str = "echo \"<result>$PART: $RAYMOND_RESULT</result>\"";
const DEEP: &str = "echo \"deep START\" >> log; until [ -e go ]; do sleep 0.01; done; echo '<result>deep</result>'";
const END: &str = "echo \"<result>got $RAYMOND_RESULT</result>\"";

fn project() -> Project {
    let project = Project::new([("START.sh", START), ("END.sh", END)]);
    fs::create_dir_all(project.file("flow/review/deep")).unwrap();
    fs::create_dir_all(project.file("flow/review/tests")).unwrap();
    for (name, text) in [
        ("START.sh", REVIEW),
        ("CHECK.sh", CHECK),
        ("WAIT.sh", WAIT),
        ("LAST.sh", LAST),
        ("data.txt", "beside the states\n"),
        ("deep/START.sh", DEEP),
        (
            "tests/alone.yaml",
            "setup: touch go\nexpect:\n  result: ': [{\"agent\":\"main_deep1\",\"state\":\"deep/START.sh\",\"attributes\":{},\"result\":\"deep\"}]'\n  path: [START, CHECK, WAIT, LAST]\n",
        ),
    ] {
        project.write(&format!("flow/review/{name}"), text);
    }
    project
}

#[test]
fn subworkflow_is_resumed_after_a_kill_in_a_directory_an_archive_and_a_yaml_file() {
    for workflow in ["flow", "flow.zip", "flow.yaml"] {
        let project = project();
        assert_eq!(project.raymond(&["pack", "flow"]).code, 0);
        assert_eq!(project.raymond(&["pack", "flow", "--yaml"]).code, 0);
        let mut child = project.spawn(&["start", workflow, "--id", "r"]);
        let is_there = || project.lines("log").contains(&"deep START".to_owned());
        wait_until("the worker is in the inner folder", Duration::from_mins(1), is_there);
        kill(child.id(), libc::SIGKILL);
        child.wait().unwrap();
        let status = project.raymond(&["status", "r"]).stdout;
        assert!(status.contains("review/deep/START"), "{status}");
        project.write("go", "");
        let result = "got one: [{\"agent\":\"main_deep1\",\"state\":\"review/deep/START.sh\",\"attributes\":{},\"result\":\"deep\"}]";
        project.raymond(&["resume", "r"]).completed(result);
        let log = ["main START", "review START", "beside the states", "review CHECK", "deep START"];
        assert_eq!(project.lines("log"), log, "{workflow}: nothing runs twice");
        project.wait_until_quiet();
    }
}

#[test]
fn tests_of_a_subworkflow_run_with_those_of_the_workflow_and_alone() {
    let project = project();
    fs::create_dir(project.file("flow/tests")).unwrap();
    let case = "setup: touch go\nexpect:\n  path: [START, review/START, review/CHECK, review/WAIT, review/LAST.sh, END]\n  forked: [main_deep1]\n";
    project.write("flow/tests/whole.yaml", case);
    assert_eq!(project.raymond(&["pack", "flow"]).code, 0);
    for workflow in ["flow", "flow.zip"] {
        let ran = project.raymond(&["test", workflow]);
        assert_eq!(ran.code, 0, "{workflow}: {}{}", ran.stdout, ran.stderr);
        assert!(
            ran.stdout.contains("ok     whole") && ran.stdout.contains("ok     review/alone"),
            "{}",
            ran.stdout
        );
    }
    let ran = project.raymond(&["test", "flow/review"]);
    assert!(ran.stdout.contains("ok     alone"), "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn debug_files_of_a_subworkflow_are_named_without_its_slash() {
    let project = project();
    project.write("go", "");
    let ran = project.raymond(&["start", "flow", "--id", "r", "--debug"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let debug = project.file(".raymond/debug");
    let folder = fs::read_dir(debug).unwrap().next().unwrap().unwrap().path();
    assert!(folder.join("main_review_CHECK_003.stdout.txt").exists(), "{folder:?}");
}

#[test]
fn subworkflow_that_cannot_be_entered_says_why() {
    let project = Project::new([("START.sh", "echo \"<$TAG>$TARGET</${TAG%% *}>\"")]);
    fs::create_dir_all(project.file("flow/empty")).unwrap();
    fs::create_dir_all(project.file("other")).unwrap();
    project.write("other/START.sh", "echo '<result>out</result>'");
    std::os::unix::fs::symlink("../other", project.file("flow/link")).unwrap();
    let call = "call return='START'";
    for (tag, target, said) in [
        (call, "empty/", "`empty/` is not a subworkflow: no entry state"),
        (call, "gone/", "there is no subworkflow `gone/`"),
        (call, "link/", "there is no subworkflow `link/`"),
        (call, "../other/", "`../other/` in the content of <call> is a path"),
        (call, "/etc/", "`/etc/` in the content of <call> is a path"),
        ("goto", "empty/", "`empty/` in the content of <goto> leads into a subworkflow"),
    ] {
        let mut command = project.command(&["start", "flow"]);
        let output = command.env("TAG", tag).env("TARGET", target).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(said), "{said} is not in {stderr}");
    }
}
