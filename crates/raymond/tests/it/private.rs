//! The files and sockets of a run are accessible only to its owner, regardless of the umask.

use std::{
    fs,
    io::{self, Read as _, Write as _},
    os::unix::{
        fs::{FileTypeExt as _, PermissionsExt as _},
        net::{UnixDatagram, UnixStream},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use serde_json::json;

use crate::env::{Project, WithAgent as _, as_nobody, wait_until};

const PATIENCE: Duration = Duration::from_mins(1);

/// A turn, and a script that waits for the file `go`.
fn project() -> Project {
    let project = Project::new([
        ("START.md", "go on"),
        (
            "WAIT.sh",
            "touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<result>done</result>'",
        ),
    ]);
    project.write(
        "agent.sh",
        "cat > /dev/null; echo '{\"result\": \"<goto>WAIT</goto>\", \"cost_usd\": 0.25}'",
    );
    project
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory and everything below it.
fn tree(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_owned()];
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
        found.extend(entries.flat_map(|entry| tree(&entry)));
    }
    found
}

#[test]
fn all_files_of_a_run_are_private_whatever_the_umask() {
    for umask in ["000", "002", "077"] {
        let project = project();
        fs::remove_dir(project.file(".raymond")).unwrap();
        let arguments =
            ["start", "flow", "--id", "r", "--debug", "--detach", "--no-lint", "--log-file", "log"];
        let mut command = project.command_with_umask(umask, &arguments);
        command.agent("bash agent.sh");
        assert!(command.status().unwrap().success());
        wait_until("the script began", PATIENCE, || project.file("began").exists());
        let found = tree(&project.file(".raymond"));
        for path in &found {
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode(path), expected, "{} with umask {umask}", path.display());
        }
        assert_eq!(mode(&project.file("log")), 0o600);
        let names = [
            "r.journal",
            "r.json",
            "r.lock",
            "r.log",
            "keeper.lock",
            "keeper.log",
            "keeper.sock",
            "steps.sock",
            "orchestrator.sock",
            "sessions",
            "prompt",
            "intent",
            "exit",
            "stdout",
            "stderr",
            "transitions.log",
        ];
        for name in names {
            assert!(found.iter().any(|path| path.ends_with(name)), "{name} in {found:?}");
        }
        project.write("go", "");
        project.wait_until_quiet();
        project.raymond(&["run", "r"]).completed("done");
    }
}

/// A run whose script waits, in a directory that other users may enter.
fn waiting() -> Project {
    let project = project();
    set_mode(project.path(), 0o755);
    set_mode(&project.file(".raymond"), 0o755);
    let arguments = ["start", "flow", "--id", "r", "--detach", "--no-lint"];
    let mut command = project.command_with_umask("000", &arguments);
    command.agent("bash agent.sh");
    assert!(command.status().unwrap().success());
    wait_until("the script began", PATIENCE, || project.file("began").exists());
    project
}

#[test]
fn another_user_can_neither_lock_nor_reach_anything_of_a_run() {
    let project = waiting();
    let (workflows, run) =
        (project.file(".raymond/workflows"), project.file(".raymond/workflows/r"));
    let refused = as_nobody(|| {
        let opened =
            [workflows.join("r.lock"), workflows.join("r.journal"), run.join("keeper.lock")];
        let mut errors: Vec<_> = opened.map(|path| fs::File::open(path).map(drop)).into();
        errors.extend(
            ["keeper.sock", "steps.sock"].map(|name| UnixStream::connect(run.join(name)).map(drop)),
        );
        let socket = UnixDatagram::unbound().unwrap();
        errors.push(socket.send_to(b"!cancel", run.join("orchestrator.sock")).map(drop));
        errors
    });
    for refused in refused.into_iter().flatten() {
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
    project.write("go", "");
    project.wait_until_quiet();
    project.raymond(&["run", "r"]).completed("done");
}

/// Sends a request to a socket of a run, and waits until the other end closes the connection.
fn ask(socket: &Path, words: &str) {
    let mut stream = UnixStream::connect(socket).unwrap();
    // A rejected client may find the connection already closed.
    let _ = stream.write_all(words.as_bytes());
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Even if the permissions of the directories, which are the first barrier, are opened.
#[test]
fn keeper_and_reapers_do_nothing_for_another_user() {
    let project = waiting();
    let (workflows, run) =
        (project.file(".raymond/workflows"), project.file(".raymond/workflows/r"));
    for path in tree(&run).into_iter().chain([workflows.clone()]) {
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        if kind.is_dir() || kind.is_socket() {
            set_mode(&path, 0o777);
        }
    }
    let launch = |name: &str| {
        let launch = json!({
            "claim": "", "folder": run.join("steps").join(name),
            "program": ["/usr/bin/env", "touch", project.file(name)], "environment": [],
            "without": [], "cwd": project.path(), "idle_seconds": 0, "kind": "script",
        });
        format!("{launch}\n")
    };
    let asked = as_nobody(|| {
        ask(&run.join("steps.sock"), &launch("foreign"));
        ask(&run.join("keeper.sock"), "\"shutdown\"\n");
    });
    // The same request from the owner works, so it was not rejected for its content.
    ask(&run.join("steps.sock"), &launch("own"));
    wait_until("the owner's step ran", PATIENCE, || project.file("own").exists());
    assert!(asked.is_none() || !project.file("foreign").exists());
    project.write("go", "");
    project.wait_until_quiet();
    for folder in tree(&workflows).into_iter().filter(|path| path.is_dir()) {
        set_mode(&folder, 0o700);
    }
    project.raymond(&["run", "r"]).completed("done");
}
