//! Tools, permissions, many workers, long prompts.

use std::fs;

use raymond_testkit::Reply;
use serde_json::json;

use super::env::{DONE, Desk};

#[test]
fn tool_works_in_the_directory_of_the_agent() {
    let Some(desk) = Desk::or_skip([
        ("START.sh", "mkdir sub; echo '<reset cd=\"sub\">WORK</reset>'"),
        ("WORK.md", "make it"),
    ]) else {
        return;
    };
    let make = Reply::tool("Bash", json!({ "command": "echo really > made" }));
    desk.replies("make it", [make, Reply::text(DONE)]);
    let ran = desk.start(&[]).completed("done");
    assert_eq!(desk.project.read("sub/made"), "really\n");
    assert!(!ran.stderr.contains("not allowed"), "{}", ran.stderr);
    desk.expect_calls_paid(2.0);
}

#[test]
fn model_may_not_edit_what_raymond_keeps_whatever_else_it_may() {
    let Some(desk) = Desk::or_skip([("START.md", "write it to {{folder}}")]) else { return };
    let root = desk.project.path().canonicalize().unwrap().join(".raymond");
    let forbidden = [
        "config.toml",
        "workflows/r.journal",
        "workflows/r/asks/main.1/answer",
        "workflows/r/door/x.request",
        "workflows/r/scope/START.md",
        "workflows/r/steps/main.2/stdout",
        "worktrees/r/main_work1/.git",
        "workflows/s.json",
        "workflows/s.lock",
        "workflows/r/cluster.json",
        "workflows/r/sessions/x",
        "worktrees/r/main_work1.claim",
        "../flow/DEPLOY.sh",
        "../.git/config",
        "../home/.config/raymond/config.toml",
        "../.state/raymond/key",
    ];
    let own = "workflows/r/agents/main/notes";
    let write = |name: &&str| {
        Reply::tool("Write", json!({ "file_path": root.join(name), "content": "by Claude" }))
    };
    let replies = forbidden.iter().chain([&own]).map(write).chain([Reply::text(DONE)]);
    desk.replies("write it", replies.collect::<Vec<_>>());
    desk.start(&["--dangerously-skip-permissions"]).completed("done");
    for name in forbidden {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        assert!(!text.contains("by Claude"), "{name}");
    }
    assert_eq!(fs::read_to_string(root.join(own)).unwrap(), "by Claude");
}

#[test]
fn model_reads_no_journal_and_nothing_that_is_the_users_whatever_else_it_may() {
    let Some(desk) = Desk::or_skip([("START.md", "read it")]) else { return };
    let root = desk.project.path().canonicalize().unwrap();
    desk.project.write("home/notes", "sesame may be read");
    desk.project.write(".state/raymond/serve.token", "sesame");
    desk.project.write(".state/raymond/open.html", "sesame");
    desk.project.write(".raymond/workflows/s.journal", "sesame");
    desk.project.write(".raymond/workflows/r/door/x.request", "sesame");
    let forbidden = [
        ".state/raymond/serve.token",
        ".state/raymond/open.html",
        ".raymond/workflows/s.journal",
        ".raymond/workflows/r/door/x.request",
    ];
    let read = |name: &&str| Reply::tool("Read", json!({ "file_path": root.join(name) }));
    let replies = forbidden.iter().chain([&"home/notes"]).map(read).chain([Reply::text(DONE)]);
    desk.replies("read it", replies.collect::<Vec<_>>());
    desk.start(&["--dangerously-skip-permissions"]).completed("done");
    let heard = desk.api.requests().pop().unwrap().tool_results();
    let read: Vec<_> = heard.iter().filter(|result| result.contains("sesame")).collect();
    assert_eq!(heard.len(), forbidden.len() + 1, "{heard:?}");
    assert!(read.len() == 1 && read[0].contains("may be read"), "{heard:?}");
}

/// A workflow that writes a file outside of its directory, and then has another turn.
fn writes_outside() -> Option<(Desk, tempfile::TempDir)> {
    let desk = Desk::or_skip([("START.md", "write it"), ("NEXT.md", "next")])?;
    let outside = tempfile::tempdir().unwrap();
    let path = outside.path().join("written");
    let write = Reply::tool("Write", json!({ "file_path": path, "content": "by Claude" }));
    desk.replies("write it", [write, Reply::text("<goto>NEXT</goto>")]).says("next", DONE);
    Some((desk, outside))
}

#[test]
fn denied_tool_is_reported_once() {
    let Some((desk, outside)) = writes_outside() else { return };
    let ran = desk.start(&["--quiet"]).completed("done");
    let told = format!("was not allowed: Write: {}/written", outside.path().display());
    let lines: Vec<_> = ran.stderr.lines().filter(|line| line.contains(&told)).collect();
    // The second turn of the same process hears of it again, but it is not its denial.
    assert_eq!(lines.len(), 1, "{}", ran.stderr);
    assert!(desk.was_warm("main.2"));
    assert!(!outside.path().join("written").exists());
}

