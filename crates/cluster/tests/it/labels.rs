//! States that run only on workers with labels.

use std::fs;

use crate::{
    differential::AGENT,
    env::{Cluster, text, wait_until},
};

#[test]
fn state_with_labels_waits_for_a_worker_that_has_them_all() {
    let Some(cluster) = Cluster::start() else { return };
    let agent = format!("echo \"$RAYMOND_STATE $WORKER\" >>log\n{AGENT}");
    fs::write(cluster.file("agent.sh"), agent).unwrap();
    cluster.flow(
        "flow",
        &[
            ("START.md", "---\nruns_on: [gpu]\n---\nsay: <goto>BOTH</goto>"),
            // The worker that has the session has not all of these labels.
            ("BOTH.md", "---\nruns_on: [gpu, big]\n---\nsay: <goto>SCRIPT</goto>"),
            ("SCRIPT.sh", "# Trains.\n# runs_on: [gpu, big]\necho \"SCRIPT $WORKER\" >>log\necho '<goto>END</goto>'"),
            ("END.sh", "echo '<result>end</result>'"),
        ],
    );
    let _plain = cluster.worker("one");
    let started = cluster.ran(&["start", "--detach", "flow", "--id", "r"]);
    assert!(started.status.success(), "{}", text(&started));
    for (labels, states) in [("gpu", "START.md"), ("big,gpu", "BOTH.md, SCRIPT.sh")] {
        let hint = format!("raymond cluster worker --labels {labels}");
        assert!(text(&started).contains(&hint), "{}", text(&started));
        assert!(text(&started).contains(states), "{}", text(&started));
    }
    let log = || fs::read_to_string(cluster.project("log")).unwrap_or_default();
    let _gpu = cluster.worker_with(cluster.port, "two", &["--labels", "gpu"]);
    wait_until("the first state was there", || log().contains("START"));
    let _both = cluster.worker_with(cluster.port, "three", &["--labels", "other,gpu,big"]);
    let ran = cluster.ran(&["wait", "r"]);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "end\n", "{}", text(&ran));
    let ends: Vec<_> =
        log().lines().map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect();
    assert_eq!(ends, ["two", "three", "three"], "{}", log());

    let again = cluster.ran(&["start", "--detach", "flow", "--id", "again"]);
    assert!(!text(&again).contains("--labels"), "all have workers now: {}", text(&again));
    let refused = cluster.ran(&["worker", "--data-dir", "x", "--labels", "a b"]);
    assert!(text(&refused).contains("a label has letters"), "{}", text(&refused));
}
