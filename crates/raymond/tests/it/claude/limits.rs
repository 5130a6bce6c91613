//! Budget and usage limit.

use std::{
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use raymond_testkit::{Gate, Reply};
use serde_json::json;

use super::env::{CALL_USD, DONE, Desk, PATIENCE, finish};
use crate::env::{Ran, kill, wait_until};

/// A call that wants another one.
fn works() -> Reply {
    Reply::tool("Bash", json!({ "command": "echo working" }))
}

#[test]
fn budget_ends_a_turn_between_two_calls_and_a_higher_one_continues_in_the_session() {
    let Some(desk) = Desk::or_skip([("START.md", "the prompt")]) else { return };
    desk.replies("the prompt", [works()]);
    // Enough for two calls and a part of the third.
    let ran = desk.start(&["--budget", "0.01"]);
    ran.failed(3, " of $0.01 are spent").failed(3, "raymond resume r --budget ");
    assert_eq!(desk.asked().len(), 3);
    assert_eq!(desk.state()["status"], "stopped");
    desk.expect_calls_paid(3.0);
    desk.says("Your last turn was interrupted", DONE);
    desk.run(&["--budget", "1"]).completed("done");
    assert_eq!(desk.asked().len(), 4);
    assert_eq!(desk.heard()[3][0], "the prompt");
    desk.expect_calls_paid(4.0);
}

#[test]
fn budget_is_kept_by_a_process_that_takes_several_turns() {
    let Some(desk) = Desk::or_skip([("START.md", "first"), ("NEXT.md", "second")]) else { return };
    desk.says("first", "<goto>NEXT</goto>").replies("second", [works()]);
    desk.start(&["--budget", "0.01"]).failed(3, " of $0.01 are spent");
    assert!(desk.was_warm("main.2"));
    assert_eq!(desk.calls_by_step(), [1.0, 2.0]);
}

#[test]
fn turns_at_the_same_time_keep_the_budget_and_one_that_has_spent_its_share_gets_more() {
    let Some(desk) = Desk::or_skip([
        ("START.sh", "echo '<fork next=\"LATER\">WORKER</fork>'"),
        (
            "LATER.sh",
            "for _ in {1..6000}; do [ -e go ] && break; sleep 0.01; done; echo '<result>done</result>'",
        ),
        ("WORKER.md", "work"),
        ("AFTER.sh", "touch go; echo '<result>w</result>'"),
    ]) else {
        return;
    };
    // Two agents: the worker gets half of the budget, is stopped by its sixth call, and is continued with a half
    // of the rest.
    desk.replies("work", [works()]);
    desk.replies(
        "Your last turn was stopped because",
        [works(), Reply::text("<goto>AFTER</goto>")],
    );
    let ran = desk.start(&["--budget", "0.04"]).completed("done");
    assert!(ran.stderr.contains("it has spent its share of the budget"), "{}", ran.stderr);
    let asked = desk.asked();
    assert_eq!(desk.session(0), desk.session(asked.len() - 1), "in the same session");
    let total = desk.state()["total_cost_usd"].as_f64().unwrap();
    assert!(total <= 0.04 + 1e-9, "{total}");
    desk.expect_calls_paid(8.0);
}

/// Four workers that go on asking the model for as long as they may. Each of them can exceed its share by one call.
const WORKERS: f64 = 4.0;
const FORKS: &str = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; if [ $n -lt 4 ]; then \
                     echo '<fork next=\"START\">WORKER</fork>'; else echo '<result>x</result>'; fi";

/// A run of them is stopped, and has spent the budget and not much more.
#[track_caller]
fn expect_spent(desk: &Desk, budget: f64) {
    assert_eq!(desk.state()["status"], "stopped");
    let total = desk.state()["total_cost_usd"].as_f64().unwrap();
    let bound = budget + WORKERS * CALL_USD;
    assert!(total >= budget - 1e-9 && total <= bound + 1e-9, "{total} of {budget}");
}

#[test]
fn budget_of_many_turns_at_once_is_exceeded_by_at_most_a_call_each() {
    let Some(desk) = Desk::or_skip([("START.sh", FORKS), ("WORKER.md", "work")]) else { return };
    desk.replies("work", [works()]).replies("Your last turn was stopped because", [works()]);
    let budget = 16.0 * CALL_USD;
    desk.start(&["--budget", &budget.to_string()]).failed(3, "are spent");
    expect_spent(&desk, budget);
}

#[test]
fn shares_of_turns_in_flight_count_in_a_run_that_is_resumed_after_a_crash() {
    let Some(desk) = Desk::or_skip([("START.sh", FORKS), ("WORKER.md", "work")]) else { return };
    desk.replies("work", [works()]).replies("Your last turn was stopped because", [works()]);
    let budget = 16.0 * CALL_USD;
    let mut child = desk.spawn_start(&["--budget", &budget.to_string()]);
    desk.api.wait_for_requests(6, PATIENCE);
    kill(child.id(), libc::SIGKILL);
    child.wait().unwrap();
    desk.run(&[]).failed(3, "are spent");
    expect_spent(&desk, budget);
}

#[test]
fn rate_limit_with_a_time_is_waited_for_by_all_agents() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    let busy = || Reply::status(429, "rate_limit_error", "slow down").header("retry-after", "3");
    desk.replies("first", [busy(), busy(), busy(), Reply::text(DONE)]);
    desk.says("Your last turn was interrupted", DONE);
    let mut command = desk.start_command(&[]);
    let ran = Ran::of(&command.env("RAYMOND_RESET_MARGIN", "0").output().unwrap());
    let ran = ran.completed("done");
    assert!(ran.stderr.contains("all agents wait until"), "{}", ran.stderr);
    let journal = desk.project.read(".raymond/workflows/r.journal");
    assert!(journal.contains("\"usage_limited\":{\"resets_at\":1"), "the time is known");
}

