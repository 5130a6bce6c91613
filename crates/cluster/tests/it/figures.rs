//! Figures for docs/cluster.md, on a quiet machine: `cargo test --release --test it figures -- --ignored --nocapture`.

use std::time::Instant;

use crate::env::{Cluster, text};

/// How many steps each agent takes.
const ROUNDS: usize = 5;

#[test]
#[ignore = "measures; needs a quiet machine"]
fn empty_steps_a_second_with_1_100_and_1000_agents() {
    for agents in [1, 100, 1000] {
        let Some(cluster) = Cluster::start() else { return };
        let fork = r#"for _ in $(seq AGENTS); do echo '<fork next="END">WORK</fork>'; done"#;
        let work = r#"if [ "$RAYMOND_VISIT" -lt ROUNDS ]; then echo '<goto>WORK</goto>'; else echo '<result>x</result>'; fi"#;
        let fork = fork.replace("AGENTS", &agents.to_string());
        let work = work.replace("ROUNDS", &ROUNDS.to_string());
        let end = "echo '<result>done</result>'";
        cluster.flow("flow", &[("START.sh", &fork), ("WORK.sh", &work), ("END.sh", end)]);
        let _workers = ["one", "two", "three"].map(|name| cluster.worker(name));
        let begun = Instant::now();
        let ran = cluster.ran(&["start", "flow", "--id", "r"]);
        assert!(ran.status.success(), "{}", text(&ran));
        let steps = agents * ROUNDS + 2;
        let rate = f64::from(u32::try_from(steps).unwrap()) / begun.elapsed().as_secs_f64();
        eprintln!("{agents} agents: {steps} steps in {:?}, {rate:.0}/s", begun.elapsed());
    }
}
