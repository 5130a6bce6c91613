//! Forks that are joined, arguments and visits, on the real program.

use crate::env::Project;

/// A worker that says which one it is, after it has logged that it ran.
const WORK: &str = "echo \"$part\" >> log; echo \"<result>$part is done</result>\"";

const MERGE: &str = "printf '%s' \"$RAYMOND_RESULT\" > got; echo '<result>merged</result>'";

fn handed(project: &Project) -> serde_json::Value {
    serde_json::from_str(&project.read("got")).unwrap()
}

#[test]
fn workers_that_a_script_forks_at_once_are_joined_in_their_order() {
    let project = Project::new([
        (
            "START.sh",
            "for n in 1 2 3 4 5; do echo \"<fork next=\\\"WAIT\\\" limit=\\\"2\\\" part=\\\"$n\\\">WORK</fork>\"; done",
        ),
        ("WAIT.sh", "echo '<join>MERGE</join>'"),
        ("WORK.sh", WORK),
        ("MERGE.sh", MERGE),
    ]);
    let ran = project.raymond(&["start", "flow", "--id", "r"]).completed("merged");
    let join = ran.stderr.lines().find(|line| line.contains("WAIT → MERGE  join, when"));
    assert!(join.is_some_and(|line| line.starts_with("· ")), "it is not done yet: {}", ran.stderr);
    let handed = handed(&project);
    let all = handed.as_array().unwrap();
    for (worker, number) in all.iter().zip(1..) {
        assert_eq!(worker["agent"], format!("main_work{number}"));
        assert_eq!(worker["attributes"]["part"], number.to_string());
        assert_eq!(worker["result"], format!("{number} is done"));
    }
    assert_eq!(all.len(), 5);
    assert_eq!(project.counts().len(), 5);
}

#[test]
fn failed_worker_is_repaired_and_completes_the_join_without_its_siblings() {
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"MORE\" part=\"a\">WORK</fork>'"),
        ("MORE.sh", "echo '<fork next=\"WAIT\" part=\"b\">FAIL</fork>'"),
        ("WAIT.sh", "echo '<join>MERGE</join>'"),
        ("WORK.sh", WORK),
        ("FAIL.sh", "exit 3"),
        ("MERGE.sh", MERGE),
    ]);
    let ran = project.raymond(&["start", "flow", "--id", "r"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let status = project.raymond(&["status", "r"]);
    assert!(status.stdout.contains("1 of 2 workers"), "{}", status.stdout);
    project.write("flow/FAIL.sh", WORK);
    project.raymond(&["resume", "r"]).completed("merged");
    assert_eq!(project.lines("log"), ["a", "b"]);
    assert_eq!(handed(&project)[1]["result"], "b is done");
}

#[test]
fn failed_worker_that_is_passed_does_not_fail_the_run_and_is_listed() {
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"WAIT\" part=\"a\">FAIL</fork>'"),
        ("WAIT.sh", "echo '<join failed=\"pass\">MERGE</join>'"),
        ("FAIL.sh", "exit 3"),
        ("MERGE.sh", MERGE),
    ]);
    project.raymond(&["start", "flow", "--id", "r"]).completed("merged");
    assert!(handed(&project)[0]["error"].as_str().unwrap().contains("exited with code 3"));
    let status = project.raymond(&["status", "r"]);
    assert!(status.stdout.contains("a join has handed this over"), "{}", status.stdout);
}

#[test]
fn scripts_see_inputs_arguments_visits_and_variables_of_the_run() {
    let project = Project::new([
        ("START.sh", "echo '<function return=\"NEXT\" file=\"a.rs\" input=\"in\">SUB</function>'"),
        (
            "SUB.sh",
            "echo \"$file $RAYMOND_INPUT $RAYMOND_VAR_name $RAYMOND_VISIT\" >> log; echo '<goto>MORE</goto>'",
        ),
        ("MORE.sh", "echo \"$file ${RAYMOND_INPUT-none}\" >> log; echo '<result>x</result>'"),
        (
            "NEXT.sh",
            "echo \"${file-none} $RAYMOND_VISIT\" >> log; \
             if [ \"$RAYMOND_VISIT\" = 2 ]; then echo '<result>x</result>'; else echo '<goto>NEXT</goto>'; fi",
        ),
    ]);
    let mut command = project.command(&["start", "flow", "--id", "r", "--var", "name=Ada"]);
    // Of a run around this one.
    command.env("RAYMOND_VAR_other", "x");
    assert!(command.status().unwrap().success());
    assert_eq!(project.lines("log"), ["a.rs in Ada 1", "a.rs none", "none 1", "none 2"]);
}
