//! Every system call that matters, killed or failed in turn, and disks that are really full.
//!
//! `strace` injects the faults. Where it cannot be had, or may not trace, these tests say so and
//! pass; the test command installs it.

use std::{
    collections::BTreeMap,
    fs,
    process::{Command, Stdio},
};

use crate::env::{Project, Ran};

/// Scripts of builtins only: no process but ours makes the calls that are injected.
fn project() -> Project {
    let step = |name: &str, tag: &str| {
        (format!("{name}.sh"), format!("echo \"$RAYMOND_AGENT_ID {name}\" >> log; echo '{tag}'"))
    };
    let files = [
        step("START", "<fork next=\"A\">W</fork>"),
        step("A", "<call return=\"C\">B</call>"),
        step("B", "<result>b</result>"),
        step("C", "<result>all done</result>"),
        step("W", "<result>w</result>"),
    ];
    Project::new(files.iter().map(|(name, text)| (name.as_str(), text.as_str())))
}

const STEPS: [&str; 5] = ["main A", "main B", "main C", "main START", "main_w1 W"];

pub(crate) fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    let can = traced.is_ok_and(|status| status.success());
    if !can {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: strace is not installed or may not trace\n",
        );
    }
    can
}

/// Which processes are hit.
#[derive(Clone, Copy, PartialEq)]
enum Hit {
    Orchestrator,
    Everybody,
}

/// Every step once.
fn once() -> BTreeMap<String, usize> {
    STEPS.map(|step| (step.to_owned(), 1)).into()
}

