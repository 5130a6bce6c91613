//! Kills and errors at every relevant system call in turn, writes that are cut short, and full
//! disks.
//!
//! `strace` injects the faults. If it is not installed or may not trace, these tests print that and
//! pass; `scripts/test` installs it. It counts the calls of each process separately, so number 3
//! of a call is the third one of every process that makes that many.
//!
//! A sweep tries every point with `RAYMOND_FAULTS=all`, else a selection by a fixed seed
//! (`RAYMOND_FAULTS_SEED`).

use std::{
    collections::BTreeMap,
    fs,
    io::Write as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    env::{Project, Ran, WithAgent as _, agent_table, kill},
    recovery::{Chance, chain, joined},
};

/// Scripts of builtins only: they start no process that would make calls of its own.
fn project() -> Project {
    let step = |name: &str, tag: &str| {
        (format!("{name}.sh"), format!("echo \"$RAYMOND_AGENT_ID {name}\" >> log; echo '{tag}'"))
    };
    let files = [
        step("START", "<fork next=\"A\">W</fork>"),
        step("A", "<call return=\"C\">B</call>"),
        step("B", "<result>b</result>"),
        step("C", "<join>D</join>"),
        ("D.sh".to_owned(), format!("echo \"$RAYMOND_AGENT_ID D\" >> log; {}", joined(1))),
        step("W", "<result>w</result>"),
    ];
    Project::new(files.iter().map(|(name, text)| (name.as_str(), text.as_str())))
}

const STEPS: [&str; 6] = ["main A", "main B", "main C", "main D", "main START", "main_w1 W"];

pub(crate) const START: [&str; 5] = ["start", "flow", "--id", "r", "--quiet"];

pub(crate) fn say(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

pub(crate) fn can_trace() -> bool {
    let traced = Command::new("strace").args(["-qq", "-o", "/dev/null", "true"]).status();
    let can = traced.is_ok_and(|status| status.success());
    if !can {
        say("skipped: strace is not installed or may not trace");
    }
    can
}

/// Which processes are hit.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Hit {
    Orchestrator,
    /// Also keeper, reapers and scripts.
    Everybody,
}

/// Every step once.
fn once() -> BTreeMap<String, usize> {
    STEPS.map(|step| (step.to_owned(), 1)).into()
}

/// A fresh run under `strace`.
pub(crate) struct Traced {
    pub(crate) strace: Child,
    log: PathBuf,
}

impl Traced {
    /// Starts a run under `strace` with these options.
    pub(crate) fn start(project: &Project, hit: Hit, options: &[&str]) -> Self {
        let log = project.file("strace.log");
        let mut command = Command::new("strace");
        if hit == Hit::Everybody {
            command.arg("-f");
        }
        command.arg("-qq").arg("-o").arg(&log).args(options);
        command.arg(env!("CARGO_BIN_EXE_raymond")).args(START);
        command.current_dir(project.path()).envs(project.user()).stdin(Stdio::null());
        let strace = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        Self { strace, log }
    }

