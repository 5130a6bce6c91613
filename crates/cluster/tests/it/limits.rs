//! Limits: the budget of a run whose turns are on several machines, and the number of activities that a Temporal server
//! allows.

use std::fs;

use crate::env::{Cluster, text, wait_until};

/// A coding agent that notes its turn, works a while, and says the same again, at a cent.
const AGENT: &str = r#"
echo turn >>turns
sleep 0.2
printf '{"result": "<goto>TURN</goto>", "cost_usd": 0.01}\n'
"#;

fn forks(count: usize, state: &str) -> String {
    format!(r#"for _ in $(seq {count}); do echo '<fork next="END">{state}</fork>'; done"#)
}

const END: &str = "echo '<result>done</result>'";

#[test]
fn budget_of_fifty_agents_on_three_workers_is_passed_at_most_by_turns_in_flight() {
    let Some(cluster) = Cluster::start() else { return };
    fs::write(cluster.file("agent.sh"), AGENT).unwrap();
    cluster.flow("flow", &[("START.sh", &forks(50, "TURN")), ("TURN.md", "Go."), ("END.sh", END)]);
    let _workers = ["one", "two", "three"].map(|name| cluster.worker(name));
    let words = ["start", "flow", "--id", "r", "--budget", "1.5", "--max-parallel", "50"];
    let ran = cluster.ran(&words);
    assert_eq!(ran.status.code(), Some(3), "stopped by a limit: {}", text(&ran));
    let turns = fs::read_to_string(cluster.project("turns")).unwrap().lines().count();
    assert!((150..=200).contains(&turns), "{turns} turns for a budget of 150");
    let cost = cluster.show("r")["total_cost_usd"].as_f64().unwrap();
    let paid = f64::from(u32::try_from(turns).unwrap()) * 0.01;
    assert!((cost - paid).abs() < 1e-9, "{cost} is not what {turns} turns cost");

    let limited = cluster.ran(&["limit", "r", "--budget", "5"]);
    assert!(text(&limited).contains("raymond cluster resume r --budget USD"), "{}", text(&limited));
}

#[test]
fn budget_is_raised_while_the_run_is_running() {
    let Some(cluster) = Cluster::start() else { return };
    fs::write(cluster.file("agent.sh"), AGENT).unwrap();
    let wait = "touch began; while [ ! -e go ]; do sleep 0.05; done; echo '<goto>TURN</goto>'";
    let turn = "---\nmax_visits: 9\nthen: { tag: goto, target: END.sh }\n---\nGo.";
    cluster.flow("flow", &[("START.sh", wait), ("TURN.md", turn), ("END.sh", END)]);
    let _worker = cluster.worker("one");
    let started = cluster.ran(&["start", "--detach", "flow", "--id", "r", "--budget", "0.05"]);
    assert!(started.status.success(), "{}", text(&started));
    wait_until("it has begun", || cluster.project("began").exists());
    let limited = cluster.ran(&["limit", "r", "--budget", "1"]);
    assert!(limited.status.success(), "{}", text(&limited));
    fs::write(cluster.project("go"), "").unwrap();
    let ran = cluster.ran(&["wait", "r"]);
    assert!(text(&ran).contains("run r is completed; cost $0.09"), "{}", text(&ran));
}

/// A coding agent whose usage limit is lifted at once, by what it says. That takes the margin for clocks that differ: a
/// minute.
const LIMITED: &str = r#"
if [ -e limited ]; then printf '{"result": "<result>done</result>", "cost_usd": 0.01}\n'; exit; fi
touch limited
printf '{"error": "no", "class": "usage_limit", "resets_at": %s}\n' "$(date +%s)"
"#;

#[test]
fn run_waits_until_the_usage_limit_is_lifted() {
    let Some(cluster) = Cluster::start() else { return };
    fs::write(cluster.file("agent.sh"), LIMITED).unwrap();
    cluster.flow("flow", &[("START.md", "Go.")]);
    let mut one = cluster.worker("one");
    assert!(cluster.ran(&["start", "--detach", "flow", "--id", "r"]).status.success());
    wait_until("it waits", || cluster.show("r")["usage_limit"].is_object());
    one.kill();
    let _two = cluster.worker("two");
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "done\n", "{}", text(&ran));
}

#[test]
fn run_with_more_ready_steps_than_a_server_allows_activities_goes_on() {
    let Some(cluster) = Cluster::start() else { return };
    let work = "echo x >>log; echo '<result>x</result>'";
    cluster.flow("flow", &[("START.sh", &forks(2100, "WORK")), ("WORK.sh", work), ("END.sh", END)]);
    let _workers = ["one", "two"].map(|name| cluster.worker(name));
    assert!(cluster.ran(&["start", "--detach", "flow", "--id", "r"]).status.success());
    let done = || fs::read_to_string(cluster.project("log")).unwrap_or_default().lines().count();
    // A run that is stuck has not even launched the first of them.
    wait_until("many steps have ended", || done() >= 200);
    assert!(cluster.ran(&["cancel", "r"]).status.success());
    let ran = cluster.ran(&["wait", "r"]);
    assert!(text(&ran).contains("run r is cancelled"), "{}", text(&ran));
}
