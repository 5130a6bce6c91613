#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{fs, io::Write as _, path::PathBuf};

use raymond_flow::{
    id::{RunId, SessionId},
    machine::SessionPlan,
    money::Usd,
};
use tempfile::TempDir;

use super::*;
use crate::{
    exec::step::{Claim, ExitRecord, place_output},
    store::layout::StateDir,
    testing::{Talkative, script_step, step_id, turn, turn_step},
};

/// A step whose life a test tells.
struct Life {
    _root: TempDir,
    folder: StepFolder,
    transcript: Transcript,
    agents: Agents,
    claim: Option<Claim>,
}

fn life(step: &Step) -> Life {
    let root = tempfile::tempdir().unwrap();
    let files = StateDir::new(root.path()).run(&RunId::new("r").unwrap());
    fs::create_dir_all(&files.steps).unwrap();
    let folder = StepFolder::new(&files.steps, &step_id(1));
    let transcript = Transcript::new(&files, &step_id(1), step);
    let agents = Agents::new(vec![Box::new(Talkative)]);
    Life { _root: root, folder, transcript, agents, claim: None }
}

fn a_turn() -> Step {
    turn_step(turn(SessionPlan::Fresh { id: SessionId::new("s") }))
}

impl Life {
    fn begin(&mut self) {
        self.folder.create_turn(&a_turn(), "Do it.", None).unwrap();
        self.claim();
    }

    fn claim(&mut self) {
        for path in [self.folder.stdout(), self.folder.stderr()] {
            fs::write(path, "").unwrap();
        }
        self.claim = Some(Claim::take(&self.folder.path().join("exit"), "", false).unwrap());
    }

    fn say(&self, text: &str) {
        append(self.folder.stdout(), text);
    }

    fn end(&mut self, how: HowEnded) {
        let stdout_bytes = fs::metadata(self.folder.stdout()).unwrap().len();
        let record = ExitRecord { how, duration_ms: 1, stdout_bytes };
        self.claim.take().unwrap().end(&record, false).unwrap();
    }

    fn more(&mut self) -> Vec<Entry> {
        self.transcript.more(&self.agents).unwrap()
    }
}

fn append(path: PathBuf, text: impl AsRef<[u8]>) {
    File::options().append(true).open(path).unwrap().write_all(text.as_ref()).unwrap();
}

fn text(text: &str) -> Entry {
    Entry::Text { text: text.to_owned() }
}

fn prompt() -> Entry {
    Entry::Prompt { text: "Do it.".to_owned() }
}

fn answer(text: &str, tag: Option<&str>) -> Entry {
    Entry::Answer { text: text.to_owned(), tag: tag.map(str::to_owned) }
}

fn failure(message: &str) -> Entry {
    Entry::Failure { message: message.to_owned() }
}

#[test]
fn turn_is_told_as_it_goes_on_and_ends_with_its_answer() {
    let mut life = life(&a_turn());
    assert!(life.transcript.is_empty());
    assert_eq!(life.more(), []);
    life.begin();
    assert_eq!(life.more(), [prompt()]);
    // The last text may be the answer, so it is told when something follows it.
    life.say("one\ntwo\nthr");
    assert_eq!(life.more(), [text("one")]);
    life.say("ee\n");
    assert_eq!(life.more(), [text("two")]);
    life.say("{\"result\":\"Done. <goto>NEXT</goto>\"}\n");
    assert_eq!(life.more(), []);
    life.end(HowEnded::Code(0));
    let last = answer("Done. <goto>NEXT</goto>", Some("<goto>NEXT</goto>"));
    assert_eq!(life.more(), [text("three"), last]);
    assert_eq!(life.more(), [], "it is over");
}

#[test]
fn last_text_that_is_the_answer_is_told_once() {
    let mut life = life(&a_turn());
    life.begin();
    life.say("same\n{\"result\":\" same \"}\n");
    life.end(HowEnded::Code(0));
    assert_eq!(life.more(), [prompt(), answer(" same ", None)]);
}

#[test]
fn turn_without_an_answer_ends_with_the_reason() {
    let mut life = life(&a_turn());
    life.begin();
    life.say("half\n{\"error\":\"overloaded\"}\n");
    life.end(HowEnded::Code(1));
    assert_eq!(life.more(), [prompt(), text("half"), failure("overloaded")]);
}

#[test]
fn turn_whose_reaper_was_killed_is_over() {
    let mut life = life(&a_turn());
    life.begin();
    life.say("half\n");
    assert_eq!(life.more(), [prompt()]);
    life.claim = None;
    assert_eq!(life.more(), [text("half"), failure("the step left no answer")]);
    assert_eq!(life.more(), []);
}

