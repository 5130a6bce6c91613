//! `raymond rewind` and `raymond fork-run` with real sessions.

use raymond_testkit::Reply;

use super::env::{DONE, Desk};
use crate::env::Ran;

fn raymond(desk: &Desk, words: &[&str]) -> Ran {
    Ran::of(&desk.command(words).output().unwrap())
}

#[test]
fn rewound_run_knows_nothing_of_what_came_later_and_leaves_the_old_one_alone() {
    let files = [("START.md", "begin"), ("NEXT.md", "go on"), ("LAST.md", "finish")];
    let Some(desk) = Desk::or_skip(files) else { return };
    desk.says("begin", "<goto>NEXT</goto>");
    desk.replies(
        "go on",
        [Reply::text("<goto>LAST</goto>"), Reply::text("<result>other</result>")],
    );
    desk.says("finish", DONE);
    desk.start(&[]).completed("done");
    let journal = desk.project.read(".raymond/workflows/r.journal");
    let ran = raymond(&desk, &["rewind", "r", "main.2", "--as", "again"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "again\n"), "{ran:?}");
    assert!(ran.stderr.contains("raymond resume again"), "{ran:?}");
    raymond(&desk, &["resume", "again"]).completed("other");
    let heard = desk.heard();
    assert_eq!(heard[3], ["begin", "<goto>NEXT</goto>", "go on"], "nothing of what came later");
    assert_ne!(desk.session(3), desk.session(0));
    assert_eq!(desk.calls_by_step_of("again"), [1.0, 1.0], "the past, and a turn");
    assert_eq!(desk.project.read(".raymond/workflows/r.journal"), journal);
    assert_eq!(raymond(&desk, &["rewind", "r", "3", "--as", "third"]).code, 0);
    raymond(&desk, &["resume", "third"]).completed("done");
    let heard = desk.heard();
    assert_eq!(heard[4], heard[2], "the second turn of the kept process is the last that it knows");
    assert_eq!(desk.calls_by_step_of("third"), [1.0, 1.0, 1.0]);
    let over = raymond(&desk, &["fork-run", "r"]);
    over.failed(2, "there is nothing to continue");
    raymond(&desk, &["rewind", "r", "main.9"]).failed(2, "has no step main.9");
    raymond(&desk, &["rewind", "r", "main.1", "--as", "again"]).failed(2, "already");
}

#[test]
fn forked_run_and_the_old_one_both_continue() {
    let Some(desk) = Desk::or_skip([("START.md", "begin"), ("NEXT.sh", NEXT), ("LAST.md", "end")])
    else {
        return;
    };
    desk.says("begin", "<goto>NEXT</goto>").says("end", DONE);
    assert_eq!(desk.start(&[]).code, 1, "the script fails");
    assert_eq!(raymond(&desk, &["fork-run", "r", "--as", "other"]).code, 0);
    desk.project.write("fixed", "");
    raymond(&desk, &["resume", "other"]).completed("done");
    desk.run(&[]).completed("done");
    let heard = desk.heard();
    assert_eq!(heard[1], ["begin", "<goto>NEXT</goto>", "end"]);
    assert_eq!(heard[2], heard[1], "the old session has not seen the other run");
    assert_eq!(desk.session(2), desk.session(0));
    assert_ne!(desk.session(1), desk.session(0));
    assert_eq!(desk.calls_by_step_of("other").pop(), Some(1.0));
    assert_eq!(desk.calls_by_step().pop(), Some(1.0));
}

#[test]
fn forked_run_gets_the_default_model_again_after_a_state_with_a_model() {
    let first = "---\nmodel: haiku\n---\nbegin";
    let Some(desk) = Desk::or_skip([("START.md", first), ("NEXT.sh", NEXT), ("LAST.md", "end")])
    else {
        return;
    };
    desk.says("begin", "<goto>NEXT</goto>").says("end", DONE);
    assert_eq!(desk.start_without_model(&[]).code, 1, "the script fails");
    assert_eq!(raymond(&desk, &["fork-run", "r", "--as", "other"]).code, 0);
    desk.project.write("fixed", "");
    raymond(&desk, &["resume", "other"]).completed("done");
    assert_eq!(desk.models(), ["haiku", "opus"]);
}

const NEXT: &str = "[ -e fixed ] && echo '<goto>LAST</goto>'";
