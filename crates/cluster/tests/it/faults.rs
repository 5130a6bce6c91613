//! Workers and servers that are killed, frozen or asked to stop, while a step runs that ends when the test wants it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::{
    env::{Cluster, Running, processes, text, wait_until},
    network::Network,
};

/// A step that says where it is, and ends when there is a file `go`. It notes an earlier start that is still alive.
const WORK: &str = r#"
while read -r _ pid _; do kill -0 "$pid" 2>/dev/null && echo "overlap $pid" >>log; done < <(grep ^start log 2>/dev/null)
echo "start $$ $RAYMOND_STATE_FILE" >>log
while [ ! -e go ]; do sleep 0.05; done
echo "end $$" >>log
echo '<result>done</result>'
"#;

/// What a worker says whose outcome the server refuses.
const REFUSED: &str = "the step is not this worker's any more";

/// A cluster whose run `r` has such a step.
struct Stage {
    cluster: Cluster,
}

impl Stage {
    fn new(workers: &[&str], heartbeat: &str) -> Option<(Self, Vec<Running>)> {
        let cluster = Cluster::start()?;
        let workers = workers.iter().map(|name| cluster.worker(name)).collect();
        Some((Self::begin(cluster, heartbeat), workers))
    }

    /// Starts the run.
    fn begin(cluster: Cluster, heartbeat: &str) -> Self {
        let stage = Self { cluster };
        let cluster = &stage.cluster;
        cluster.flow("flow", &[("START.sh", WORK)]);
        let words = ["start", "--heartbeat", heartbeat, "--detach", "flow", "--id", "r"];
        let started = cluster.ran(&words);
        assert!(started.status.success(), "{}", text(&started));
        wait_until("the step runs", || stage.starts() == 1);
        stage
    }

