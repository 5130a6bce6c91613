//! Every kind of failure of Claude, what follows from it, and what the user sees.

use raymond_testkit::Reply;

use super::env::{DONE, Desk};
use crate::env::Ran;

/// A run of one prompt that the model replies to like this.
fn one_prompt(replies: impl IntoIterator<Item = Reply>) -> Option<(Desk, Ran)> {
    let desk = Desk::or_skip([("START.md", "the prompt")])?;
    desk.replies("", replies);
    let ran = desk.start(&[]);
    Some((desk, ran))
}

fn bad_request(message: &str) -> Reply {
    Reply::status(400, "invalid_request_error", message)
}

#[test]
fn wrong_key_fails_at_once_with_advice_and_the_turn_continues_after_a_fix() {
    let wrong = Reply::status(401, "authentication_error", "invalid x-api-key");
    let Some((desk, ran)) = one_prompt([wrong]) else { return };
    let ran =
        ran.failed(1, "failed: Invalid API key").failed(1, "set the API key (ANTHROPIC_API_KEY)");
    assert!(!ran.stderr.contains("starts again"), "{}", ran.stderr);
    // Claude's own tries, which Raymond keeps few.
    assert_eq!(desk.asked(), ["the prompt"; 3]);
    desk.says("", DONE).run(&[]).completed("done");
    let heard = &desk.heard()[3];
    let prompts = heard.iter().filter(|text| *text == "the prompt");
    assert_eq!(prompts.count(), 1, "the prompt is not given twice: {heard:?}");
    desk.expect_calls_paid(1.0);
}

#[test]
fn unknown_model_fails_at_once_with_advice() {
    let unknown = Reply::status(404, "not_found_error", "model: claude-sonnet-5");
    let Some((desk, ran)) = one_prompt([unknown]) else { return };
    ran.failed(1, "failed: There's an issue with the selected model")
        .failed(1, "check `model:` in the state");
    assert_eq!(desk.asked().len(), 2);
}

#[test]
fn empty_account_fails_at_once_with_advice() {
    let message = "Your credit balance is too low to access the Anthropic API.";
    let Some((desk, ran)) = one_prompt([bad_request(message)]) else { return };
    ran.failed(1, "failed: Credit balance is too low").failed(1, "add credit");
    assert_eq!(desk.asked().len(), 1);
}

#[test]
fn overload_is_waited_out_by_claude_and_then_by_the_run_and_only_the_answer_is_paid() {
    let overloaded = || Reply::status(529, "overloaded_error", "Overloaded");
    let replies = [overloaded(), overloaded(), overloaded(), Reply::text(DONE)];
    let Some((desk, ran)) = one_prompt(replies) else { return };
    let ran = ran.completed("done");
    assert!(ran.stderr.contains("s (try 2): API Error: 529"), "{}", ran.stderr);
    assert_eq!(desk.asked().len(), 4);
    assert!(desk.asked()[3].starts_with("Your last turn was interrupted"), "{:?}", desk.asked());
    desk.expect_calls_paid(1.0);
}

#[test]
fn overload_with_a_time_is_waited_for_that_long() {
    let overloaded =
        || Reply::status(529, "overloaded_error", "Overloaded").header("retry-after", "3");
    let replies = [overloaded(), overloaded(), overloaded(), Reply::text(DONE)];
    let Some((desk, ran)) = one_prompt(replies) else { return };
    ran.completed("done");
    let [retried] = &desk.records("retried")[..] else { panic!("one retry") };
    let delay_ms = retried["delay_ms"].as_u64().unwrap();
    assert!((3_000..=3_750).contains(&delay_ms), "{delay_ms}");
}

#[test]
fn outage_that_lasts_longer_than_the_limit_fails_the_agent_and_the_run_goes_on_after_it() {
    let Some(desk) = Desk::or_skip([("START.md", "the prompt")]) else { return };
    desk.replies("", [Reply::status(529, "overloaded_error", "Overloaded")]);
    let ran = desk.start(&["--retry-for", "5s"]);
    ran.failed(1, "(after retries for ").failed(1, "s (try 3): API Error: 529");
    // The waits are 2 and 4 seconds: three tries, in each of which Claude asks three times.
    assert_eq!(desk.asked().len(), 9);
    desk.says("", DONE).run(&[]).completed("done");
    desk.expect_calls_paid(1.0);
}

#[test]
fn prompt_that_is_too_long_fails_at_once_and_a_shorter_one_begins_afresh() {
    let message = "prompt is too long: 250000 tokens > 200000 maximum";
    let Some((desk, ran)) = one_prompt([bad_request(message)]) else { return };
    ran.failed(1, "failed: Prompt is too long");
    assert_eq!(desk.asked().len(), 1);
    desk.project.write("flow/START.md", "shorter");
    desk.says("shorter", DONE).run(&[]).completed("done");
    assert_eq!(desk.heard()[1], ["shorter"]);
}

/// The only turn of a run has failed, and is not tried again: each try is paid for.
#[track_caller]
fn expect_one_turn(desk: &Desk) {
    assert_eq!(desk.records("intended").len(), 1);
    // Claude asks by itself to go on.
    assert!(desk.asked().len() <= 4, "{:?}", desk.asked());
}

#[test]
fn answer_that_is_as_long_as_it_may_be_fails_at_once() {
    let Some((desk, ran)) = one_prompt([Reply::too_long()]) else { return };
    ran.failed(1, "output token maximum").failed(1, "or for a file that is written in parts");
    expect_one_turn(&desk);
}

#[test]
fn full_context_window_fails_at_once() {
    let full = Reply::text("so far").stop_reason("model_context_window_exceeded");
    let Some((desk, ran)) = one_prompt([full]) else { return };
    ran.failed(1, "context window limit").failed(1, "shorten the prompt");
    expect_one_turn(&desk);
}

#[test]
fn refusal_fails_at_once() {
    let Some((desk, ran)) = one_prompt([Reply::text("no").stop_reason("refusal")]) else { return };
    // The words differ from version to version. Newer ones ask the model once more by themselves.
    ran.failed(1, "failed: API Error: ").failed(1, "https://www.anthropic.com/legal/aup");
    assert!(desk.asked().len() <= 2, "{:?}", desk.asked());
}

#[test]
fn missing_session_fails_the_agent_and_it_continues_in_a_fresh_one() {
    let Some(desk) = Desk::or_skip([
        ("START.md", "first"),
        ("FORGET.sh", "rm \"$HOME\"/.claude/projects/*/*.jsonl; echo '<goto>NEXT</goto>'"),
        ("NEXT.md", "second"),
    ]) else {
        return;
    };
    desk.says("first", "<goto>FORGET</goto>").says("second", DONE);
    desk.start(&["--warm", "0"]).failed(1, "failed: No conversation found");
    assert_eq!(desk.asked(), ["first"]);
    desk.run(&[]).completed("done");
    assert_eq!(desk.heard()[1], ["second"]);
    desk.expect_calls_paid(2.0);
}

#[test]
fn silent_model_times_out_and_no_process_is_left() {
    let hangs = "---\ntimeout: 3\n---\nthe prompt";
    let Some(desk) = Desk::or_skip([("START.md", hangs)]) else { return };
    desk.replies("", [Reply::hang()]);
    let ran = desk.start(&["--retries", "0"]);
    ran.failed(1, "failed: it printed nothing for 3 seconds");
    // On a busy machine Claude may need longer than that to begin.
    assert!(desk.asked().len() <= 1, "nothing is retried: {:?}", desk.asked());
    desk.project.wait_until_quiet();
}
