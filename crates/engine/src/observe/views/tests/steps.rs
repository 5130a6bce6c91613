//! Steps and the lanes of a timeline.

use serde_json::{Value, json};

use crate::{
    observe::views::lanes,
    testing::{Written, ended, followed, fork, goto, intended, result},
};

#[test]
fn cost_of_a_running_step_is_unknown_not_zero() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    let running = json!(written.overview().steps[0]);
    let expected = json!({
        "step": "main.1", "agent": "main", "number": 1, "index": 0, "state": "START.sh",
        "kind": "script", "attempt": 1, "started_at": 2000, "ended_at": null, "duration_ms": null,
        "cost_usd": null, "tokens": null, "model": null, "version": null, "end": null, "tag": null, "to": null,
        "worker": null, "text": null, "denied": [], "offset": written.offset(),
    });
    assert_eq!(running, expected);
    written.add(3000, [ended("main", 1, 0.25), followed("main", result("done"), &[])]);
    let over = json!(written.overview().steps[0]);
    assert_eq!((&over["cost_usd"], &over["ended_at"]), (&json!(0.25), &json!(3000)));
    assert_eq!((&over["end"], &over["tag"]), (&json!("followed"), &json!("result")));
    assert_eq!((&over["text"], &over["to"]), (&json!("done"), &Value::Null));
    assert_eq!(over["offset"], written.offset());
}

#[test]
fn turn_and_script_are_told_apart() {
    let mut written = Written::new();
    written.step(("main", 1), "START.sh", (2000, 3000), goto("NEXT.md"));
    written.add(4000, [intended("main", 2, "NEXT.md")]);
    let overview = written.overview();
    let kinds: Vec<_> = overview.steps.iter().map(|facts| facts.kind).collect();
    assert_eq!(kinds, ["script", "turn"]);
}

/// `main` forks two workers; each has one step, and `main` has three.
fn forked() -> Written {
    let mut written = Written::new();
    written.add(100, [intended("main", 1, "START.sh")]);
    let workers = ["main_work2", "main_work10"];
    written.add(200, [ended("main", 1, 0.0), followed("main", fork(&["b", "a"]), &workers)]);
    written.step(("main", 2), "NEXT.sh", (300, 400), goto("NEXT.sh"));
    written.step(("main_work2", 1), "WORK.sh", (500, 600), result("ok"));
    written.step(("main_work10", 1), "WORK.sh", (700, 800), goto("WORK.sh"));
    written.add(900, [intended("main", 3, "NEXT.sh")]);
    written
}

fn names(lanes: &Value) -> Vec<String> {
    let lanes = lanes["lanes"].as_array().unwrap();
    let name = |lane: &Value| {
        let bars = lane["bars"].as_array().unwrap();
        let bars = bars.iter().map(|bar| format!(" {}x{}", bar["step"], bar["steps"]));
        (lane["agent"].as_str().unwrap().to_owned() + &bars.collect::<String>()).replace('"', "")
    };
    lanes.iter().map(name).collect()
}

#[test]
fn timeline_has_a_lane_for_each_agent_the_oldest_first() {
    let overview = forked().overview();
    let all = lanes(&overview, 0, 1000, 100);
    let expected = [
        "main main.1x1 main.2x1 main.3x1",
        "main_work2 main_work2.1x1",
        "main_work10 main_work10.1x1",
    ];
    assert_eq!(names(&all), expected);
    assert_eq!((&all["from"], &all["to"]), (&json!(0), &json!(1000)));
    let ended: Vec<_> = (0..3).map(|lane| all["lanes"][lane]["is_ended"].clone()).collect();
    assert_eq!(ended, [false, true, false]);
    assert_eq!(all["lanes"][1]["parent"], "main");
    let running = &all["lanes"][0]["bars"][2];
    assert_eq!((&running["from"], &running["to"]), (&json!(900), &Value::Null));
    assert_eq!(all["lanes"][0]["bars"][0]["end"], "followed");
}

#[test]
fn timeline_shows_steps_that_touch_its_time_and_running_ones() {
    let overview = forked().overview();
    let within = |from, to| names(&lanes(&overview, from, to, 100));
    assert_eq!(within(350, 500), ["main main.2x1", "main_work2 main_work2.1x1"]);
    assert_eq!(within(400, 400), ["main main.2x1"]);
    assert_eq!(within(401, 499), [""; 0]);
    assert_eq!(within(5000, 6000), ["main main.3x1"], "it still runs");
}

#[test]
fn neighbours_are_merged_when_there_are_too_many_bars() {
    let mut written = Written::new();
    for number in 1..=100 {
        let state = if number == 1 { "START.sh" } else { "NEXT.sh" };
        let at = u64::from(number) * 10;
        written.add(at, [intended("main", number, state)]);
        let next = followed("main", goto("NEXT.sh"), &[]);
        written.add(at + 5, [ended("main", number, 0.01), next]);
    }
    let overview = written.overview();
    assert_eq!(lanes(&overview, 0, 1010, 100)["lanes"][0]["bars"].as_array().unwrap().len(), 100);
    let merged = lanes(&overview, 0, 1010, 10);
    let bars = merged["lanes"][0]["bars"].as_array().unwrap();
    assert!((5..=11).contains(&bars.len()), "{}", bars.len());
    let sum = |name: &str| bars.iter().map(|bar| bar[name].as_f64().unwrap()).sum::<f64>();
    assert!((sum("steps") - 100.0).abs() < 0.001 && (sum("cost_usd") - 1.0).abs() < 0.001);
    for pair in bars.windows(2) {
        assert!(pair[0]["to"].as_u64() < pair[1]["from"].as_u64(), "{pair:?}");
    }
    let last = bars.last().unwrap();
    assert_eq!(last["to"], 1005, "a merged bar ends with its last step");
}

#[test]
fn lanes_beyond_the_limit_are_counted() {
    let workers: Vec<_> = (1..=520).map(|number| format!("main_work{number}")).collect();
    let workers: Vec<_> = workers.iter().map(String::as_str).collect();
    let mut written = Written::new();
    written.add(100, [followed("main", fork(&workers), &workers)]);
    written.add(200, workers.iter().map(|worker| intended(worker, 1, "WORK.sh")));
    let overview = written.overview();
    let all = lanes(&overview, 0, 1000, 10_000);
    assert_eq!(all["lanes"].as_array().unwrap().len(), 500);
    assert_eq!(
        (&all["lanes_left_out"], &all["lanes"][0]["agent"]),
        (&json!(20), &json!("main_work1"))
    );
}
