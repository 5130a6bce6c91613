//! Turns of a session stay on the worker that has it, if that has a place.

use std::fs;

use crate::{
    differential::AGENT,
    env::{Cluster, Running, processes, text, wait_until},
};

/// Ends when there is a file with the name of its worker.
const BUSY: &str = r#"
echo "$WORKER" >>busy
while [ ! -e "go-$WORKER" ]; do sleep 0.05; done
echo '<result>busy</result>'
"#;

/// A cluster whose coding agent notes which worker it is on.
fn cluster(names: &[&str], options: &[&str]) -> Option<(Cluster, Vec<Running>)> {
    let cluster = Cluster::start()?;
    let agent = format!("echo \"$WORKER $RAYMOND_STATE\" >>turns\n{AGENT}");
    fs::write(cluster.file("agent.sh"), agent).unwrap();
    let workers =
        names.iter().map(|name| cluster.worker_with(cluster.port, name, options)).collect();
    Some((cluster, workers))
}

/// The worker and the state of every turn so far.
fn turns(cluster: &Cluster) -> Vec<(String, String)> {
    let turns = fs::read_to_string(cluster.project("turns")).unwrap_or_default();
    let words = turns.lines().filter_map(|line| line.split_once(' '));
    words.map(|(worker, state)| (worker.to_owned(), state.to_owned())).collect()
}

fn is_asking(cluster: &Cluster) -> bool {
    let shown = cluster.ran(&["show", "r"]);
    String::from_utf8_lossy(&shown.stdout).contains("\"asking\"")
}

#[test]
fn turns_of_a_session_stay_on_one_worker_until_it_is_gone() {
    let names = ["one", "two", "three"];
    let Some((cluster, mut workers)) = cluster(&names, &[]) else { return };
    let script = "echo '<goto>C</goto>'";
    cluster.flow(
        "flow",
        &[
            ("START.md", "say: <goto>A</goto>"),
            ("A.md", "say: <goto>B</goto>"),
            // Scripts run anywhere, and change nothing about it. So do functions and the cut of the history.
            ("B.md", "say: <goto>SCRIPT</goto>"),
            ("SCRIPT.sh", script),
            ("C.md", "say: <function return=\"D\">F</function>"),
            ("F.md", "say: <result>f</result>"),
            ("D.md", "say: <goto>E</goto>"),
            ("E.md", "say: <ask next=\"LATER\">Shall I?</ask>"),
            ("LATER.md", "say: <goto>END</goto>"),
            ("END.md", "say: <result>end</result>"),
        ],
    );
    let words = ["start", "--steps-per-history", "4", "--detach", "flow", "--id", "r"];
    let started = cluster.ran(&words);
    assert!(started.status.success(), "{}", text(&started));
    wait_until("it asks", || is_asking(&cluster));
    let of_session = |turns: &[(String, String)]| -> Vec<String> {
        let own = turns.iter().filter(|(_, state)| !state.starts_with('F'));
        own.map(|(worker, _)| worker.clone()).collect()
    };
    let before = of_session(&turns(&cluster));
    let home = before[0].clone();
    assert_eq!(before, vec![home.clone(); 6], "{:?}", turns(&cluster));

    workers[names.iter().position(|name| *name == home).unwrap()].kill();
    for pid in processes(&format!("{}/", cluster.file(&home).display())) {
        let _ = std::process::Command::new("kill").arg("-9").arg(pid.to_string()).status();
    }
    assert!(cluster.ran(&["answer", "r", "main.1", "yes"]).status.success());
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "end\n", "{}", text(&ran));
    let after = of_session(&turns(&cluster)).split_off(6);
    assert_eq!(after.len(), 2, "{after:?}");
    assert_ne!(after[0], home);
    assert_eq!(after[0], after[1], "its next home");
}

#[test]
fn worker_without_a_free_place_refuses_the_next_turn_of_its_session() {
    let names = ["one", "two"];
    let Some((cluster, _workers)) = cluster(&names, &["--capacity", "1"]) else { return };
    cluster.flow(
        "flow",
        &[
            ("START.md", "say: <ask next=\"END\">Shall I?</ask>"),
            ("END.md", "say: <result>end</result>"),
        ],
    );
    let fork = "echo '<fork next=\"BUSY\">BUSY</fork>'";
    cluster.flow("other", &[("START.sh", fork), ("BUSY.sh", BUSY)]);
    assert!(cluster.ran(&["start", "--detach", "flow", "--id", "r"]).status.success());
    wait_until("it asks", || is_asking(&cluster));
    assert!(cluster.ran(&["start", "--detach", "other", "--id", "o"]).status.success());
    let busy = || fs::read_to_string(cluster.project("busy")).unwrap_or_default();
    wait_until("both workers are busy", || names.iter().all(|name| busy().contains(name)));
    assert!(cluster.ran(&["answer", "r", "main.1", "yes"]).status.success());
    let home = turns(&cluster)[0].0.clone();
    let other = names.into_iter().find(|name| *name != home).unwrap();
    fs::write(cluster.project(&format!("go-{other}")), "").unwrap();
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "end\n", "{}", text(&ran));
    assert_eq!(turns(&cluster)[1].0, other);
    assert_eq!(busy().lines().count(), 2);
    fs::write(cluster.project(&format!("go-{home}")), "").unwrap();
}
