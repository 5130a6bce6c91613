//! `raymond cluster` finds its program, and the hidden commands by which that program uses this one.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    process::Stdio,
};

use serde_json::{Value, json};

use crate::env::{Project, Ran};

#[test]
fn cluster_without_its_program_says_where_to_put_it() {
    let project = Project::new([("START.sh", "")]);
    let ran = project.command(&["cluster", "list"]).env("PATH", project.path()).output().unwrap();
    Ran::of(&ran)
        .failed(2, "`raymond-cluster` is not installed")
        .failed(2, "cargo install --path crates/cluster");
}

#[test]
fn help_about_the_cluster_needs_no_program() {
    let project = Project::new([("START.sh", "")]);
    for option in ["--help", "-h"] {
        let mut command = project.command(&["cluster", option]);
        let ran = Ran::of(&command.env("PATH", project.path()).output().unwrap());
        assert!(ran.code == 0 && ran.stdout.contains("cluster"), "{ran:?}");
        assert!(!ran.stderr.contains("not installed"), "{ran:?}");
    }
}

#[test]
fn cluster_passes_its_words_and_the_path_of_this_program_on_and_returns_the_exit_code() {
    let project = Project::new([("START.sh", "")]);
    project
        .write("raymond-cluster", "#!/bin/sh\necho \"$@\"; test -x \"$RAYMOND_PROGRAM\"; exit 7\n");
    let program = project.file("raymond-cluster");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", project.path().display(), std::env::var("PATH").unwrap());
    let words = ["cluster", "start", "flow", "--budget", "3", "--help"];
    let ran = project.command(&words).env("PATH", path).output().unwrap();
    assert_eq!(ran.status.code(), Some(7), "{ran:?}");
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "start flow --budget 3 --help\n");
}

#[test]
fn step_of_a_planned_run_is_carried_out_by_its_host() {
    let script = "echo \"<result>$RAYMOND_INPUT in $PWD</result>\"";
    let project = Project::new([("START.sh", script)]);
    let plan =
        project.raymond(&["__plan", "--bundle", "b.zip", "flow", "--id", "r", "--input", "x"]);
    let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
    let started = &plan["started"];
    assert_eq!((&started["workflow_id"], &started["entry"]), (&json!("r"), &json!("START.sh")));
    assert!(plan["coding_agents"]["named"]["claude"]["can_branch"].as_bool().unwrap(), "{plan}");
    let mut host = project.command(&["__host", "r", "an-identity", "b.zip", "--data-dir", "there"]);
    let mut host = host.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut reports = BufReader::new(host.stdout.take().unwrap()).lines();
    let mut report = || serde_json::from_str::<Value>(&reports.next().unwrap().unwrap()).unwrap();
    assert_eq!(report(), json!("open"));
    let step = json!({"number": 1, "state": "START.sh", "attempt": 1, "action": {"script": {"timeout": 600}}});
    let run = json!({
        "workflow_id": "r", "scope_dir": "flow", "status": "running", "started_at_ms": 1, "metadata": {},
        "agents": [{
            "id": "main", "current_state": "START.sh", "session_id": null, "stack": [], "input": "x",
            "cwd": project.path(), "fork_attributes": {}, "visits": {"START.sh": 1}, "born": 0, "steps": 1,
            "cost_usd": 0.0, "tries": {"starts": 1, "reminders": 0, "retries": 0, "losses": 0}, "phase": {"running": {"work": "enter", "step": step}},
        }],
        "total_cost_usd": 0.0, "budget_usd": null, "iteration_count": 1, "max_iterations": null,
        "settings": {"on_usage_limit": "wait"}, "max_parallel": 1, "max_reminders": 1, "max_retries": 1,
        "retry_for_ms": 1, "max_attempts": 1, "fork_counters": {}, "agents_born": 1, "next_ticket": 0,
        "identity": "an-identity",
    });
    let id = json!({"agent": "main", "number": 1});
    let order = json!({"start": {"id": id, "run": run, "patience": {"secs": 60, "nanos": 0}}});
    let mut orders = host.stdin.take().unwrap();
    writeln!(orders, "nonsense").unwrap();
    writeln!(orders, "{order}").unwrap();
    let trouble = report();
    assert!(trouble["trouble"].as_str().unwrap().contains("cannot be read"), "{trouble}");
    let ended = report();
    assert_eq!(ended["ended"]["id"], id);
    let transition = &ended["ended"]["inputs"][0]["ended"]["conclusion"]["follow"]["transition"];
    let result = format!("x in {}", project.path().display());
    assert_eq!(transition["result"]["payload"], json!(result), "{ended}");
    drop(orders);
    assert!(host.wait().unwrap().success());
    project.wait_until_quiet();
}

#[test]
fn workflow_in_a_yaml_file_is_planned_as_the_archive_of_its_directory() {
    let project = Project::new([("START.sh", "echo '<function return=\"END\">sub/</function>'")]);
    project.write("flow/END.sh", "echo '<result>x</result>'");
    fs::create_dir(project.file("flow/sub")).unwrap();
    project.write("flow/sub/START.sh", "echo '<result>sub</result>'");
    assert_eq!(project.raymond(&["pack", "flow", "--yaml"]).code, 0);
    assert_eq!(project.raymond(&["pack", "flow"]).code, 0);
    let packed = fs::read(project.file("flow.zip")).unwrap();
    for workflow in ["flow", "flow.zip", "flow.yaml"] {
        let plan = project.raymond(&["__plan", "--bundle", "b.zip", workflow, "--id", "r"]);
        let plan: Value = serde_json::from_str(&plan.stdout).unwrap();
        assert_eq!(plan["started"]["entry"], json!("START.sh"));
        assert_eq!(fs::read(project.file("b.zip")).unwrap(), packed, "{workflow}");
    }
}
