//! Special files: FIFOs, devices, links that lead elsewhere, and files above the limits.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use crate::env::{Project, Ran};

const MIB: usize = 1024 * 1024;
const RESULT: &str = "echo '<result>x</result>'";

fn fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}

/// Runs `raymond`, which must exit on its own. If it hangs on a FIFO, kills it and fails.
fn ends(project: &Project, arguments: &[&str]) -> Ran {
    let program = project.command(arguments);
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60"]).arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(project.path()).stdin(Stdio::null());
    Ran::of(&command.output().unwrap())
}

/// Every command that reads a workflow rejects it with this message.
#[track_caller]
fn is_refused(project: &Project, workflow: &str, words: &str) {
    for command in ["start", "lint", "diagram", "pack"] {
        // Only directories can be packed.
        if command == "pack" && !project.file(workflow).is_dir() {
            continue;
        }
        let ran = ends(project, &[command, workflow]);
        assert!(matches!(ran.code, 1 | 2), "{command}: {ran:?}");
        assert!(ran.stderr.contains(words), "{command}: {}", ran.stderr);
    }
}

#[test]
fn fifo_as_a_state_is_refused() {
    let project = Project::new([]);
    fifo(&project.file("flow/START.md"));
    is_refused(&project, "flow", "`START.md` is a FIFO, not a regular file");
    is_refused(&project, "flow/START.md", "`START.md` is a FIFO, not a regular file");
}

#[test]
fn fifo_that_a_tag_leads_to_is_refused() {
    let project = Project::new([("START.sh", "echo '<goto>NEXT</goto>'")]);
    fifo(&project.file("flow/NEXT.sh"));
    ends(&project, &["flow"]).failed(1, "`NEXT.sh` is a FIFO, not a regular file");
}

#[test]
fn fifo_as_an_archive_is_refused() {
    let project = Project::new([]);
    fifo(&project.file("flow.zip"));
    is_refused(&project, "flow.zip", "`flow.zip` is a FIFO, not a regular file");
}

#[test]
fn fifo_or_link_as_settings_is_refused() {
    let project = Project::new([("START.sh", RESULT)]);
    let settings = project.file(".raymond/config.toml");
    fifo(&settings);
    ends(&project, &["flow"]).failed(1, "`config.toml` is a FIFO, not a regular file");
    fs::remove_file(&settings).unwrap();
    symlink("/dev/zero", &settings).unwrap();
    ends(&project, &["config"]).failed(1, "`config.toml` is a link, not a regular file");
    fs::remove_file(&settings).unwrap();
    fs::write(&settings, "#".repeat(MIB + 1)).unwrap();
    ends(&project, &["config"]).failed(1, "`config.toml` exceeds the limit of 1048576 bytes");
}

#[test]
fn case_outside_the_workflow_or_not_a_regular_file_is_refused() {
    let project = Project::new([("START.sh", RESULT)]);
    fs::create_dir(project.file("flow/tests")).unwrap();
    let case = project.file("flow/tests/a.yaml");
    fifo(&case);
    let ran = ends(&project, &["test", "flow"]);
    assert!(ran.stdout.contains("`a.yaml` is a FIFO, not a regular file"), "{ran:?}");
    fs::remove_file(&case).unwrap();
    project.write("elsewhere.yaml", "expect: { result: x }\n");
    symlink(project.file("elsewhere.yaml"), &case).unwrap();
    let ran = ends(&project, &["test", "flow"]);
    assert!(ran.stdout.contains("`a.yaml` is a link that leads out of"), "{ran:?}");
    fs::rename(project.file("elsewhere.yaml"), project.file("flow/tests/b.txt")).unwrap();
    fs::remove_file(&case).unwrap();
    symlink("b.txt", &case).unwrap();
    assert_eq!(ends(&project, &["test", "flow"]).code, 0);
    // A state file is neither read from such a file nor written to it.
    project.write("flow/tests/b.txt", "expect: { result: x, snapshot: true }\n");
    let snapshot = project.file("flow/tests/a.snapshot");
    fifo(&snapshot);
    let ran = ends(&project, &["test", "flow"]);
    assert!(ran.stdout.contains("`a.snapshot` is a FIFO, not a regular file"), "{ran:?}");
    fs::remove_file(&snapshot).unwrap();
    project.write("precious", "mine");
    symlink(project.file("precious"), &snapshot).unwrap();
    let ran = ends(&project, &["test", "flow", "--update"]);
    assert!(ran.stdout.contains("`a.snapshot` is a link that leads out of"), "{ran:?}");
    assert_eq!(project.read("precious"), "mine");
}