#[test]
fn question_of_claudes_own_tool_is_refused_and_the_turn_continues() {
    let Some(desk) = Desk::or_skip([("START.md", "choose")]) else { return };
    let option = |label: &str| json!({ "label": label, "description": label });
    let options = json!([option("red"), option("blue")]);
    let question = json!({ "question": "Which?", "header": "Color", "multiSelect": false, "options": options });
    let ask = Reply::tool("AskUserQuestion", json!({ "questions": [question] }));
    desk.replies("choose", [ask, Reply::text(DONE)]);
    desk.start(&[]).completed("done");
    let output = desk.project.read(".raymond/workflows/r/steps/main.1/stdout");
    assert!(output.contains("No such tool available: AskUserQuestion"), "{output}");
    assert_eq!(desk.project.raymond(&["asks", "--json"]).stdout, "[]\n");
    desk.expect_calls_paid(2.0);
}

#[test]
fn tools_that_would_ask_the_model_again_after_the_turn_are_not_there() {
    for (tool, input) in [
        ("Monitor", json!({ "command": "echo x", "description": "d", "persistent": false })),
        ("Workflow", json!({ "script": "log('x')" })),
        ("ScheduleWakeup", json!({ "delaySeconds": 60, "reason": "r", "prompt": "p" })),
    ] {
        let Some(desk) = Desk::or_skip([("START.md", "watch")]) else { return };
        desk.replies("watch", [Reply::tool(tool, input), Reply::text(DONE)]);
        desk.start(&["--dangerously-skip-permissions"]).completed("done");
        let output = desk.project.read(".raymond/workflows/r/steps/main.1/stdout");
        assert!(output.contains(&format!("No such tool available: {tool}")), "{output}");
        desk.expect_calls_paid(2.0);
    }
}

#[test]
fn skip_permissions_allows_claude_every_tool() {
    let Some((desk, outside)) = writes_outside() else { return };
    let ran = desk.start(&["--dangerously-skip-permissions"]).completed("done");
    assert!(!ran.stderr.contains("not allowed"), "{}", ran.stderr);
    assert_eq!(fs::read_to_string(outside.path().join("written")).unwrap(), "by Claude");
}

#[test]
fn eight_workers_work_at_once_and_each_knows_its_own_task_only() {
    let Some(desk) = Desk::or_skip([
        (
            "START.sh",
            "n=$(($(cat n 2>/dev/null) + 1)); echo $n > n; [ $n -le 8 ] && \
             echo \"<fork next='START' item='number $n'>WORKER</fork>\" || \
             echo '<result>all are under way</result>'",
        ),
        ("WORKER.md", "do {{item}}"),
    ]) else {
        return;
    };
    desk.says("do number", "<result>w</result>");
    desk.start(&[]).completed("all are under way");
    let mut heard = desk.heard();
    heard.sort();
    let expected: Vec<_> = (1..=8).map(|number| [format!("do number {number}")]).collect();
    assert_eq!(heard, expected);
    desk.expect_calls_paid(8.0);
    desk.project.wait_until_quiet();
}

#[test]
fn long_prompt_arrives_completely_in_a_fresh_and_in_a_kept_process() {
    let line = "Ein langer Satz, der nicht endet \u{1f980} und \"Anführungszeichen\" hat.\n";
    let long = line.repeat(400 * 1024 / line.len());
    let Some(desk) = Desk::or_skip([
        ("START.md", &*format!("first {long}")),
        ("SECOND.md", "second"),
        ("THIRD.md", &*format!("third {long}")),
    ]) else {
        return;
    };
    desk.says("first", "<reset>SECOND</reset>").says("second", "<goto>THIRD</goto>");
    desk.says("third", DONE).start(&[]).completed("done");
    let heard = desk.heard();
    assert_eq!(heard[0], [format!("first {}", long.trim_end())]);
    assert!(desk.was_warm("main.3"));
    assert_eq!(heard[2][2], format!("third {}", long.trim_end()));
}

#[test]
fn show_separates_the_turns_of_one_kept_process() {
    let Some((desk, outside)) = writes_outside() else { return };
    let look = Reply::tool("Bash", json!({ "command": "echo looking" }));
    desk.replies("next", [look, Reply::text("Looked. <result>done</result>")]);
    desk.start(&[]).completed("done");
    assert!(desk.was_warm("main.2"));
    let show = |step: &str| {
        let output = desk.command(&["show", "r", step]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let path = outside.path().join("written");
    let (first, second) = (show("1"), show("2"));
    let denied = format!("! Write: {}  denied: ", path.display());
    assert!(first.contains("\n> write it\n"), "{first}");
    assert!(first.contains(&denied) && first.contains("\n=> <goto>NEXT</goto>\n"), "{first}");
    assert!(!first.contains("looking") && !first.contains("Looked"), "{first}");
    assert!(second.contains("\n> next\n* Bash: echo looking\n"), "{second}");
    assert!(
        second.contains("\n  Looked. <result>done</result>\n=> <result>done</result>\n"),
        "{second}"
    );
    assert!(!second.contains("Write") && second.contains(", $0.0075, claude-sonnet"), "{second}");
}
