//! `raymond rewind` that is killed or fails at any of its system calls.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use crate::{
    env::{Project, Ran},
    faults::{can_trace, is_chosen, sweep},
};

const REWIND: [&str; 5] = ["rewind", "old", "main.5", "--as", "new"];

/// A project with the completed run `old` of eight steps.
fn project() -> Project {
    let project = Project::new([]);
    for number in 1..=8 {
        let name = if number == 1 { "START".to_owned() } else { format!("S{number}") };
        let tag = match number {
            8 => "<result>all done</result>".to_owned(),
            _ => format!("<goto>S{}</goto>", number + 1),
        };
        project.write(&format!("flow/{name}.sh"), &format!("echo {name} >> log; echo '{tag}'"));
    }
    project.raymond(&["start", "flow", "--id", "old", "--quiet"]).completed("all done");
    project
}

/// `raymond rewind` under strace, and how often it makes each of the traced calls.
fn traced(project: &Project, options: &[&str]) -> (Ran, BTreeMap<String, usize>) {
    let log = project.file("strace.log");
    let mut command = Command::new("strace");
    command.arg("-qq").arg("-o").arg(&log).args(options);
    command.arg(env!("CARGO_BIN_EXE_raymond")).args(REWIND);
    let ran = command
        .current_dir(project.path())
        .envs(project.user())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let mut counts = BTreeMap::new();
    for line in fs::read_to_string(&log).unwrap_or_default().lines() {
        if let Some((call, _)) = line.split_once('(') {
            *counts.entry(call.to_owned()).or_default() += 1;
        }
    }
    (Ran::of(&ran), counts)
}

/// The old run is as it was, and the new one is not there or whole. Then it can be made, if it is not, and continues.
fn check(project: &Project, old: &str, context: &str) {
    assert_eq!(project.read(".raymond/workflows/old.journal"), old, "{context}");
    let list = project.raymond(&["list", "--json"]).stdout;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let new = list.as_array().unwrap().iter().find(|run| run["run"] == "new");
    if let Some(new) = new {
        assert_eq!(new["status"], "paused", "{context}: {new}");
        let journal = project.read(".raymond/workflows/new.journal");
        assert!(journal.contains("{\"rewound\":"), "{context}: half of a past: {journal}");
    } else {
        let ran = project.raymond(&REWIND);
        assert_eq!(ran.code, 0, "{context}: {ran:?}");
    }
    fs::write(project.file("log"), "").unwrap();
    project.raymond(&["resume", "new", "--quiet"]).completed("all done");
    assert_eq!(project.lines("log"), ["S5", "S6", "S7", "S8"], "{context}");
    assert_eq!(project.read(".raymond/workflows/old.journal"), old, "{context}");
}

fn sweep_rewind(name: &str, faults: &[&str], one_in: u64) {
    if !can_trace() {
        return;
    }
    let call_of = |fault: &str| fault.split(':').next().unwrap().to_owned();
    let calls: Vec<_> = faults.iter().map(|fault| call_of(fault)).collect();
    let (ran, counts) = traced(&project(), &["-e", &format!("trace={}", calls.join(","))]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let points = faults.iter().flat_map(|fault| {
        let count = counts.get(&call_of(fault)).copied().unwrap_or(0);
        assert!(count > 0, "it does not call {fault}: {counts:?}");
        (1..=count).map(move |number| format!("{fault}:when={number}"))
    });
    let points = points.filter(|point| is_chosen(point, one_in)).collect();
    sweep(name, points, |point: String| {
        let project = project();
        let old = project.read(".raymond/workflows/old.journal");
        let options =
            ["-e", &format!("trace={}", call_of(&point)), "-e", &format!("inject={point}")];
        let (ran, _) = traced(&project, &options);
        assert!(!ran.stderr.contains("panicked"), "{point}: {}", ran.stderr);
        let was_killed = point.contains("SIGKILL");
        assert!(was_killed || ran.code == 0 || !ran.stderr.is_empty(), "{point}: failed silently");
        check(&project, &old, &point);
        (true, None)
    });
}

#[test]
fn rewind_killed_at_every_call_leaves_no_new_run_or_a_whole_one() {
    let faults = [
        "write:signal=SIGKILL",
        "fdatasync:signal=SIGKILL",
        "fsync:signal=SIGKILL",
        "renameat2:signal=SIGKILL",
        "mkdir:signal=SIGKILL",
        "flock:signal=SIGKILL",
        "unlink:signal=SIGKILL",
    ];
    sweep_rewind("rewind killed", &faults, 1);
}

#[test]
fn disk_errors_during_a_rewind_leave_no_new_run_or_a_whole_one() {
    let faults = [
        "write:error=ENOSPC",
        "fdatasync:error=EIO",
        "fsync:error=EIO",
        "renameat2:error=EIO",
        "mkdir:error=ENOSPC",
        "openat:error=EIO",
    ];
    sweep_rewind("errors of the disk in a rewind", &faults, 2);
}