fn under_strace(project: &Project, hit: Hit, inject: &str, arguments: &[&str]) -> Ran {
    let call = inject.split(':').next().unwrap();
    let mut command = Command::new("strace");
    if hit == Hit::Everybody {
        command.arg("-f");
    }
    command.args(["-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
    command.args(["-e", &format!("inject={inject}"), env!("CARGO_BIN_EXE_raymond")]);
    command.args(arguments).current_dir(project.path()).stdin(Stdio::null());
    Ran::of(&command.output().unwrap())
}

/// Continues a run that was hit until it is completed, as a person would.
fn finish(project: &Project, context: &str) {
    for _ in 0..4 {
        let began = project.read(".raymond/workflows/r.journal").contains('\n');
        let arguments: &[&str] =
            if began { &["run", "r"] } else { &["start", "flow", "--id", "r"] };
        let ran = project.raymond(arguments);
        assert!(!ran.stderr.contains("panicked"), "{context}: {}", ran.stderr);
        if ran.code == 0 {
            assert_eq!(ran.stdout, "all done\n", "{context}");
            return;
        }
    }
    panic!("{context}: the run could not be completed");
}

/// How often each step came to a good end, by its exit records.
fn good_ends(project: &Project) -> BTreeMap<String, usize> {
    let mut states = BTreeMap::new();
    let journal = project.read(".raymond/workflows/r.journal");
    for part in journal.split("{\"intended\":{\"agent\":\"").skip(1) {
        let agent = part.split('"').next().unwrap();
        let number = part.split("\"number\":").nth(1).unwrap().split(',').next().unwrap();
        let state = part.split("\"state\":\"").nth(1).unwrap().split('.').next().unwrap();
        states.insert(format!("{agent}.{number}"), format!("{agent} {state}"));
    }
    let mut ends = BTreeMap::new();
    for entry in fs::read_dir(project.file(".raymond/workflows/r/steps")).unwrap().flatten() {
        let exit = fs::read_to_string(entry.path().join("exit")).unwrap_or_default();
        if exit.contains("{\"code\":0}") {
            let step = entry.file_name().into_string().unwrap();
            *ends.entry(states[&step].clone()).or_default() += 1;
        }
    }
    ends
}

#[test]
fn orchestrator_killed_at_every_call_runs_no_step_twice() {
    if !can_trace() {
        return;
    }
    let calls = [
        "write",
        "fdatasync",
        "fsync",
        "rename",
        "mkdir",
        "unlink",
        "sendto",
        "connect",
        "bind",
        "clone3",
        "flock",
    ];
    let mut points = 0;
    for call in calls {
        for when in 1..200 {
            let project = project();
            let inject = format!("{call}:signal=SIGKILL:when={when}");
            let arguments = ["start", "flow", "--id", "r", "--quiet"];
            let ran = under_strace(&project, Hit::Orchestrator, &inject, &arguments);
            let context = format!("{call} number {when}");
            if ran.code == 0 {
                assert!(when > 1 || call == "rename" || call == "unlink", "{call} never happened");
                break;
            }
            points += 1;
            finish(&project, &context);
            assert_eq!(project.counts(), once(), "{context}");
            project.wait_until_quiet();
        }
    }
    assert!(points > 40, "only {points} points were tried");
}

#[test]
fn anybody_killed_at_every_call_finishes_no_step_twice() {
    if !can_trace() {
        return;
    }
    for call in
        ["pwrite64", "fallocate", "renameat2", "flock", "sendto", "mkdir", "clone", "recvfrom"]
    {
        for when in 1..8 {
            let project = project();
            let inject = format!("{call}:signal=SIGKILL:when={when}");
            let arguments = ["start", "flow", "--id", "r", "--quiet"];
            under_strace(&project, Hit::Everybody, &inject, &arguments);
            let context = format!("{call} number {when}");
            finish(&project, &context);
            let ends = good_ends(&project);
            assert_eq!(ends, once(), "{context}");
            project.wait_until_quiet();
        }
    }
}

#[test]
fn errors_of_the_disk_are_told_and_lose_nothing() {
    if !can_trace() {
        return;
    }
    let faults = [
        "write:error=ENOSPC",
        "write:error=EIO",
        "fdatasync:error=EIO",
        "fsync:error=EIO",
        "rename:error=ENOSPC",
        "mkdir:error=ENOSPC",
    ];
    for fault in faults {
        for when in 1..25 {
            let project = project();
            let inject = format!("{fault}:when={when}");
            let arguments = ["start", "flow", "--id", "r"];
            let ran = under_strace(&project, Hit::Orchestrator, &inject, &arguments);
            let context = format!("{fault} number {when}");
            assert!(!ran.stderr.contains("panicked"), "{context}: {}", ran.stderr);
            assert!(ran.code == 0 || !ran.stderr.is_empty(), "{context}: failed without a word");
            finish(&project, &context);
            assert_eq!(project.counts(), once(), "{context}");
            project.wait_until_quiet();
        }
    }
}

/// With so much room left, in KiB: nothing fits, then the journal, then a step, then all.
const ROOMS: &str = "0 4 8 12 16 20 24 32 40 48 64 96";

#[test]
fn full_disk_is_told_and_the_run_goes_on_when_there_is_room() {
    // Without a reserve, a script whose own output does not fit has failed and is run again.
    on_a_small_disk("0", "true");
}

#[test]
fn reserve_keeps_a_full_disk_from_costing_any_step() {
    on_a_small_disk("65536", "test \"$(sort log | uniq -d)\" = ''");
}

/// Runs the workflow on a disk of 400 KiB with less and less of it taken. `check` must hold for
/// what the steps wrote down.
fn on_a_small_disk(reserve: &str, check: &str) {
    let project = project();
    // A disk of its own, visible to nobody else, with so much room and then some more.
    let script = r#"
        set -e
        mount -t tmpfs -o size=400k tmpfs "$1/disk" || exit 77
        shift
        for room in $ROOMS; do
            rm -rf disk/* log
            head -c $((($(stat -f -c '%a * %S' disk) - room * 1024))) /dev/zero > disk/filler 2>/dev/null || true
            set +e
            "$1" start flow --id r --state-dir disk/state > out 2> err
            code=$?
            set -e
            if [ $code != 0 ] && [ ! -s err ]; then echo "room $room: failed without a word"; exit 1; fi
            if grep -q panicked err; then cat err; exit 1; fi
            rm -f disk/filler
            for attempt in 1 2 3 4; do
                test $code = 0 && break
                command="run r"
                test -s disk/state/workflows/r.journal || command="start flow --id r"
                set +e
                "$1" $command --state-dir disk/state > out 2> err
                code=$?
                set -e
            done
            test "$(cat out)" = "all done" || { echo "room $room: no result"; cat err; exit 1; }
            eval "$CHECK" || { echo "room $room: twice"; cat log; exit 1; }
        done
    "#;
    fs::create_dir(project.file("disk")).unwrap();
    let ran = Command::new("unshare")
        .args(["-m", "bash", "-c", script, "bash"])
        .arg(project.path())
        .arg(env!("CARGO_BIN_EXE_raymond"))
        .env("RAYMOND_DISK_RESERVE", reserve)
        .env("ROOMS", ROOMS)
        .env("CHECK", check)
        .current_dir(project.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let ran = Ran::of(&ran);
    if ran.code == 77 || ran.stderr.contains("unshare failed") {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: this user may not mount a disk\n",
        );
        return;
    }
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn disk_below_the_reserve_pauses_the_run_before_the_next_step() {
    let project = project();
    let mut command = project.command(&["start", "flow", "--id", "r"]);
    command.env("RAYMOND_DISK_RESERVE", u64::MAX.to_string());
    Ran::of(&command.output().unwrap()).failed(4, "bytes are free on the disk");
    assert_eq!(project.lines("log"), Vec::<String>::new());
    project.raymond(&["run", "r"]).completed("all done");
}