#[test]
fn rate_limit_without_a_time_pauses_a_run_that_must_not_wait() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    let busy = Reply::status(429, "rate_limit_error", "slow down").header("retry-after", "90");
    desk.replies("first", [busy]);
    desk.start(&["--no-wait"]).failed(4, "usage limit is reached");
    assert_eq!(desk.asked().len(), 1);
}

#[test]
fn usage_limit_of_one_agent_stops_all_others_until_it_is_lifted() {
    let Some(desk) = Desk::or_skip([
        ("START.sh", "echo '<fork next=\"FIRST\">WORKER</fork>'"),
        ("FIRST.md", "first"),
        ("SECOND.md", "second"),
        ("WORKER.md", "work"),
    ]) else {
        return;
    };
    let gate = Gate::new();
    let limit = Reply::status(429, "rate_limit_error", "Claude AI usage limit reached|4000000000");
    desk.replies("first", [Reply::text("<goto>SECOND</goto>").held_by(&gate)]);
    desk.replies("work", [limit.header("x-should-retry", "false")]).says("second", DONE);
    let child = desk.spawn_start(&["--no-wait"]);
    desk.api.wait_for_requests(2, PATIENCE);
    let journal = || desk.project.read(".raymond/workflows/r.journal");
    wait_until("the limit is reached", PATIENCE, || journal().contains("\"usage_limit\""));
    gate.open();
    finish(child).failed(4, "usage limit").failed(4, "paused");
    assert_eq!(desk.asked().len(), 2, "one call each, and none after that");
    assert!(journal().contains("4000000000"), "when the limit is lifted is known");
    desk.project.wait_until_quiet();
    desk.says("work", "<result>w</result>");
    desk.says("Your last turn was interrupted", "<result>w</result>");
    desk.run(&[]).completed("done");
    assert_eq!(desk.asked().len(), 4);
    desk.expect_calls_paid(3.0);
}

#[test]
fn usage_limit_of_one_run_keeps_the_next_run_from_asking_the_model() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs();
    desk.replies("first", [limited(&format!("Claude AI usage limit reached|{}", now + 3600))]);
    desk.start(&["--no-wait"]).failed(4, "usage limit is reached until");
    let command = ["start", "flow", "--id", "other", "--no-wait", "--no-lint"];
    let other = Ran::of(&desk.command(&command).output().unwrap());
    other.failed(4, "usage limit is reached until");
    assert_eq!(desk.asked(), ["first"]);
    // With another key it is another account.
    desk.says("first", DONE);
    let mut command = desk.command(&["start", "flow", "--id", "third", "--no-wait", "--no-lint"]);
    Ran::of(&command.env("ANTHROPIC_API_KEY", "other").output().unwrap()).completed("done");
}

#[test]
fn run_continues_by_itself_when_the_usage_limit_is_lifted() {
    let Some(desk) = Desk::or_skip([("START.md", "first"), ("NEXT.md", "second")]) else { return };
    // The year 2001: it is lifted by now.
    let limit = Reply::status(429, "rate_limit_error", "Claude AI usage limit reached|1000000000");
    let limit = limit.header("x-should-retry", "false");
    desk.says("first", "<goto>NEXT</goto>").replies("second", [limit]);
    desk.says("Your last turn was interrupted", DONE);
    let mut command = desk.start_command(&[]);
    let ran = Ran::of(&command.env("RAYMOND_RESET_MARGIN", "0").output().unwrap());
    ran.completed("done");
    assert_eq!(desk.asked().len(), 3);
    assert_eq!(desk.heard()[2][..3], ["first", "<goto>NEXT</goto>", "second"]);
    desk.expect_calls_paid(2.0);
}

/// A 429 with these words, which Claude does not retry.
fn limited(words: &str) -> Reply {
    Reply::status(429, "rate_limit_error", words).header("x-should-retry", "false")
}

