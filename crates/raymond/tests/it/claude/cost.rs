//! `raymond cost`: where the tokens of real turns went.

use raymond_testkit::{Reply, Usage};
use serde_json::Value;

use super::env::{DONE, Desk};

#[test]
fn cost_tells_what_was_read_again_and_what_a_goto_carries() {
    let Some(desk) = Desk::or_skip([("START.md", "begin"), ("NEXT.md", "go on")]) else { return };
    let usage = |cache_write, cache_read| Usage { input: 0, output: 0, cache_read, cache_write };
    desk.replies("begin", [Reply::text("<goto>NEXT</goto>").usage(usage(30_000, 0))]);
    desk.replies("go on", [Reply::text(DONE).usage(usage(10_000, 30_000))]);
    desk.start(&[]).completed("done");
    let ran = desk.project.raymond(&["cost", "r", "--json"]);
    let cost: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!(cost["total"]["turns"], 2);
    assert_eq!(cost["total"]["continued"], 1);
    assert_eq!(cost["total"]["cost_usd"], desk.state()["total_cost_usd"]);
    assert_eq!(cost["total"]["cache_read_tokens"], 30_000);
    let next = cost["states"].as_array().unwrap().iter().find(|row| row["state"] == "NEXT.md");
    let next = next.unwrap();
    // 30,000 at 0.1 of 10,000 at 1.25 and that.
    let (paid, again) =
        (next["cost_usd"].as_f64().unwrap(), next["read_again_usd"].as_f64().unwrap());
    assert!((again / paid - 3_000.0 / 15_500.0).abs() < 1e-6, "{next}");
    let goto = &cost["gotos"][0];
    assert_eq!((&goto["from"], &goto["to"]), (&"START.md".into(), &"NEXT.md".into()));
    assert_eq!((&goto["times"], &goto["tokens"]), (&1.into(), &30_000.into()));
    let saves = goto["saves_usd_at_most"].as_f64().unwrap();
    assert!((saves / again - 0.75).abs() < 1e-6, "three quarters of the session: {goto}");
    let page = desk.project.raymond(&["cost", "r"]).stdout;
    assert!(page.contains("goto START → NEXT  1 times, carries up to 30,000 tokens"), "{page}");
    let gone = desk.project.raymond(&["cost", "nowhere"]);
    assert_eq!(gone.code, 2, "{gone:?}");
}
