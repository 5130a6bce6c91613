#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::fs;

use raymond_flow::{id::AgentId, machine::Record};

use super::*;
use crate::exec::steps::memory::Fate;
use crate::testing::{RESULT, Stage, Written, ended, followed, goto, id, intended, result, says};

/// The words of the records that were read, with the bytes of their decisions.
fn read(follower: &mut Follower) -> Result<Vec<(&'static str, u64, u64)>, EngineError> {
    let mut all = Vec::new();
    let read = follower.read(|read| {
        let Event::Recorded { record, .. } = &read.seen.event else { panic!("{read:?}") };
        let word = match record {
            Record::Started(_) => "started",
            Record::Intended { .. } => "intended",
            Record::Ended { .. } => "ended",
            Record::Followed { .. } => "followed",
            _ => "other",
        };
        all.push((word, read.line, read.offset));
    });
    read.map(|()| all)
}

#[test]
fn each_record_is_shown_once_with_the_bytes_of_its_decision() {
    let mut written = Written::new();
    let start = written.offset();
    let mut follower = Follower::new(id(), written.files());
    assert_eq!(read(&mut follower).unwrap(), [("started", 0, start)]);
    assert_eq!(read(&mut follower).unwrap(), []);
    written.add(2000, [intended("main", 1, "START.sh")]);
    let middle = written.offset();
    written.add(3000, [ended("main", 1, 0.0), followed("main", goto("NEXT.sh"), &[])]);
    let end = written.offset();
    let expected = [("intended", start, middle), ("ended", middle, end), ("followed", middle, end)];
    assert_eq!(read(&mut follower).unwrap(), expected);
    assert_eq!(follower.offset(), end);
    let state = &follower.run().unwrap().agents[&AgentId::main()].current_state;
    assert_eq!(state.as_str(), "NEXT.sh");
}

#[test]
fn another_process_reads_what_the_observers_of_the_run_saw() {
    let stage = Stage::new(
        &["START.md", "NEXT.sh", "WORK.sh"],
        [
            ("START.md", vec![says("<goto>NEXT</goto>")]),
            (
                "NEXT.sh",
                vec![Fate::prints("<fork next=\"NEXT\">WORK</fork>"), Fate::prints(RESULT)],
            ),
            ("WORK.sh", vec![Fate::prints(RESULT)]),
        ],
    );
    let end = stage.start();
    let seen = stage.seen.all(|event| match event {
        Event::Recorded { .. } => Some(format!("{event:?}")),
        _ => None,
    });
    let mut follower = Follower::new(id(), stage.files());
    let mut read = Vec::new();
    follower.read(|record| read.push(format!("{:?}", record.seen.event))).unwrap();
    assert!(seen.len() > 8, "{seen:?}");
    assert_eq!(read, seen);
    assert_eq!(*follower.run().unwrap(), end.run);
}

#[test]
fn line_that_is_being_written_is_left_for_the_next_reading() {
    let mut written = Written::new();
    let mut follower = Follower::new(id(), written.files());
    read(&mut follower).unwrap();
    written.add(2000, [intended("main", 1, "START.sh")]);
    let journal = written.files().journal;
    let whole = fs::read(&journal).unwrap();
    let before = follower.offset();
    for length in [usize::try_from(before).unwrap() + 1, whole.len() - 1] {
        fs::write(&journal, &whole[..length]).unwrap();
        assert_eq!(read(&mut follower).unwrap(), [], "{length}");
        assert_eq!(follower.offset(), before);
    }
    fs::write(&journal, &whole).unwrap();
    assert_eq!(read(&mut follower).unwrap(), [("intended", before, whole.len() as u64)]);
}

#[test]
fn record_that_does_not_fit_is_an_error_and_everything_before_it_was_shown() {
    let mut written = Written::new();
    written.add(2000, [intended("main", 1, "START.sh")]);
    let before = written.offset();
    written.add(3000, [ended("main", 1, 0.0), ended("nowhere", 1, 0.0)]);
    let mut follower = Follower::new(id(), written.files());
    let mut shown = 0;
    let error = follower.read(|_| shown += 1).unwrap_err();
    let EngineError::Replay { source: ReplayError::Unfit { number, .. }, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((shown, number, follower.offset()), (3, 4, before));
}

#[test]
fn journal_that_does_not_begin_with_a_start_is_no_run() {
    let written = Written::new();
    let files = written.files();
    fs::remove_file(&files.journal).unwrap();
    let mut journal = Journal::create(&files.journal).unwrap();
    let mut follower = Follower::new(id(), files);
    follower.read(|_| panic!("the journal is empty")).unwrap();
    let empty = follower.run().unwrap_err();
    assert!(matches!(empty, EngineError::Replay { source: ReplayError::Empty, .. }), "{empty}");
    journal.append(&[Record::Queued { agent: AgentId::main() }]).unwrap();
    let error = follower.read(|_| panic!("there is no run yet")).unwrap_err();
    assert!(matches!(error, EngineError::Replay { source: ReplayError::NoStart, .. }), "{error}");
}

#[test]
fn missing_journal_is_an_error() {
    let written = Written::new();
    fs::remove_file(written.files().journal).unwrap();
    let mut follower = Follower::new(id(), written.files());
    assert!(matches!(read(&mut follower), Err(EngineError::Journal { .. })));
}

#[test]
fn reading_ends_where_the_reader_breaks_off() {
    let mut written = Written::new();
    written.step(("main", 1), "START.sh", (2000, 3000), goto("NEXT.sh"));
    let before = written.offset();
    written.step(("main", 2), "NEXT.sh", (4000, 5000), result("done"));
    let mut follower = Follower::new(id(), written.files());
    let mut times = Vec::new();
    let until_the_second_step = |read: &Read<'_>| {
        times.push(read.seen.at_ms);
        if read.line == before { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    follower.read_until(until_the_second_step).unwrap();
    assert_eq!(times, [1000, 2000, 3000, 3000, 4000]);
    assert_eq!(follower.offset(), before);
}

#[test]
fn run_is_alive_while_a_process_holds_its_lock() {
    let written = Written::new();
    let follower = Follower::new(id(), written.files());
    assert!(!follower.is_alive());
    let lock = RunLock::take(&written.files().lock).unwrap();
    assert!(follower.is_alive());
    drop(lock);
    assert!(!follower.is_alive());
}
