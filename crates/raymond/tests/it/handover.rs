//! A step on its way from the orchestrator to a reaper: whoever stands still, dies or runs out of
//! something meanwhile, it starts once or not at all, and nobody waits for ever.

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::env::{Project, Ran, kill, reaper_of, wait_until};

const PATIENCE: Duration = Duration::from_mins(1);

fn signal_all(pids: &[u32], signal: i32) {
    for pid in pids {
        kill(*pid, signal);
    }
}

/// Waits for a run that may hang: if it does, all of it is ended before the test fails.
#[track_caller]
fn wait_for(project: &Project, mut child: Child) -> Ran {
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() >= deadline {
            signal_all(&project.pids(""), libc::SIGKILL);
            panic!("the run hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ran::of(&child.wait_with_output().unwrap())
}

/// The keeper first, then the reapers, which are forks of it.
fn keeper_and_reapers(project: &Project) -> (u32, Vec<u32>) {
    let found = project.pids("__keeper");
    (found[0], found[1..].to_vec())
}

/// The reapers that have no step. `steps` are the folders of those that run.
fn idle_reapers(project: &Project, steps: &[&str]) -> Vec<u32> {
    let busy: Vec<_> = steps.iter().map(|step| reaper_of(project, step)).collect();
    let (_, mut reapers) = keeper_and_reapers(project);
    reapers.retain(|pid| !busy.contains(pid));
    reapers
}

/// Waits until there is a reaper without a step, and lets all of those stand still.
fn stop_idle_reapers(project: &Project, steps: &[&str]) -> Vec<u32> {
    wait_until("a reaper stands by", PATIENCE, || !idle_reapers(project, steps).is_empty());
    let idle = idle_reapers(project, steps);
    signal_all(&idle, libc::SIGSTOP);
    idle
}

/// Whether the run has decided to start a step in `state`.
fn is_intended(project: &Project, state: &str) -> bool {
    project.read(".raymond/workflows/r.journal").contains(&format!("\"state\":\"{state}\""))
}

const WAITS_FOR_GO: &str = "touch began; while [ ! -e go ]; do sleep 0.01; done; ";

/// Its reaper tells of its end at once, and then has two seconds to do.
const LEAVES_A_DAEMON: &str = "trap '' TERM; sleep 1000 & echo '<goto>NEXT</goto>'";

#[test]
fn keeper_killed_during_a_long_launch_does_not_hang_the_run() {
    let big = "tr '\\0' '\\001' < /dev/zero | head -c 90000";
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"MAIN\">LONG</fork>'"),
        ("MAIN.sh", "echo '<call return=\"NEXT\">BIG</call>'"),
        ("BIG.sh", &format!("{WAITS_FOR_GO} echo \"<result>$({big})</result>\"")),
        // Longer than what a socket holds.
        ("NEXT.sh", "echo ${#RAYMOND_RESULT} > next; echo '<result>fine</result>'"),
        // Its reaper keeps the socket open that nobody listens on any more.
        (
            "LONG.sh",
            "touch long; while [ ! -e next ]; do sleep 0.01; done; echo '<result>w</result>'",
        ),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("both began", PATIENCE, || {
        project.file("began").exists() && project.file("long").exists()
    });
    let (keeper, _) = keeper_and_reapers(&project);
    let mut stopped = stop_idle_reapers(&project, &["main.3", "main_long1.1"]);
    kill(keeper, libc::SIGSTOP);
    stopped.push(keeper);
    // The reaper of the step that ends would take the next one.
    stopped.push(reaper_of(&project, "main.3"));
    project.write("go", "");
    wait_until("the next step is asked for", PATIENCE, || is_intended(&project, "NEXT.sh"));
    signal_all(&stopped, libc::SIGKILL);
    wait_for(&project, child).completed("fine");
    assert_eq!(project.read("next"), "90000\n");
    project.wait_until_quiet();
}

/// The step that leaves a line in `log` is run, once, by somebody else than `stopped`.
#[track_caller]
fn expect_that_somebody_takes_it(project: &Project, child: Child, stopped: &[u32]) {
    wait_until("somebody takes it", PATIENCE, || project.file("log").exists());
    signal_all(stopped, libc::SIGCONT);
    wait_for(project, child).completed("fine");
    assert_eq!(project.lines("log"), ["next"]);
    project.wait_until_quiet();
}

#[test]
fn unclaimed_step_is_launched_again() {
    let project = Project::new([
        ("START.sh", &*format!("{WAITS_FOR_GO} {LEAVES_A_DAEMON}")),
        ("NEXT.sh", "echo next >> log; echo '<result>fine</result>'"),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    let mut stopped = stop_idle_reapers(&project, &["main.1"]);
    project.write("go", "");
    wait_until("the next step is asked for", PATIENCE, || is_intended(&project, "NEXT.sh"));
    let (_, reapers) = keeper_and_reapers(&project);
    signal_all(&reapers, libc::SIGSTOP);
    stopped.extend(reapers);
    expect_that_somebody_takes_it(&project, child, &stopped);
}

#[test]
fn consecutive_scripts_use_the_same_reaper() {
    let project = Project::new([
        ("START.sh", "echo '<goto>TWO</goto>'"),
        ("TWO.sh", "echo '<goto>THREE</goto>'"),
        ("THREE.sh", "echo '<result>fine</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "r"]).completed("fine");
    let reapers = ["main.1", "main.2", "main.3"].map(|step| reaper_of(&project, step));
    assert_eq!(reapers, [reapers[0]; 3]);
    project.wait_until_quiet();
}

#[test]
fn script_does_not_wait_for_the_daemons_of_the_one_before() {
    let project = Project::new([
        ("START.sh", &*format!("{LEAVES_A_DAEMON}; echo $! > daemon")),
        ("NEXT.sh", "kill -0 $(cat daemon) && echo '<result>it lives</result>'"),
    ]);
    project.raymond(&["start", "flow", "--id", "r"]).completed("it lives");
    project.wait_until_quiet();
}

#[test]
fn reaper_stopped_between_two_steps_delays_neither_run_nor_agent() {
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"HOLD\">WORKER</fork>'"),
        // Its reaper waits for another step when it has ended.
        ("WORKER.sh", "while [ ! -e began ]; do sleep 0.01; done; echo '<result>worked</result>'"),
        ("HOLD.sh", &*format!("{WAITS_FOR_GO} {LEAVES_A_DAEMON}")),
        ("NEXT.sh", "echo next >> log; echo '<result>fine</result>'"),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    let worked = || project.read(".raymond/workflows/r.journal").contains("\"worked\"");
    wait_until("the worker has ended", PATIENCE, worked);
    let stopped = stop_idle_reapers(&project, &["main.2"]);
    project.write("go", "");
    expect_that_somebody_takes_it(&project, child, &stopped);
}

/// A run with two kept connections to reapers that are stopped: first the one that the next script is
/// sent to. The reaper of the script under way has a daemon to end when that is over.
fn with_stopped_reapers(hold: &str) -> (Project, Child, [u32; 2]) {
    let worker = |waits_for: &str, name: &str| {
        format!("until {waits_for}; do sleep 0.01; done; echo '<result>{name}</result>'")
    };
    let project = Project::new([
        ("START.sh", "echo '<fork next=\"MORE\">FIRST</fork>'"),
        ("MORE.sh", "echo '<fork next=\"MAIN\">LAST</fork>'"),
        ("FIRST.sh", &worker("[ -e began ]", "first worked")),
        ("LAST.sh", &worker("grep -q 'first worked' .raymond/workflows/r.journal", "worked")),
        ("MAIN.sh", "echo '<call return=\"NEXT\">HOLD</call>'"),
        ("HOLD.sh", &format!("{WAITS_FOR_GO} trap '' TERM; sleep 1000 & {hold}")),
        ("NEXT.sh", "echo ${#RAYMOND_RESULT} >> next; echo '<result>fine</result>'"),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    let has_worked = || project.read(".raymond/workflows/r.journal").contains("\"worked\"");
    wait_until("the workers have ended", PATIENCE, has_worked);
    let stopped = ["main_last2.1", "main_first1.1"].map(|step| reaper_of(&project, step));
    signal_all(&stopped, libc::SIGSTOP);
    (project, child, stopped)
}

#[test]
fn launch_longer_than_the_socket_buffer_does_not_hang_although_all_reapers_are_stopped() {
    let big = "tr '\\0' '\\001' < /dev/zero | head -c 90000";
    let (project, child, stopped) =
        with_stopped_reapers(&format!("echo \"<result>$({big})</result>\""));
    let others = stop_idle_reapers(&project, &["main.4"]);
    project.write("go", "");
    wait_until("somebody new takes it", PATIENCE, || project.file("next").exists());
    signal_all(&others, libc::SIGCONT);
    signal_all(&stopped, libc::SIGCONT);
    wait_for(&project, child).completed("fine");
    assert_eq!(project.lines("next"), ["90000"]);
    project.wait_until_quiet();
}

#[test]
fn step_whose_request_may_be_lost_is_launched_again_and_runs_once() {
    let (project, child, stopped) = with_stopped_reapers("echo '<result>x</result>'");
    project.write("go", "");
    wait_until("the next step is asked for", PATIENCE, || is_intended(&project, "NEXT.sh"));
    // The orchestrator knows only that a reaper was killed, which might have had the step.
    let [asked, other] = stopped;
    kill(other, libc::SIGKILL);
    wait_until("it is forbidden", PATIENCE, || {
        project.file(".raymond/workflows/r/steps/main.5/exit").exists()
    });
    kill(asked, libc::SIGCONT);
    wait_for(&project, child).completed("fine");
    assert_eq!(project.lines("next"), ["1"]);
    let journal = project.read(".raymond/workflows/r.journal");
    assert_eq!(journal.matches("\"state\":\"NEXT.sh\"").count(), 2, "{journal}");
    project.wait_until_quiet();
}

#[test]
fn keeper_shuts_down_without_waiting_for_a_stopped_reaper() {
    let project = Project::new([("START.sh", &*format!("{WAITS_FOR_GO} exit 1"))]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    stop_idle_reapers(&project, &["main.1"]);
    project.write("go", "");
    wait_for(&project, child).failed(1, "exited with code 1");
    project.wait_until_quiet();
}

#[test]
fn second_interrupt_ends_a_step_that_is_claimed_at_the_same_moment() {
    if !crate::faults::can_trace() {
        return;
    }
    let project = Project::new([
        ("START.sh", &*format!("{WAITS_FOR_GO} {LEAVES_A_DAEMON}")),
        ("NEXT.sh", "[ -e again ] || sleep 1000; echo '<result>fine</result>'"),
    ]);
    // Slow where it forbids a step, which begins with making its folder.
    let child = Command::new("strace")
        .args(["-qq", "-o", "/dev/null", "-e", "trace=mkdir"])
        .args(["-e", "inject=mkdir:delay_enter=400ms", env!("CARGO_BIN_EXE_raymond")])
        .args(["start", "flow", "--id", "r"])
        .current_dir(project.path())
        .envs(project.user())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("the step began", PATIENCE, || project.file("began").exists());
    let stopped = stop_idle_reapers(&project, &["main.1"]);
    let orchestrator = *project.pids(" start flow").last().unwrap();
    project.write("go", "");
    wait_until("the next step is asked for", PATIENCE, || is_intended(&project, "NEXT.sh"));
    kill(orchestrator, libc::SIGINT);
    kill(orchestrator, libc::SIGTERM);
    // Nothing shows that it has come to the forbidding. Whatever this meets, the run must end.
    std::thread::sleep(Duration::from_millis(200));
    signal_all(&stopped, libc::SIGCONT);
    wait_for(&project, child).failed(130, "paused");
    project.wait_until_quiet();
    project.write("again", "");
    project.raymond(&["run", "r"]).completed("fine");
}

#[test]
fn unclaimed_step_directory_does_not_prevent_the_step_from_starting() {
    let project = Project::new([("START.sh", "echo x >> log; echo '<result>fine</result>'")]);
    project.raymond(&["start", "flow", "--id", "r"]).completed("fine");
    // What a machine that lost its power may leave: the folder, and no record of the step.
    let journal = fs::read(project.file(".raymond/workflows/r.journal")).unwrap();
    let first_line = journal.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    fs::write(project.file(".raymond/workflows/r.journal"), &journal[..first_line]).unwrap();
    fs::remove_file(project.file(".raymond/workflows/r.json")).unwrap();
    let folder = project.file(".raymond/workflows/r/steps/main.1");
    fs::remove_dir_all(&folder).unwrap();
    fs::create_dir(&folder).unwrap();
    let child = project.spawn(&["run", "r"]);
    wait_for(&project, child).completed("fine");
    assert_eq!(project.lines("log"), ["x", "x"]);
    project.wait_until_quiet();
}

#[test]
fn burst_of_launches_needs_no_descriptor_for_each() {
    let agents = 60;
    let project = Project::new([
        (
            "START.sh",
            &*format!(
                "n=0; [ -e count ] && read -r n < count; echo $((n + 1)) > count; \
                 if [ $n = {agents} ]; then echo '<goto>W</goto>'; \
                 else echo '<fork next=\"START\">W</fork>'; fi"
            ),
        ),
        (
            "W.sh",
            "echo \"$RAYMOND_AGENT_ID\" >> log; [ -e again ] || sleep 1000; echo '<result>w</result>'",
        ),
    ]);
    let child = project.spawn(&["start", "flow", "--id", "r"]);
    wait_until("all began", PATIENCE, || project.lines("log").len() == agents + 1);
    kill(child.id(), libc::SIGINT);
    kill(child.id(), libc::SIGTERM);
    wait_for(&project, child).failed(130, "paused");
    project.write("again", "");
    // Now all of them start at once.
    let child = Command::new("prlimit")
        .args(["--nofile=56", env!("CARGO_BIN_EXE_raymond"), "run", "r"])
        .current_dir(project.path())
        .envs(project.user())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&project, child).completed("w");
    assert!(project.counts().values().all(|count| *count == 2));
    project.wait_until_quiet();
}