    fn log(&self) -> Vec<String> {
        let log = fs::read_to_string(self.cluster.project("log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    fn starts(&self) -> usize {
        self.log().iter().filter(|line| line.starts_with("start")).count()
    }

    /// The index of the worker that has the step.
    fn owner(&self, names: &[&str]) -> usize {
        let log = self.log();
        let line = log.iter().rfind(|line| line.starts_with("start")).unwrap();
        names.iter().position(|name| line.contains(&format!("/{name}/"))).unwrap()
    }

    fn go(&self) {
        fs::write(self.cluster.project("go"), "").unwrap();
    }

    /// The run completes, after as many starts of the step and one end of it, and never two at once.
    fn completes_after(&self, starts: usize) {
        let ran = self.cluster.ran(&["wait", "r"]);
        assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{}", text(&ran));
        let log = self.log();
        assert_eq!(self.starts(), starts, "{log:?}");
        assert_eq!(log.iter().filter(|line| line.starts_with("end")).count(), 1, "{log:?}");
        assert!(!log.iter().any(|line| line.starts_with("overlap")), "{log:?}");
    }
}

pub(crate) fn signal(name: &str, pid: i32) {
    let status = Command::new("kill").arg(name).arg(pid.to_string()).status().unwrap();
    assert!(status.success());
}

#[test]
fn killed_worker_that_comes_back_harvests_the_step_that_ended_meanwhile() {
    let Some((stage, mut workers)) = Stage::new(&["one"], "60") else { return };
    workers[0].kill();
    stage.go();
    wait_until("the step ended without a worker", || {
        stage.log().iter().any(|line| line.starts_with("end"))
    });
    let _worker = stage.cluster.worker("one");
    stage.completes_after(1);
}

#[test]
fn killed_worker_that_comes_back_goes_on_with_the_step_that_still_runs() {
    let Some((stage, mut workers)) = Stage::new(&["one"], "60") else { return };
    workers[0].kill();
    let _worker = stage.cluster.worker("one");
    wait_until("the worker has found it", || stage.cluster.logs().contains("found step main/1"));
    stage.go();
    stage.completes_after(1);
}

#[test]
fn step_that_outlasts_the_heartbeat_timeout_is_kept_alive() {
    let Some((stage, _workers)) = Stage::new(&["one", "two"], "6") else { return };
    // What must not happen takes time: two timeouts. A shorter one could pass between two heartbeats of a busy machine.
    thread::sleep(Duration::from_secs(13));
    stage.go();
    stage.completes_after(1);
}

#[test]
fn history_is_cut_while_all_places_of_all_workers_are_taken() {
    let Some(cluster) = Cluster::start() else { return };
    let hold = "while [ ! -e go ]; do sleep 0.05; done; echo '<result>done</result>'";
    let fork = "echo '<fork next=\"HOLD\">HOLD</fork>'";
    cluster.flow("flow", &[("START.sh", fork), ("HOLD.sh", hold)]);
    let _worker = cluster.worker_with(cluster.port, "one", &["--capacity", "1"]);
    let words = ["start", "--steps-per-history", "1", "--detach", "flow", "--id", "r"];
    let started = cluster.ran(&words);
    assert!(started.status.success(), "{}", text(&started));
    wait_until("the history is continued", || {
        text(&cluster.ran(&["list"])).contains("ContinuedAsNew")
    });
    fs::write(cluster.project("go"), "").unwrap();
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{}", text(&ran));
}

#[test]
fn worker_that_comes_back_with_all_its_places_taken_leaves_other_steps_to_others() {
    let Some(cluster) = Cluster::start() else { return };
    let small = || cluster.worker_with(cluster.port, "one", &["--capacity", "1"]);
    let hold = "touch held; while [ ! -e go ]; do sleep 0.05; done; echo '<result>done</result>'";
    cluster.flow("flow", &[("START.sh", hold)]);
    cluster.flow("other", &[("START.sh", "echo '<result>other</result>'")]);
    let mut one = small();
    assert!(cluster.ran(&["start", "--detach", "flow", "--id", "r"]).status.success());
    wait_until("the step runs", || cluster.project("held").exists());
    one.kill();
    let _one = small();
    wait_until("the worker has found it", || cluster.logs().contains("found step main/1"));
    assert!(cluster.ran(&["start", "--detach", "other", "--id", "o"]).status.success());
    wait_until("the worker has refused it", || {
        text(&cluster.ran(&["history", "o"])).contains("ActivityTaskCompletedEventAttributes")
    });
    let _two = cluster.worker("two");
    let ran = cluster.ran(&["wait", "o"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "other\n", "{}", text(&ran));
    fs::write(cluster.project("go"), "").unwrap();
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{}", text(&ran));
}

#[test]
fn worktree_that_a_dead_worker_has_begun_is_made_by_another() {
    let Some(cluster) = Cluster::start() else { return };
    let fork = "echo '<fork next=\"END\" worktree=\"true\">WORK</fork>'";
    let work = "echo '<result>done</result>'";
    cluster.flow("flow", &[("START.sh", fork), ("WORK.sh", work), ("END.sh", work)]);
    cluster.repository();
    // Its git never makes the worktree.
    let (bin, git) = (cluster.file("bin"), cluster.file("bin/git"));
    fs::create_dir(&bin).unwrap();
    let began = cluster.file("began");
    let hang = format!("#!/bin/sh\necho $$ >>{}\nexec sleep 1000\n", began.display());
    fs::write(&git, hang).unwrap();
    fs::set_permissions(&git, PermissionsExt::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let mut worker = cluster.worker_at_home("one", &[("PATH".to_owned(), path)]);
    let words = ["start", "--heartbeat", "3", "--detach", "flow", "--id", "r"];
    let started = cluster.ran(&words);
    assert!(started.status.success(), "{}", text(&started));
    wait_until("git was called", || began.exists());
    worker.kill();
    let _other = cluster.worker("two");
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{}", text(&ran));
}

#[test]
fn step_of_a_machine_that_is_gone_is_started_on_another() {
    let names = ["one", "two"];
    let Some((stage, mut workers)) = Stage::new(&names, "6") else { return };
    let owner = stage.owner(&names);
    workers[owner].kill();
    let place = format!("{}/", stage.cluster.file(names[owner]).display());
    for pid in processes(&place) {
        // Killing a keeper also ends others of them.
        let _ = Command::new("kill").arg("-9").arg(pid.to_string()).status();
    }
    let killed = Instant::now();
    wait_until("another worker has started it", || stage.starts() == 2);
    eprintln!(
        "started again {:?} after its machine was gone; heartbeat timeout 6 s",
        killed.elapsed()
    );
    assert_ne!(stage.owner(&names), owner);
    stage.go();
    stage.completes_after(2);
}

#[test]
fn step_of_a_killed_worker_is_ended_by_its_host_before_another_starts_it() {
    let names = ["one", "two"];
    let Some((stage, mut workers)) = Stage::new(&names, "6") else { return };
    workers[stage.owner(&names)].kill();
    wait_until("another worker has started it", || stage.starts() == 2);
    stage.go();
    stage.completes_after(2);
}

#[test]
fn step_of_a_frozen_worker_is_ended_by_its_host_and_its_late_outcome_is_refused() {
    let names = ["one", "two"];
    let Some((stage, workers)) = Stage::new(&names, "6") else { return };
    let frozen = workers[stage.owner(&names)].pid();
    signal("-STOP", frozen);
    wait_until("another worker has started it", || stage.starts() == 2);
    signal("-CONT", frozen);
    wait_until("its outcome is refused", || stage.cluster.logs().contains(REFUSED));
    stage.go();
    stage.completes_after(2);
}

#[test]
fn step_of_a_worker_without_network_is_ended_by_its_host_and_its_late_outcome_is_refused() {
    let names = ["one", "two"];
    let Some(cluster) = Cluster::start() else { return };
    let networks = names.map(|_| Network::to(cluster.port));
    let worker = |index: usize| cluster.worker_with(networks[index].port, names[index], &[]);
    let _workers = [worker(0), worker(1)];
    let stage = Stage::begin(cluster, "6");
    let network = &networks[stage.owner(&names)];
    network.cut();
    wait_until("another worker has started it", || stage.starts() == 2);
    assert!(!stage.cluster.logs().contains(REFUSED));
    network.mend();
    wait_until("its outcome is refused", || stage.cluster.logs().contains(REFUSED));
    stage.go();
    stage.completes_after(2);
}

#[test]
fn step_goes_on_while_the_server_is_killed_and_started_again() {
    let Some(cluster) = Cluster::with_server(false) else { return };
    let _worker = cluster.worker("one");
    let mut stage = Stage::begin(cluster, "60");
    stage.cluster.kill_server();
    stage.go();
    wait_until("the step ended without a server", || {
        stage.log().iter().any(|line| line.starts_with("end"))
    });
    stage.cluster.start_server();
    stage.completes_after(1);
}

/// The heartbeat timeout of runs in which nothing may wait for a heartbeat.
const LONG_HEARTBEAT: &str = "600";
/// Far below a third of it, after which the first heartbeat would tell a worker.
const SOON: Duration = Duration::from_mins(1);

#[test]
fn cancel_ends_the_child_and_the_run_without_waiting_for_a_heartbeat() {
    let Some((stage, _workers)) = Stage::new(&["one"], LONG_HEARTBEAT) else { return };
    let cancelled = Instant::now();
    assert!(stage.cluster.ran(&["cancel", "r"]).status.success());
    let ran = stage.cluster.ran(&["wait", "r"]);
    assert!(text(&ran).contains("run r is cancelled"), "{}", text(&ran));
    assert!(cancelled.elapsed() < SOON, "{:?}", cancelled.elapsed());
    let child = stage.cluster.file("one/workflows/r/scope/START.sh");
    assert_eq!(processes(child.to_str().unwrap()).len(), 0, "a child is left");
    let resumed = stage.cluster.ran(&["resume", "r"]);
    assert!(text(&resumed).contains("cannot be resumed"), "{}", text(&resumed));
}

#[test]
fn stopped_run_is_resumed_where_it_was() {
    let Some((stage, _workers)) = Stage::new(&["one"], "6") else { return };
    assert!(stage.cluster.ran(&["stop", "r", "--now"]).status.success());
    let ran = stage.cluster.ran(&["wait", "r"]);
    assert_eq!(ran.status.code(), Some(4), "{}", text(&ran));
    stage.go();
    let resumed = stage.cluster.ran(&["resume", "r"]);
    assert_eq!(String::from_utf8_lossy(&resumed.stdout), "done\n", "{}", text(&resumed));
    stage.completes_after(2);
}

#[test]
fn question_waits_for_a_person_and_takes_only_an_answer_that_leads_on() {
    let Some(cluster) = Cluster::start() else { return };
    let ask = "echo '<ask choices=\"yes=YES|no=NO\">Shall I?</ask>'";
    cluster.flow(
        "flow",
        &[
            ("START.sh", ask),
            ("YES.sh", "echo '<result>it was yes</result>'"),
            ("NO.sh", "echo '<result>it was no</result>'"),
        ],
    );
    let _worker = cluster.worker("one");
    assert!(cluster.ran(&["start", "--detach", "flow", "--id", "r"]).status.success());
    wait_until("it asks", || cluster.show("r")["agents"][0]["phase"]["asking"].is_object());
    for (ask, result, why) in [("main.2", "yes", "main.1"), ("main.1", "maybe", "choices: yes, no")]
    {
        let answered = cluster.ran(&["answer", "r", ask, result]);
        assert!(text(&answered).contains(why), "{}", text(&answered));
    }
    assert!(cluster.ran(&["answer", "r", "main.1", "yes"]).status.success());
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "it was yes\n", "{}", text(&ran));
}
