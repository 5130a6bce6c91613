//! Reminders, implicit transitions, evaluators.

use raymond_testkit::Reply;

use super::env::{DONE, Desk};

const TWO_WAYS: &str = "---\nallowed_transitions:\n  - { tag: goto, target: NEXT.md }\n  \
                        - { tag: result }\n---\nThe task.";

#[test]
fn wrong_answer_is_reminded_of_in_the_same_session() {
    let Some(desk) = Desk::or_skip([("START.md", TWO_WAYS), ("NEXT.md", "next")]) else {
        return;
    };
    desk.says("The task.", "no tag").says("next", DONE);
    desk.says("no transition tag was found", "<goto>NEXT</goto>");
    desk.start(&[]).completed("done");
    let heard = desk.heard();
    assert_eq!(heard[1][..2], ["The task.", "no tag"]);
    assert!(heard[1][2].contains("- <goto>NEXT.md</goto>"), "{heard:?}");
    assert_eq!(heard[2][3..], ["<goto>NEXT</goto>", "next"]);
    // A reminder is the cheapest of all turns: the process is still there.
    assert!(desk.was_warm("main.2") && desk.was_warm("main.3"));
}

#[test]
fn fourth_wrong_answer_fails_the_agent_and_a_fixed_policy_accepts_it_without_another_turn() {
    let Some(desk) = Desk::or_skip([("START.md", TWO_WAYS), ("NEXT.md", "next")]) else {
        return;
    };
    desk.says("", "<reset>NEXT</reset>");
    desk.start(&[]).failed(1, "(after 3 reminders)");
    assert_eq!(desk.asked().len(), 4);
    assert_eq!(desk.heard()[3].len(), 7, "all in one session");
    desk.expect_calls_paid(4.0);
    desk.project.write("flow/START.md", "mended");
    desk.says("next", DONE).run(&[]).completed("done");
    assert_eq!(desk.asked()[4..], ["next"]);
}

#[test]
fn answer_without_a_tag_means_the_only_transition() {
    let only = "---\nallowed_transitions:\n  - { tag: goto, target: NEXT.md }\n---\nThe task.";
    let Some(desk) = Desk::or_skip([("START.md", only), ("NEXT.md", "next")]) else { return };
    desk.says("The task.", "I am done.").says("next", DONE);
    desk.start(&[]).completed("done");
    assert_eq!(desk.heard()[1], ["The task.", "I am done.", "next"]);
}

#[test]
fn evaluator_is_asked_and_reminded_in_a_session_of_its_own() {
    let judged = "---\nallowed_transitions:\n  - { tag: goto, target: NEXT.md }\n  \
                  - { tag: goto, target: FIX.md }\nevaluators:\n  - prompt: JUDGE.md\n    \
                  model: haiku\n---\nThe task.";
    let Some(desk) = Desk::or_skip([
        ("START.md", judged),
        ("JUDGE.md", "judge {{transition}} after {{output}}"),
        ("NEXT.md", "next"),
        ("FIX.md", "fix"),
    ]) else {
        return;
    };
    desk.says("The task.", "fine, <goto>NEXT</goto>").says("fix", DONE);
    desk.replies("judge", [Reply::text("hm")]);
    desk.says("was not a judgement", "<goto>FIX</goto>");
    let ran = desk.start(&[]).completed("done");
    let told = "asked for <goto>NEXT.md</goto>, instead: <goto>FIX.md</goto>";
    assert!(ran.stderr.contains(told), "{}", ran.stderr);
    let heard = desk.heard();
    let question = "judge <goto>NEXT.md</goto> after fine, <goto>NEXT</goto>";
    assert_eq!(heard[1], [question]);
    assert_eq!(heard[2][..2], [question, "hm"]);
    assert_eq!(heard[3], ["The task.", "fine, <goto>NEXT</goto>", "fix"]);
    assert_eq!(desk.models(), ["sonnet", "haiku", "haiku", "sonnet"]);
}
