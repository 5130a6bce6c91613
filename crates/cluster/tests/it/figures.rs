//! Figures for docs/cluster.md, on a quiet machine, with release builds of both programs:
//! `cargo test --release --test it figures -- --ignored --nocapture --test-threads 1`.

use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

use crate::env::{Cluster, Running, processes, text, wait_until};

const NAMES: [&str; 3] = ["one", "two", "three"];
const END: &str = "echo '<result>done</result>'";

/// A script that starts so many agents.
fn forks(agents: usize) -> String {
    format!(r#"for _ in $(seq {agents}); do echo '<fork next="END">WORK</fork>'; done"#)
}

/// Three workers that take so many steps each.
fn workers(cluster: &Cluster, capacity: usize) -> [Running; 3] {
    let capacity = capacity.to_string();
    NAMES.map(|name| cluster.worker_with(cluster.port, name, &["--capacity", &capacity]))
}

/// The most memory that a process ever had, in MB.
fn peak_mb(pid: i32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<usize>().unwrap() / 1024
}

/// How many processor seconds a process has used.
fn processor(pid: i32) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    fields[11..13].iter().map(|ticks| ticks.parse::<f64>().unwrap() / 100.0).sum()
}

/// Agents that take empty steps, with the database of the server in a file and in memory. Prints the rate and what the
/// history has for each step.
fn empty_steps(agents: usize, rounds: usize, capacity: usize) {
    for is_in_memory in [false, true] {
        let Some(cluster) = Cluster::with_server(is_in_memory) else { return };
        eprintln!("database in {}:", if is_in_memory { "memory" } else { "a file" });
        empty_steps_on(&cluster, agents, rounds, capacity);
    }
}

fn empty_steps_on(cluster: &Cluster, agents: usize, rounds: usize, capacity: usize) {
    let work = r#"if [ "$RAYMOND_VISIT" -lt ROUNDS ]; then echo '<goto>WORK</goto>'; else echo '<result>x</result>'; fi"#;
    let work = work.replace("ROUNDS", &rounds.to_string());
    cluster.flow("flow", &[("START.sh", &forks(agents)), ("WORK.sh", &work), ("END.sh", END)]);
    let workers = workers(cluster, capacity);
    let begun = Instant::now();
    assert!(cluster.ran(&["start", "--detach", "flow", "--id", "r"]).status.success());
    let ran = cluster.ran(&["wait", "r"]);
    let taken = begun.elapsed();
    assert!(ran.status.success(), "{}", text(&ran));
    let steps = f64::from(u32::try_from(agents * rounds + 2).unwrap());
    let peaks = workers.each_ref().map(|worker| peak_mb(worker.pid()));
    let seconds = workers.each_ref().map(|worker| processor(worker.pid()).round());
    eprintln!(
        "{agents} agents, capacity {capacity}: {steps} steps in {taken:.1?}, {:.0}/s; workers at most {peaks:?} MB, {seconds:?} s; server {:.0} s",
        steps / taken.as_secs_f64(),
        processor(cluster.server_pid()),
    );
    let info = cluster.describe("r");
    let number = |name: &str| info[name].as_str().unwrap_or("0").parse::<f64>().unwrap();
    let (events, bytes) = (number("historyLength"), number("historySizeBytes"));
    eprintln!("  last history: {events} events, {bytes} bytes");
    if agents * rounds < 2000 {
        eprintln!("  a step: {:.1} events, {:.0} bytes", events / steps, bytes / steps);
    }
}

#[test]
#[ignore = "measures; needs a quiet machine"]
fn empty_steps_of_one_agent() {
    empty_steps(1, 100, 16);
}

#[test]
#[ignore = "measures; needs a quiet machine"]
fn empty_steps_of_100_agents() {
    empty_steps(100, 10, 34);
}

#[test]
#[ignore = "measures; needs a quiet machine"]
fn empty_steps_of_1000_agents() {
    empty_steps(1000, 5, 334);
}

#[test]
#[ignore = "measures; needs a quiet machine"]
fn empty_steps_of_5000_agents_200_in_flight() {
    empty_steps(5000, 1, 67);
}

/// Says that it is there, and stays.
const STAY: &str = "echo x >>log; exec sleep 1000";

fn lines(cluster: &Cluster) -> usize {
    fs::read_to_string(cluster.project("log")).unwrap_or_default().lines().count()
}

#[test]
#[ignore = "measures; needs a quiet machine"]
fn thousand_live_agents_and_their_cancel() {
    let Some(cluster) = Cluster::with_server(false) else { return };
    cluster.flow("flow", &[("START.sh", &forks(1000)), ("WORK.sh", STAY), ("END.sh", END)]);
    let workers = workers(&cluster, 350);
    let begun = Instant::now();
    assert!(cluster.ran(&["start", "--detach", "flow", "--id", "r"]).status.success());
    wait_until("all agents live", || lines(&cluster) >= 1000);
    let peaks = || workers.each_ref().map(|worker| peak_mb(worker.pid()));
    eprintln!("1,000 agents live after {:.1?}; workers at most {:?} MB", begun.elapsed(), peaks());
    let used = || workers.each_ref().map(|worker| processor(worker.pid()));
    let (before, server) = (used(), processor(cluster.server_pid()));
    std::thread::sleep(Duration::from_secs(40));
    let more: Vec<_> = used().iter().zip(before).map(|(after, before)| after - before).collect();
    let server = processor(cluster.server_pid()) - server;
    eprintln!("40 s of heartbeats: workers {more:.1?} s, server {server:.1} s of processor time");
    let cancelled = Instant::now();
    assert!(cluster.ran(&["cancel", "r"]).status.success());
    let ran = cluster.ran(&["wait", "r"]);
    assert!(text(&ran).contains("run r is cancelled"), "{}", text(&ran));
    eprintln!(
        "cancelled in {:.1?}; workers at most {:?} MB, server {} MB",
        cancelled.elapsed(),
        peaks(),
        peak_mb(cluster.server_pid())
    );
}

#[test]
#[ignore = "measures; needs a quiet machine"]
fn death_of_a_machine() {
    let Some(cluster) = Cluster::with_server(false) else { return };
    let stay = format!("echo \"$RAYMOND_STATE_FILE\" >>places; {STAY}");
    cluster.flow("flow", &[("START.sh", &forks(24)), ("WORK.sh", &stay), ("END.sh", END)]);
    let mut workers = workers(&cluster, 24);
    let words = ["start", "--heartbeat", "10", "--detach", "flow", "--id", "r"];
    assert!(cluster.ran(&words).status.success());
    wait_until("all agents live", || lines(&cluster) >= 24);
    let places = fs::read_to_string(cluster.project("places")).unwrap();
    let lost = places.lines().filter(|place| place.contains("/one/")).count();
    workers[0].kill();
    for pid in processes(&format!("{}/", cluster.file("one").display())) {
        let _ = Command::new("kill").arg("-9").arg(pid.to_string()).output();
    }
    let killed = Instant::now();
    wait_until("its agents live again", || lines(&cluster) >= 24 + lost);
    eprintln!(
        "heartbeat timeout 10 s: all {lost} agents of a machine live again {:.1?} after it died",
        killed.elapsed()
    );
}