#[test]
fn link_that_leads_out_of_the_workflow_is_refused() {
    let project = Project::new([]);
    project.write("secret.sh", RESULT);
    symlink(project.file("secret.sh"), project.file("flow/START.sh")).unwrap();
    is_refused(&project, "flow", "`START.sh` is a link that leads out of");
    fs::remove_file(project.file("flow/START.sh")).unwrap();
    symlink("/dev/zero", project.file("flow/START.sh")).unwrap();
    is_refused(&project, "flow", "`START.sh` is a link that leads out of");
}

#[test]
fn link_to_data_outside_is_not_packed() {
    let project = Project::new([("START.sh", RESULT)]);
    project.write("secret.txt", "secret");
    symlink(project.file("secret.txt"), project.file("flow/data.txt")).unwrap();
    ends(&project, &["pack", "flow"]).failed(2, "`data.txt` is a link that leads out of");
    assert!(!project.file("flow.zip").exists());
}

#[test]
fn link_within_the_workflow_works() {
    let project = Project::new([("FIRST.sh", "echo '<goto>NEXT</goto>'"), ("ready.sh", RESULT)]);
    symlink("FIRST.sh", project.file("flow/START.sh")).unwrap();
    fs::create_dir(project.file("flow/.more")).unwrap();
    project.write("flow/.more/NEXT.sh", RESULT);
    symlink(".more/NEXT.sh", project.file("flow/NEXT.sh")).unwrap();
    // A directory behind a link is a directory.
    symlink(".more", project.file("flow/.less")).unwrap();
    ends(&project, &["flow"]).completed("x");
    for command in ["lint", "diagram", "pack"] {
        let ran = ends(&project, &[command, "flow"]);
        assert_eq!(ran.code, 0, "{command}: {ran:?}");
    }
    ends(&project, &["flow.zip"]).completed("x");
    // The workflow itself may be reached through a link to its directory.
    symlink(project.file("flow"), project.file("way")).unwrap();
    ends(&project, &["way"]).completed("x");
    symlink(project.file("flow/START.sh"), project.file("state.sh")).unwrap();
    ends(&project, &["state.sh"]).completed("x");
    assert_eq!(ends(&project, &["lint", "state.sh"]).code, 0);
}

#[test]
fn state_that_is_larger_than_any_prompt_is_refused() {
    let project = Project::new([]);
    fs::write(project.file("flow/START.md"), "x".repeat(4 * MIB + 1)).unwrap();
    is_refused(&project, "flow", "`START.md` exceeds the limit of 4194304 bytes");
}

#[test]
fn endless_input_is_refused() {
    let project = Project::new([("START.sh", RESULT)]);
    let mut command = project.command(&["flow", "--input", "-"]);
    command.stdin(fs::File::open("/dev/zero").unwrap());
    Ran::of(&command.output().unwrap()).failed(2, "standard input has more than 8388608 bytes");
}

#[test]
fn fifo_in_the_place_of_a_steps_output_does_not_hang() {
    // The step counts as lost, and is started again.
    let replace = "[ -e once ] && exec echo '<result>x</result>'; touch once
        cd .raymond/workflows/r/steps/main.1 && rm stdout && mkfifo stdout";
    let project = Project::new([("START.sh", replace)]);
    let ran = ends(&project, &["start", "flow", "--id", "r", "--debug"]);
    assert!(ran.stderr.contains("its outcome was lost"), "{}", ran.stderr);
    ran.completed("x");
}