#[test]
fn usage_limit_in_a_message_pauses_a_run_that_must_not_wait() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    desk.replies(
        "first",
        [limited("You've hit your limit · resets Nov 20, 2090, 3pm (America/Chicago)")],
    );
    desk.start(&["--no-wait"]).failed(4, "usage limit is reached until 2090-11-20 21:00:00");
    assert_eq!(desk.asked(), ["first"], "nothing is retried");
    desk.says("Your last turn was interrupted", DONE);
    desk.run(&[]).completed("done");
}

#[test]
fn run_continues_by_itself_when_the_time_in_the_message_has_passed() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    desk.replies(
        "first",
        [limited("You've hit your weekly limit · resets Jan 2, 2020, 3:30pm (Asia/Tokyo)")],
    );
    desk.says("Your last turn was interrupted", DONE);
    let mut command = desk.start_command(&[]);
    let ran = Ran::of(&command.env("RAYMOND_RESET_MARGIN", "0").output().unwrap());
    let ran = ran.completed("done");
    assert!(ran.stderr.contains("the provider's usage limit is reached"), "{}", ran.stderr);
    assert_eq!(desk.asked().len(), 2);
}

#[test]
fn usage_limit_without_a_time_lets_the_run_wait_and_is_not_retried_within_seconds() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    desk.replies("first", [limited("You've hit your session limit")]);
    let child = desk.spawn_start(&[]);
    let journal = || desk.project.read(".raymond/workflows/r.journal");
    wait_until("the limit is known", PATIENCE, || {
        desk.project.file(".raymond/workflows/r.journal").exists()
            && journal().contains("\"usage_limited\"")
    });
    assert!(journal().contains("\"usage_limited\":{\"resets_at\":null}"), "{}", journal());
    kill(child.id(), libc::SIGINT);
    let ran = finish(child).failed(130, "all agents wait some minutes, then try again");
    assert!(!ran.stderr.contains("starts again in"), "{}", ran.stderr);
    assert_eq!(desk.asked(), ["first"]);
}

#[test]
fn answer_that_speaks_of_a_usage_limit_is_followed() {
    let Some(desk) = Desk::or_skip([("START.md", "first")]) else { return };
    let words = "You've hit your limit · resets 3pm (America/Chicago)";
    desk.says("first", &format!("{words} <result>{words}</result>"));
    desk.start(&["--no-wait"]).completed(words);
}

/// A reply that says how much of a subscription's limits is used, which have just begun: Claude warns of a fast use.
fn of_subscription(text: &str, five_hour: &str, week: &str) -> Reply {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let [soon, later] = [now + 4 * 3600, now + 6 * 86_400].map(|at| at.to_string());
    let prefix = "anthropic-ratelimit-unified";
    let headers = [
        ("status", "allowed_warning"),
        ("reset", &soon),
        ("representative-claim", "five_hour"),
        ("5h-status", "allowed_warning"),
        ("5h-reset", &soon),
        ("5h-utilization", five_hour),
        ("7d-status", "allowed"),
        ("7d-reset", &later),
        ("7d-utilization", week),
    ];
    let headers = headers.map(|(name, value)| (format!("{prefix}-{name}"), value.to_owned()));
    headers.into_iter().fold(Reply::text(text), |reply, (name, value)| reply.header(name, value))
}

#[test]
fn use_of_a_subscription_is_shown_and_a_part_of_it_can_be_left_to_the_user() {
    let Some(desk) = Desk::or_skip([("START.md", "first"), ("NEXT.md", "second")]) else { return };
    desk.replies("first", [of_subscription("<goto>NEXT</goto>", "0.93", "0.41")]);
    desk.says("second", DONE);
    let subscribed = |mut command: Command| {
        command.env_remove("ANTHROPIC_API_KEY");
        command.env("CLAUDE_CODE_OAUTH_TOKEN", "sk-ant-oat01-dummy");
        Ran::of(&command.output().unwrap())
    };
    let ran = subscribed(desk.start_command(&["--no-wait", "--usage-max", "90"]));
    ran.failed(4, "usage limit is reached until");
    assert_eq!(desk.asked(), ["first"]);
    let windows = desk.records("ended")[0]["spent"]["windows"].clone();
    // Older versions tell of the window only that is nearest to its limit.
    let [nearest, others @ ..] = &windows.as_array().unwrap()[..] else { panic!("{windows}") };
    assert_eq!((&nearest["name"], &nearest["used_percent"]), (&json!("five_hour"), &json!(93)));
    for other in others {
        assert_eq!((&other["name"], &other["used_percent"]), (&json!("seven_day"), &json!(41)));
    }
    let status = Ran::of(&desk.command(&["status", "r"]).output().unwrap()).stdout;
    assert!(status.contains("claude: 5-hour 93 % (until "), "{status}");
    let resumed = subscribed(desk.command(&["resume", "r", "--usage-max", "0"]));
    resumed.completed("done");
}