#[test]
fn turn_that_is_being_prepared_has_nothing_to_tell_yet() {
    let mut life = life(&a_turn());
    life.folder.create().unwrap();
    assert_eq!(life.more(), [], "there is no prompt yet");
    fs::write(life.folder.prompt(), "Do").unwrap();
    assert_eq!(life.more(), [], "there may be only half of it");
    life.begin();
    assert_eq!(life.more(), [prompt()]);
}

#[test]
fn turn_that_was_forbidden_before_it_had_a_prompt_is_over() {
    let mut life = life(&a_turn());
    life.folder.forbid().unwrap();
    assert_eq!(life.more(), [failure("the step left no answer")]);
}

#[test]
fn later_turn_of_a_process_is_read_where_it_prints_and_then_where_it_is_copied_to() {
    let mut life = life(&a_turn());
    life.begin();
    let first = life.folder.path().parent().unwrap().join("main.0");
    fs::create_dir(&first).unwrap();
    let shared = first.join("stdout");
    fs::write(&shared, "earlier\n").unwrap();
    place_output(life.folder.path(), "", 8, "main.0").unwrap();
    append(shared.clone(), "mine\nmore\n");
    assert_eq!(life.more(), [prompt(), text("mine")]);
    append(shared, "{\"result\":\"x\"}\n");
    life.say("mine\nmore\n{\"result\":\"x\"}\n");
    life.end(HowEnded::Code(0));
    assert_eq!(life.more(), [text("more"), answer("x", None)]);
}

#[test]
fn what_is_printed_after_the_end_of_a_turn_is_not_its_own() {
    let mut life = life(&a_turn());
    life.begin();
    life.say("mine\n{\"result\":\"x\"}\n");
    life.end(HowEnded::Code(0));
    life.say("not mine\n{\"result\":\"y\"}\n");
    assert_eq!(life.more(), [prompt(), text("mine"), answer("x", None)]);
}

#[test]
fn script_is_told_when_it_has_ended_with_both_its_streams() {
    let mut life = life(&script_step());
    life.folder.create().unwrap();
    life.claim();
    life.say("out");
    assert_eq!(life.more(), [], "it runs");
    append(life.folder.stderr(), b"err\xff");
    life.end(HowEnded::Code(3));
    let output = |stream, text: &str| Entry::Output { stream, text: text.to_owned(), left_out: 0 };
    let expected = [
        output(Stream::Stdout, "out"),
        output(Stream::Stderr, "err\u{fffd}"),
        failure("exit code 3"),
    ];
    assert_eq!(life.more(), expected);
    assert_eq!(life.more(), []);
}

#[test]
fn of_much_output_the_end_is_told() {
    let mut life = life(&script_step());
    life.folder.create().unwrap();
    life.claim();
    life.say(&"x".repeat(usize::try_from(OUTPUT_BYTES_MAX).unwrap()));
    life.say("the end");
    life.end(HowEnded::Code(0));
    let entries = life.more();
    let [Entry::Output { text, left_out, .. }] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((*left_out, text.len() as u64), (7, OUTPUT_BYTES_MAX));
    assert!(text.ends_with("the end"));
}

#[test]
fn way_in_which_a_script_ended_badly_is_told() {
    for (how, expected) in [
        (HowEnded::Code(0), None),
        (HowEnded::Signal(9), Some("killed by signal 9")),
        (HowEnded::TimedOut(60), Some("printed nothing for 60 s; killed")),
        (HowEnded::Interrupted, Some("interrupted")),
        (HowEnded::NotRun("bash: gone".to_owned()), Some("not started: bash: gone")),
        (HowEnded::NotRunNow("busy".to_owned()), Some("not started: busy")),
        (HowEnded::Forbidden, Some("never started")),
    ] {
        let mut life = life(&script_step());
        life.folder.create().unwrap();
        life.claim();
        life.end(how.clone());
        let expected: Vec<_> = expected.into_iter().map(failure).collect();
        assert_eq!(life.more(), expected, "{how:?}");
    }
}

#[test]
fn script_that_was_lost_is_over_and_has_nothing_to_tell() {
    let mut life = life(&script_step());
    life.folder.create().unwrap();
    life.claim();
    life.say("half");
    life.claim = None;
    assert_eq!(life.more(), []);
    assert!(life.transcript.is_over);
}

#[test]
fn cost_is_an_entry_of_its_own() {
    let usd = Usd::from_dollars(0.5).unwrap();
    let spent = Spent { cost_usd: usd, duration_ms: 7, ..Spent::default() };
    assert_eq!(cost(&spent), Entry::Cost { usd, duration_ms: 7, model: None });
}
