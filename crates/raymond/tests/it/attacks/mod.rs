//! What a cloned repository or a model that may edit files can do: nothing that the user did not say.

mod clone;
mod model;
mod others;

use std::{fs, process::Command};

use crate::env::{Project, Ran, kill, wait_until};

const PATIENCE: std::time::Duration = std::time::Duration::from_mins(1);
/// A script that waits for a file `go`.
const WAITS: &str =
    "touch waits; until [ -e go ]; do sleep 0.01; done; echo '<result>fine</result>'";

/// `raymond` of a user who has trusted nothing.
fn command(project: &Project, arguments: &[&str]) -> Command {
    let mut command = project.command(arguments);
    command.env_remove("RAYMOND_TRUST");
    command
}

fn raymond(project: &Project, arguments: &[&str]) -> Ran {
    Ran::of(&command(project, arguments).output().unwrap())
}

/// A project that came with a run of somebody else, whose orchestrator seems to have died, and with a script.
fn cloned() -> Project {
    cloned_as("planted")
}

/// The same with this name of the run.
fn cloned_as(id: &str) -> Project {
    let theirs = Project::new([("START.sh", "touch obeyed; echo '<result>x</result>'")]);
    let mut child = {
        let flow = theirs.file("flow/START.sh");
        fs::write(&flow, WAITS).unwrap();
        theirs.spawn(&["flow", "--id", id])
    };
    wait_until("it runs", PATIENCE, || theirs.file("waits").exists());
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    theirs.raymond(&["stop", id, "--now"]);
    let own = Project::new([("START.sh", "touch obeyed; echo '<result>x</result>'")]);
    fs::create_dir_all(own.file(".raymond/workflows")).unwrap();
    let journal = format!(".raymond/workflows/{id}.journal");
    let text = theirs.read(&journal);
    let here = own.path().to_string_lossy();
    let there = theirs.path().to_string_lossy();
    own.write(&journal, &resigned(&text.replace(&*there, &here)));
    theirs.raymond(&["cancel", id, "--yes"]);
    own
}

/// The lines of a journal with right checksums, as anybody can compute them.
fn resigned(journal: &str) -> String {
    let line = |line: &str| {
        let (open, _) = line.rsplit_once(",\"crc\"").unwrap();
        format!("{open},\"crc\":\"{:08x}\"}}\n", crc(open.as_bytes()))
    };
    journal.lines().map(line).collect()
}

/// CRC-32, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    let byte = |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc));
    !bytes.iter().fold(!0, byte)
}