    /// Waits for the orchestrator's end. `strace` stays for keeper and reapers: the next orchestrator
    /// uses those that are alive, and faults still hit them.
    fn wait_for_orchestrator(&mut self, project: &Project) {
        let is_orchestrator = |line: &String| {
            let (_, command) = line.split_once(' ').unwrap();
            command.contains(" start flow") && !command.starts_with("strace")
        };
        let mut was_seen = false;
        while self.strace.try_wait().unwrap().is_none() {
            let is_there = project.processes().iter().any(is_orchestrator);
            if was_seen && !is_there {
                return;
            }
            was_seen |= is_there;
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for all. Tells also how many traced calls of each kind the process made that made the
    /// most of them.
    pub(crate) fn wait(self) -> (Ran, BTreeMap<String, usize>) {
        let ran = Ran::of(&self.strace.wait_with_output().unwrap());
        let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        for line in log.lines() {
            let (pid, rest) = match line.split_once(' ') {
                Some((pid, rest)) if pid.parse::<u32>().is_ok() => (pid, rest.trim_start()),
                _ => ("", line),
            };
            // A call with lines of others in between comes as two; the second begins with `<`.
            if let Some((call, _)) = rest.split_once('(')
                && call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            {
                *counts.entry((pid, call)).or_default() += 1;
            }
        }
        let mut most = BTreeMap::new();
        for ((_, call), count) in counts {
            let entry: &mut usize = most.entry(call.to_owned()).or_default();
            *entry = count.max(*entry);
        }
        (ran, most)
    }
}

/// Resumes a run that was hit until it is completed, as a user would.
fn finish(project: &Project, context: &str) {
    for _ in 0..4 {
        let began = project.read(".raymond/workflows/r.journal").contains('\n');
        let arguments: &[&str] = if began { &["run", "r"] } else { &START };
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

/// Whether all points of a sweep are tried.
pub(crate) fn wants_all() -> bool {
    std::env::var("RAYMOND_FAULTS").is_ok_and(|value| value == "all")
}

/// Whether `point` is tried; of those that are not all tried, one of `one_in` is.
pub(crate) fn is_chosen(point: &str, one_in: u64) -> bool {
    let seed = std::env::var("RAYMOND_FAULTS_SEED").ok().and_then(|text| text.parse().ok());
    // FNV-1a, stirred once more: the same on every machine.
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.unwrap_or(0_u64);
    let hash = point
        .bytes()
        .fold(start, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    wants_all() || (hash >> 33).is_multiple_of(one_in)
}

/// Runs `test` for points from a list that it can make longer, on two threads; says how many there
/// were and fails if any failed. `test` returns whether its point was really met, and what to try
/// next.
pub(crate) fn sweep<P: Send>(
    name: &str,
    points: Vec<P>,
    test: impl Fn(P) -> (bool, Option<P>) + Sync,
) {
    let todo = Mutex::new(points);
    let (met, violations) = (Mutex::new(0), Mutex::new(0));
    let work = || {
        loop {
            let Some(point) = todo.lock().unwrap().pop() else {
                return;
            };
            match catch_unwind(AssertUnwindSafe(|| test(point))) {
                Ok((was_met, next)) => {
                    *met.lock().unwrap() += usize::from(was_met);
                    todo.lock().unwrap().extend(next);
                }
                Err(_) => *violations.lock().unwrap() += 1,
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(work);
        scope.spawn(work);
    });
    let (met, violations) = (met.into_inner().unwrap(), violations.into_inner().unwrap());
    say(&format!("faults: {name}: {} points, {violations} violations", met + violations));
    assert_eq!(violations, 0);
    assert!(met > 0, "no point was met");
}

/// Some calls are made as often as there is something to wait for, so there is no last one.
pub(crate) const CALLS_MAX: usize = 60;

/// Injects every one of `faults` (`CALL:WHAT`) into the first, second, … call that a process makes,
/// until none makes so many, and checks what became of the run. Where not all are tried, one of
/// `one_in` is.
pub(crate) fn sweep_calls(
    name: &str,
    make: fn() -> Project,
    hit: Hit,
    faults: &[&str],
    one_in: u64,
    check: impl Fn(&Project, &Ran, &str) + Sync,
) {
    if !can_trace() {
        return;
    }
    let call_of = |fault: &str| fault.split(':').next().unwrap().to_owned();
    let calls: Vec<_> = faults.iter().map(|fault| call_of(fault)).collect();
    let trace = format!("trace={}", calls.join(","));
    // How many there are without a fault; with one, there may be more.
    let (ran, most) = Traced::start(&make(), hit, &["-e", &trace]).wait();
    ran.completed("all done");
    let points = faults.iter().flat_map(|fault| {
        let count = most.get(&call_of(fault)).copied().unwrap_or(0);
        assert!(count > 0, "no process calls {fault}");
        (1..=count.min(CALLS_MAX)).map(move |number| (*fault, number, number == count))
    });
    let points = points
        .filter(|(fault, number, _)| is_chosen(&format!("{fault} {number}"), one_in))
        .collect();
    sweep(name, points, |(fault, number, is_last)| {
        let (project, call) = (make(), call_of(fault));
        let inject = format!("inject={fault}:when={number}");
        let context = format!("{fault} number {number}");
        let options = ["-e", &format!("trace={call}"), "-e", &inject];
        let mut traced = Traced::start(&project, hit, &options);
        traced.wait_for_orchestrator(&project);
        finish(&project, &context);
        let (ran, most) = traced.wait();
        let was_met = most.get(&call).is_some_and(|count| *count >= number);
        assert!(!ran.stderr.contains("panicked"), "{context}: {}", ran.stderr);
        check(&project, &ran, &context);
        project.wait_until_quiet();
        let goes_on = wants_all() && is_last && was_met && number < CALLS_MAX;
        (was_met, goes_on.then_some((fault, number + 1, true)))
    });
}

#[test]
fn system_without_random_numbers_is_an_error_before_anything_is_begun() {
    if !can_trace() {
        return;
    }
    let project = project();
    let fault = ["-e", "trace=getrandom", "-e", "inject=getrandom:error=EIO"];
    let (ran, _) = Traced::start(&project, Hit::Orchestrator, &fault).wait();
    ran.failed(1, "error: this system gives no random numbers: ");
    assert!(!project.file(".raymond/workflows/r.journal").exists());
}

#[test]
fn orchestrator_killed_at_every_call_runs_no_step_twice() {
    let faults = [
        "write:signal=SIGKILL",
        "fdatasync:signal=SIGKILL",
        "fsync:signal=SIGKILL",
        "ftruncate:signal=SIGKILL",
        "renameat:signal=SIGKILL",
        "mkdir:signal=SIGKILL",
        "unlink:signal=SIGKILL",
        "sendto:signal=SIGKILL",
        "recvfrom:signal=SIGKILL",
        "socket:signal=SIGKILL",
        "connect:signal=SIGKILL",
        "bind:signal=SIGKILL",
        "clone3:signal=SIGKILL",
        "flock:signal=SIGKILL",
    ];
    sweep_calls(
        "orchestrator killed",
        project,
        Hit::Orchestrator,
        &faults,
        2,
        |project, _, context| {
            assert_eq!(project.counts(), once(), "{context}");
        },
    );
}

#[test]
fn any_process_killed_at_every_call_finishes_no_step_twice() {
    let faults = [
        "accept4:signal=SIGKILL",
        "bind:signal=SIGKILL",
        "clone3:signal=SIGKILL",
        "clone:signal=SIGKILL",
        "connect:signal=SIGKILL",
        "dup2:signal=SIGKILL",
        "execve:signal=SIGKILL",
        "exit_group:signal=SIGKILL",
        "fallocate:signal=SIGKILL",
        "fdatasync:signal=SIGKILL",
        "flock:signal=SIGKILL",
        "fsync:signal=SIGKILL",
        "ftruncate:signal=SIGKILL",
        "listen:signal=SIGKILL",
        "mkdir:signal=SIGKILL",
        "poll:signal=SIGKILL",
        "prctl:signal=SIGKILL",
        "pwrite64:signal=SIGKILL",
        "recvfrom:signal=SIGKILL",
        "renameat2:signal=SIGKILL",
        "renameat:signal=SIGKILL",
        "rt_sigtimedwait:signal=SIGKILL",
        "sendto:signal=SIGKILL",
        "setsid:signal=SIGKILL",
        "signalfd4:signal=SIGKILL",
        "socket:signal=SIGKILL",
        "socketpair:signal=SIGKILL",
        "unlink:signal=SIGKILL",
        "wait4:signal=SIGKILL",
        "write:signal=SIGKILL",
    ];
    sweep_calls("anybody killed", project, Hit::Everybody, &faults, 3, |project, _, context| {
        assert_eq!(good_ends(project), once(), "{context}");
    });
}

/// Carries out prompts like the scripts of a chain. A process that finds an earlier process of the same
/// step alive logs that in `beside`.
const AGENT: &str = r#"
    me=$RAYMOND_STATE.pid
    [ -e $me ] && grep -qs agent.sh /proc/$(cat $me)/cmdline && echo $RAYMOND_STATE >> beside
    echo $$ > $me
    sleep 0.005 &
    wait
    next=$(cat flow/$RAYMOND_STATE)
    echo "{\"result\": \"$next\", \"cost_usd\": 0.25}"
"#;

/// A chain of so many prompts, whose texts are their answers.
fn chain_of_prompts(length: usize) -> Project {
    let project = Project::new([]);
    project.write("agent.sh", AGENT);
    for number in 1..=length {
        let name = if number == 1 { "START".to_owned() } else { format!("S{number}") };
        let text = match number {
            _ if number == length => "<result>all done</result>".to_owned(),
            _ => format!("<goto>S{}</goto>", number + 1),
        };
        project.write(&format!("flow/{name}.md"), &text);
    }
    project
}

/// Kills one process of a run after another, or its keeper with all reapers at once, whichever chance
/// finds, until the run is completed.
fn storm(seed: u64, project: &Project) {
    let mut chance = Chance(seed);
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let began = project.read(".raymond/workflows/r.journal").contains('\n');
        let mut command = project.command(if began { &["run", "r"] } else { &START });
        command.agent("bash agent.sh");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // After some rounds the kills stop: a run that is killed every time never completes.
        while child.try_wait().unwrap().is_none() && chance.below(6) > 0 {
            std::thread::sleep(Duration::from_micros(chance.below(25_000)));
            let mut victims = project.pids("__keeper");
            if chance.below(4) == 0 {
                // None of them can clean up after another.
                for signal in [libc::SIGSTOP, libc::SIGKILL] {
                    for pid in &victims {
                        kill(*pid, signal);
                    }
                }
                continue;
            }
            victims.push(child.id());
            let victim = chance.below(victims.len() as u64);
            kill(victims[usize::try_from(victim).unwrap()], libc::SIGKILL);
        }
        while child.try_wait().unwrap().is_none() {
            if Instant::now() > deadline {
                for pid in project.pids("") {
                    kill(pid, libc::SIGKILL);
                }
                panic!("seed {seed}: the run hangs");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let ran = Ran::of(&child.wait_with_output().unwrap());
        assert!(!ran.stderr.contains("panicked"), "seed {seed}: {}", ran.stderr);
        if ran.code == 0 {
            break;
        }
    }
    project.wait_until_quiet();
}

/// How often each state was left by the transition that it ends with.
fn followed(project: &Project) -> usize {
    project.read(".raymond/workflows/r.journal").matches("{\"followed\":").count()
}

/// The seed of random kills, and how many rounds of them there are.
fn random_rounds(short: u64) -> (u64, u64) {
    let seed = std::env::var("RAYMOND_FAULTS_SEED").ok().and_then(|text| text.parse().ok());
    (seed.unwrap_or(20_261_115), if wants_all() { 300 } else { short })
}

#[test]
fn any_process_killed_at_random_moments_finishes_no_step_twice_and_leaves_no_process() {
    let (seed, rounds) = random_rounds(12);
    sweep("random kills of anybody", (1..=rounds).collect(), |round| {
        let (seed, project) = (seed + round, chain(20));
        storm(seed, &project);
        let ends = good_ends(&project);
        assert_eq!(ends.len(), 20 + 2 * 6, "seed {seed}");
        assert!(ends.values().all(|count| *count == 1), "seed {seed}: {ends:?}");
        // The last script says so if it was handed the result of every worker once.
        let state = project.read(".raymond/workflows/r.json");
        assert!(state.contains("\"result\": \"all done\""), "seed {seed}: {state}");
        (true, None)
    });
}

#[test]
fn turns_killed_at_random_moments_are_followed_once_and_paid_exactly() {
    let (seed, rounds) = random_rounds(8);
    sweep("random kills with turns", (1..=rounds).collect(), |round| {
        let (seed, project) = (seed + round, chain_of_prompts(12));
        storm(seed, &project);
        assert_eq!(followed(&project), 12, "seed {seed}");
        assert_eq!(project.read("beside"), "", "seed {seed}");
        // Every answer that is complete in a step's output is paid for, however its reaper ended.
        let steps = fs::read_dir(project.file(".raymond/workflows/r/steps")).unwrap().flatten();
        let printed = steps.map(|step| fs::read_to_string(step.path().join("stdout")));
        let answers: usize =
            printed.map(|it| it.unwrap_or_default().matches("cost_usd").count()).sum();
        let state = project.read(".raymond/workflows/r.json");
        let state: serde_json::Value = serde_json::from_str(&state).unwrap();
        let paid = state["total_cost_usd"].as_f64().unwrap() / 0.25;
        assert_eq!(format!("{paid}"), format!("{answers}"), "seed {seed}");
        (true, None)
    });
}

fn is_told(ran: &Ran, context: &str) {
    assert!(ran.code == 0 || !ran.stderr.is_empty(), "{context}: failed without a word");
}

#[test]
fn disk_errors_are_reported_and_lose_nothing() {
    // Scripts write, too, and theirs failing is their own failure: here only ours does.
    let faults = [
        "write:error=ENOSPC",
        "write:error=EIO",
        "fdatasync:error=ENOSPC",
        "fdatasync:error=EIO",
        "fsync:error=ENOSPC",
        "fsync:error=EIO",
        "ftruncate:error=EIO",
        "renameat:error=ENOSPC",
        "renameat:error=EIO",
        "mkdir:error=ENOSPC",
        "mkdir:error=EIO",
        "openat:error=ENOSPC",
        "openat:error=EIO",
    ];
    let check = |project: &Project, ran: &Ran, context: &str| {
        is_told(ran, context);
        assert_eq!(project.counts(), once(), "{context}");
    };
    sweep_calls(
        "errors of the disk in the orchestrator",
        project,
        Hit::Orchestrator,
        &faults,
        4,
        check,
    );
}

#[test]
fn disk_errors_in_keeper_and_reapers_are_reported_and_finish_no_step_twice() {
    // Only calls that scripts do not make. A script whose end cannot be written down is run again.
    let faults = [
        "pwrite64:error=ENOSPC",
        "pwrite64:error=EIO",
        "fallocate:error=ENOSPC",
        "fallocate:error=EIO",
        "fdatasync:error=ENOSPC",
        "fdatasync:error=EIO",
        "fsync:error=ENOSPC",
        "fsync:error=EIO",
        "renameat:error=ENOSPC",
        "renameat:error=EIO",
        "renameat2:error=ENOSPC",
        "renameat2:error=EIO",
        "mkdir:error=ENOSPC",
        "mkdir:error=EIO",
    ];
    let check = |project: &Project, ran: &Ran, context: &str| {
        is_told(ran, context);
        assert_eq!(good_ends(project), once(), "{context}");
    };
    sweep_calls("errors of the disk in anybody", project, Hit::Everybody, &faults, 2, check);
}

#[test]
fn shortage_of_threads_or_message_memory_is_reported_or_survived() {
    let faults = ["clone3:error=EAGAIN", "sendto:error=ENOBUFS"];
    let check = |project: &Project, ran: &Ran, context: &str| {
        is_told(ran, context);
        assert_eq!(project.counts(), once(), "{context}");
    };
    sweep_calls("shortage in the orchestrator", project, Hit::Orchestrator, &faults, 3, check);
}

#[test]
fn shortage_in_keeper_and_reapers_finishes_no_step_twice() {
    let faults = ["clone:error=EAGAIN", "clone3:error=EAGAIN", "sendto:error=ENOBUFS"];
    let check = |project: &Project, ran: &Ran, context: &str| {
        is_told(ran, context);
        assert_eq!(good_ends(project), once(), "{context}");
    };
    sweep_calls("shortage in anybody", project, Hit::Everybody, &faults, 6, check);
}

/// Stands between our program and its writes: none takes more than `SHORT_MOST` bytes, and those to
/// files fail when `SHORT_ROOM` bytes are used up, wherever that is in the middle of one. Others
/// that inherit it, like the shell, are let alone.
const SHORT: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static long most = 1L << 40, room = 1L << 40;

__attribute__((constructor)) static void begin(void) {
    const char *text;
    if (strcmp(program_invocation_short_name, "raymond") != 0) return;
    if ((text = getenv("SHORT_MOST"))) most = atol(text);
    if ((text = getenv("SHORT_ROOM"))) room = atol(text);
}

static long cut(int fd, size_t length) {
    struct stat status;
    long left = length < (size_t)most ? (long)length : most;
    if (length == 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return left;
    if (left > room) left = room;
    room -= left;
    if (left == 0) { errno = ENOSPC; return -1; }
    return left;
}

ssize_t write(int fd, const void *bytes, size_t length) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = dlsym(RTLD_NEXT, "write");
    long taken = cut(fd, length);
    return taken < 0 ? -1 : next(fd, bytes, taken);
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t offset) {
    static ssize_t (*next)(int, const void *, size_t, off64_t);
    if (!next) next = dlsym(RTLD_NEXT, "pwrite64");
    long taken = cut(fd, length);
    return taken < 0 ? -1 : next(fd, bytes, taken, offset);
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    static ssize_t (*next)(int, const void *, size_t, int);
    if (!next) next = dlsym(RTLD_NEXT, "send");
    return next(fd, bytes, cut(fd, length), flags);
}
"#;

/// The library that cuts writes short, or `None` without a compiler.
fn short_library(folder: &Project) -> Option<PathBuf> {
    folder.write("short.c", SHORT);
    let library = folder.file("short.so");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(folder.file("short.c")).arg("-ldl");
    let compiled = cc.output().is_ok_and(|output| output.status.success());
    if !compiled {
        say("skipped: there is no C compiler");
    }
    compiled.then_some(library)
}

#[test]
fn short_writes_are_continued() {
    let folder = Project::new([]);
    let Some(library) = short_library(&folder) else {
        return;
    };
    sweep("short writes", vec![1, 2, 3, 7, 64, 500], |most: u32| {
        let project = project();
        let mut command = project.command(&START);
        command.env("LD_PRELOAD", &library).env("SHORT_MOST", most.to_string());
        Ran::of(&command.output().unwrap()).completed("all done");
        assert_eq!(project.counts(), once(), "at most {most} bytes at once");
        project.wait_until_quiet();
        (true, None)
    });
}

#[test]
fn interrupted_writes_are_reported_and_finish_no_step_twice() {
    let folder = Project::new([]);
    let Some(library) = short_library(&folder) else {
        return;
    };
    let with_room = |project: &Project, room: u64| {
        let mut command = project.command(&START);
        command.env("LD_PRELOAD", &library).env("SHORT_ROOM", room.to_string());
        Ran::of(&command.output().unwrap())
    };
    // A process has room for so many bytes in all. Reapers need little, the orchestrator the most.
    let points = (0..120).chain((120..20_000).step_by(31));
    let points = points.filter(|room| is_chosen(&format!("room {room}"), 8)).collect();
    sweep("writes that end in the middle", points, |room| {
        let project = project();
        let context = format!("room for {room} bytes");
        let ran = with_room(&project, room);
        assert!(!ran.stderr.contains("panicked"), "{context}: {}", ran.stderr);
        is_told(&ran, &context);
        if ran.code != 0 {
            finish(&project, &context);
        }
        assert_eq!(good_ends(&project), once(), "{context}");
        project.wait_until_quiet();
        (ran.code != 0, None)
    });
}

/// With so much room left, in KiB: nothing fits, then the journal, then a step, then all.
const ROOMS: &str = "0 4 8 12 16 20 24 32 40 48 64 96";

#[test]
fn full_disk_is_reported_and_the_run_resumes_when_there_is_space() {
    // Without a reserve, a script whose own output does not fit has failed and is run again.
    on_a_small_disk("0", "true");
}

#[test]
fn reserved_space_saves_every_step_on_a_full_disk() {
    on_a_small_disk("65536", "test \"$(sort log | uniq -d)\" = ''");
}

/// Runs the workflow on a disk of 400 KiB with less and less of it taken. `check` must hold for
/// what the steps wrote down.
fn on_a_small_disk(reserve: &str, check: &str) {
    let project = project();
    // A disk that only this process can see, with this much free space and then some more.
    let script = r#"
        set -e
        mount -t tmpfs -o size=400k tmpfs "$1/disk" || exit 77
        shift
        for room in $ROOMS; do
            rm -rf disk/* log
            head -c $((($(stat -f -c '%a * %S' disk) - room * 1024))) /dev/zero > disk/filler 2>/dev/null || true
            set +e
            "$1" start flow --id r --data-dir disk/state > out 2> err
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
                "$1" $command --data-dir disk/state > out 2> err
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
        .envs(project.user())
        .env("RAYMOND_DISK_RESERVE", reserve)
        .env("ROOMS", ROOMS)
        .env("CHECK", check)
        .current_dir(project.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let ran = Ran::of(&ran);
    if ran.code == 77 || ran.stderr.contains("unshare failed") {
        say("skipped: this user may not mount a disk");
        return;
    }
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
}

/// Runs `script` where `disk` is a disk of 400 KiB; `$1` is the program. `None` if this user may not
/// mount one.
fn with_a_small_disk(project: &Project, script: &str) -> Option<Ran> {
    with_a_disk(project, "400k", "65536", script)
}

/// The same with a disk of this size, and a reserve of so many bytes.
pub(crate) fn with_a_disk(
    project: &Project,
    size: &str,
    reserve: &str,
    script: &str,
) -> Option<Ran> {
    fs::create_dir(project.file("disk")).unwrap();
    let script = format!("mount -t tmpfs -o size={size},mode=700 tmpfs disk || exit 77\n{script}");
    let ran = Command::new("unshare")
        .args(["-m", "bash", "-c", &script, "bash"])
        .arg(env!("CARGO_BIN_EXE_raymond"))
        .envs(project.user())
        .env("RAYMOND_DISK_RESERVE", reserve)
        .current_dir(project.path())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let ran = Ran::of(&ran);
    if ran.code == 77 || ran.stderr.contains("unshare failed") {
        say("skipped: this user may not mount a disk");
        return None;
    }
    Some(ran)
}

/// How many states the run on the unsteady disk has. Each prints more than the disk sometimes has room for.
const UNSTEADY_STATES: usize = 24;

/// Scripts and, every sixth, turns in a row. Each notes that it ran, on a disk that is not full.
fn unsteady_project() -> Project {
    let is_turn = |number: usize| number.is_multiple_of(6);
    let name = |number: usize| match number {
        1 => "START.sh".to_owned(),
        number if is_turn(number) => format!("S{number}.md"),
        number => format!("S{number}.sh"),
    };
    let state = |number: usize| {
        let (own, next) = (name(number), name(number + 1));
        let tag = match number {
            UNSTEADY_STATES => "<result>fine</result>".to_owned(),
            _ => format!("<goto>{next}</goto>"),
        };
        let noise = "head -c 20000 /dev/zero | tr '\\0' x; echo";
        let text = if is_turn(number) {
            format!("{own} {tag}")
        } else {
            format!("echo {own} >> log; {noise}; echo '{tag}'")
        };
        (format!("flow/{own}"), text)
    };
    let project = Project::new([]);
    for (path, text) in (1..=UNSTEADY_STATES).map(state) {
        project.write(&path, &text);
    }
    project.write(
        "agent.sh",
        // A turn that continues a session is not given the prompt again.
        "read name tag; \
         case $name in S*) echo $name >> log; echo \"$tag\" > tag ;; *) tag=$(cat tag) ;; esac; head -c 20000 /dev/zero | tr '\\0' x; echo; \
         echo \"{\\\"result\\\": \\\"$tag\\\"}\"",
    );
    fs::create_dir_all(project.file(".config/raymond")).unwrap();
    project.write(".config/raymond/config.toml", &agent_table("bash agent.sh"));
    project
}

/// Runs it on a disk that another process fills and empties, until it is over.
const ON_AN_UNSTEADY_DISK: &str = r#"
    export RAYMOND_AGENT=program
    RANDOM=$SEED
    while :; do
        head -c $((RANDOM % 8 * 1024 * 1024)) /dev/zero > disk/filler
        sleep 0.0$((RANDOM % 9))
        rm -f disk/filler
        sleep 0.0$((RANDOM % 5))
    done 2> /dev/null &
    filler=$!
    for attempt in $(seq 200); do
        command="resume r"
        test -s disk/state/workflows/r.journal || command="start flow --id r"
        "$1" $command --data-dir disk/state > out 2>> err && break
    done
    kill $filler; wait $filler; rm -f disk/filler
    "$1" log r --json --data-dir disk/state > events || exit 1
    cp -r disk/state/workflows/r/steps steps
    cat out
"#;

#[test]
fn step_that_runs_twice_on_an_unsteady_disk_had_no_recorded_end_and_the_log_says_why() {
    for seed in 1..=2 {
        let project = unsteady_project();
        let script = format!("SEED={seed}; {ON_AN_UNSTEADY_DISK}");
        let Some(ran) = with_a_disk(&project, "4m", "0", &script) else { return };
        assert_eq!(ran.stdout, "fine\n", "{}{}", project.read("err"), ran.stderr);
        let events = project.read("events");
        let events: Vec<serde_json::Value> =
            events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for (state, runs) in project.counts() {
            let intents = events
                .iter()
                .enumerate()
                .filter(|(_, event)| event["event"] == "step_intended" && event["state"] == *state);
            let intents: Vec<_> = intents.collect();
            assert!(runs <= intents.len(), "{state} ran {runs} times, by {intents:?}");
            for pair in intents.windows(2) {
                let [(from, first), (to, _)] = pair else { continue };
                let number = first["number"].as_u64().unwrap();
                let said = events[*from..*to].iter().find_map(|event| {
                    let is_why = event["event"] == "retried" || event["event"] == "failed";
                    is_why.then(|| event["why"].as_str().or(event["error"].as_str())).flatten()
                });
                let said = said.unwrap_or_else(|| panic!("{state} runs again without a word"));
                let of = |name: &str| {
                    let path = project.file(&format!("steps/main.{number}/{name}"));
                    fs::read_to_string(path).unwrap_or_default()
                };
                let is_recorded = of("exit").contains("\"code\":0");
                let is_whole =
                    of("stdout").contains("</goto>") || of("stdout").contains("</result>");
                assert!(!is_recorded || !is_whole, "{state} ended, but runs again: {said}");
                say(&format!("seed {seed}: {state} ran again: {said}"));
            }
        }
    }
}

#[test]
fn script_that_fills_the_disk_pauses_the_run_until_there_is_space() {
    let project = Project::new([(
        "START.sh",
        "[ -e mended ] || head -c 10000000 /dev/zero; echo '<result>fine</result>'",
    )]);
    let script = r#"
        "$1" start flow --id r --data-dir disk/state 2> err
        echo "code $?"
        rm disk/state/workflows/r/steps/main.1/stdout
        touch mended
        "$1" run r --data-dir disk/state
    "#;
    let Some(ran) = with_a_small_disk(&project, script) else { return };
    assert_eq!(ran.stdout, "code 4\nfine\n", "{}{}", project.read("err"), ran.stderr);
    let told = project.read("err");
    assert!(told.contains("/disk/state/workflows/r was full"), "{told}");
    assert!(told.matches("state file could not be written").count() <= 1, "{told}");
}

#[test]
fn full_disk_while_a_step_is_prepared_pauses_the_run_and_starts_nothing_twice() {
    // The prompt of the turn does not fit on the disk any more. Without a reserve the run notices only then
    // that there is no space.
    let fill = "head -c $(($(stat -f -c '%a * %S' disk) - 100 * 1024)) /dev/zero > disk/filler";
    let prompt = "x".repeat(300_000);
    let project = Project::new([
        ("START.sh", &*format!("{fill}; echo start >> log; echo '<goto>NEXT</goto>'")),
        ("NEXT.md", &prompt),
    ]);
    project.write(
        "agent.sh",
        "cat > /dev/null; echo next >> log; echo '{\"result\": \"<result>fine</result>\"}'",
    );
    fs::create_dir_all(project.file(".config/raymond")).unwrap();
    project.write(".config/raymond/config.toml", &agent_table("bash agent.sh"));
    let script = r#"
        export RAYMOND_AGENT=program
        "$1" start flow --no-lint --id r --data-dir disk/state 2> err
        echo "code $?"
        rm disk/filler
        "$1" resume r --data-dir disk/state
    "#;
    let Some(ran) = with_a_disk(&project, "1200k", "0", script) else { return };
    let told = project.read("err");
    assert_eq!(ran.stdout, "code 4\nfine\n", "{told}{}", ran.stderr);
    assert!(told.contains("disk/state/workflows/r is full"), "{told}");
    assert_eq!(project.lines("log"), ["start", "next"]);
}

#[test]
fn run_that_cannot_start_on_a_full_disk_leaves_no_files() {
    let project = Project::new([("START.sh", "echo '<result>fine</result>'")]);
    let script = r#"
        mkdir -p -m 700 disk/state/workflows/r/steps
        : > disk/state/workflows/r.lock
        head -c 10000000 /dev/zero > disk/big 2> /dev/null
        "$1" start flow --id r --data-dir disk/state 2> err
        echo "code $?"
        "$1" list --data-dir disk/state
        rm disk/big
        "$1" start flow --id r --data-dir disk/state
    "#;
    let Some(ran) = with_a_small_disk(&project, script) else { return };
    assert_eq!(ran.stdout, "code 1\nfine\n", "{}{}", project.read("err"), ran.stderr);
    assert!(project.read("err").contains("No space left on device"), "{}", project.read("err"));
}

#[test]
fn state_file_that_cannot_be_written_is_reported_once() {
    let project = Project::new([
        (
            "START.sh",
            "until mkdir -p .raymond/workflows/r.json/x 2>/dev/null; do rm -f .raymond/workflows/r.json; done; touch began; while [ ! -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'",
        ),
        ("NEXT.sh", "sleep 0.5; echo '<result>fine</result>'"),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    crate::env::wait_until("the step began", Duration::from_mins(1), || {
        project.file("began").exists()
    });
    project.write("go", "");
    let ran = Ran::of(&child.wait_with_output().unwrap()).completed("fine");
    assert_eq!(ran.stderr.matches("state file could not be written").count(), 1, "{}", ran.stderr);
}

#[test]
fn disk_below_the_reserve_pauses_the_run_before_the_next_step() {
    let project = project();
    let mut command = project.command(&["start", "flow", "--id", "r"]);
    command.env("RAYMOND_DISK_RESERVE", u64::MAX.to_string());
    Ran::of(&command.output().unwrap()).failed(4, "the disk is nearly full");
    assert_eq!(project.lines("log"), Vec::<String>::new());
    project.raymond(&["run", "r"]).completed("all done");
}
