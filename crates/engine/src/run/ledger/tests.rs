#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::path::Path;

use raymond_flow::machine::{Halt, Limits, Settings, Status};
use tempfile::TempDir;

use super::*;
use crate::{
    store::layout::StateDir,
    testing::{Recorder, started},
    trust::private,
};

fn files(root: &Path) -> RunFiles {
    let files = StateDir::new(root.join(".raymond")).run(&RunId::new("r").unwrap());
    private::create_dir_all(&files.steps).unwrap();
    files
}

fn begun<'a>(root: &TempDir, observer: &'a mut Recorder) -> Ledger<'a> {
    let files = files(root.path());
    let lock = RunLock::take(&files.lock).unwrap();
    let (ledger, effects) = Ledger::begin(started("/flow"), files, lock, observer).unwrap();
    assert!(matches!(effects[..], [Effect::Prepare { .. }]));
    ledger
}

fn opened<'a>(root: &TempDir, observer: &'a mut Recorder) -> Result<Ledger<'a>, EngineError> {
    let files = files(root.path());
    let lock = RunLock::take(&files.lock).unwrap();
    Ledger::open(&RunId::new("r").unwrap(), files, lock, observer)
}

fn resume() -> Input {
    Input::Resume { settings: Settings::default(), limits: Limits::default() }
}

#[test]
fn observer_sees_every_record_of_the_journal_in_its_order() {
    let root = tempfile::tempdir().unwrap();
    let seen = Recorder::default();
    let mut first = seen.clone();
    let mut ledger = begun(&root, &mut first);
    ledger.input(Input::Halt(Halt::Interrupted)).unwrap();
    drop(ledger.close());
    let mut second = seen.clone();
    let mut ledger = opened(&root, &mut second).unwrap();
    ledger.input(resume()).unwrap();
    ledger.input(Input::Halt(Halt::Cancelled)).unwrap();
    assert_eq!(ledger.close().status, Status::Cancelled);
    let journal = Journal::read(&files(root.path()).journal).unwrap();
    let journal: Vec<_> = journal.into_iter().flat_map(|entry| entry.records).collect();
    assert_eq!(seen.records(), journal);
    let is_there = |what: fn(&Record) -> bool| journal.iter().any(what);
    assert!(is_there(|record| matches!(record, Record::Started(_))));
    assert!(is_there(|record| matches!(record, Record::Resumed { .. })));
    assert!(is_there(|record| matches!(record, Record::Halted { why: Halt::Cancelled })));
}

#[test]
fn run_that_is_opened_again_is_the_one_that_was_closed() {
    let root = tempfile::tempdir().unwrap();
    let mut ignored = Recorder::default();
    let mut ledger = begun(&root, &mut ignored);
    ledger.input(Input::Halt(Halt::Interrupted)).unwrap();
    let closed = ledger.close();
    assert_eq!(closed.status, Status::Paused);
    let mut ignored = Recorder::default();
    assert_eq!(*opened(&root, &mut ignored).unwrap().run(), closed);
    // The journal alone tells the same.
    fs::remove_file(files(root.path()).state).unwrap();
    assert_eq!(*opened(&root, &mut ignored).unwrap().run(), closed);
}

#[test]
fn run_whose_lock_is_lost_changes_nothing_more() {
    let root = tempfile::tempdir().unwrap();
    let mut seen = Recorder::default();
    let mut ledger = begun(&root, &mut seen);
    let files = files(root.path());
    let before = fs::read(&files.journal).unwrap();
    fs::remove_file(&files.lock).unwrap();
    let refused = ledger.input(Input::Halt(Halt::Interrupted));
    assert!(matches!(refused, Err(EngineError::LockLost { .. })));
    drop(ledger.close());
    assert_eq!(fs::read(&files.journal).unwrap(), before);
    assert!(!files.state.exists(), "the state file is the next owner's");
}

#[test]
fn state_file_that_cannot_be_written_is_reported_once_and_stops_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut seen = Recorder::default();
    let mut observer = seen.clone();
    let mut ledger = begun(&root, &mut observer);
    let state = files(root.path()).state;
    fs::create_dir(&state).unwrap();
    ledger.refresh();
    ledger.input(Input::Halt(Halt::Interrupted)).unwrap();
    assert_eq!(ledger.close().status, Status::Paused);
    assert_eq!(seen.troubles().len(), 1, "{:?}", seen.troubles());
    fs::remove_dir(&state).unwrap();
    drop(opened(&root, &mut seen).unwrap().close());
    assert!(state.is_file());
}

#[test]
fn journal_with_a_torn_tail_is_trimmed_and_reported() {
    let root = tempfile::tempdir().unwrap();
    let mut ignored = Recorder::default();
    drop(begun(&root, &mut ignored).close());
    let journal = files(root.path()).journal;
    let mut bytes = fs::read(&journal).unwrap();
    bytes.extend_from_slice(b"{\"v\":1,\"half");
    fs::write(&journal, bytes).unwrap();
    let mut seen = Recorder::default();
    drop(opened(&root, &mut seen.clone()).unwrap());
    let trimmed = seen.all(|event| match event {
        Event::JournalTrimmed(trimmed) => Some(trimmed.bytes),
        _ => None,
    });
    assert_eq!(trimmed, [12]);
    seen = Recorder::default();
    drop(opened(&root, &mut seen.clone()).unwrap());
    assert!(seen.troubles().is_empty());
}

#[test]
fn journal_of_another_format_or_nothing_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let mut ignored = Recorder::default();
    let journal = files(root.path()).journal;
    fs::write(&journal, "half a line").unwrap();
    assert!(matches!(opened(&root, &mut ignored), Err(EngineError::Replay { .. })));
}

#[test]
fn run_that_cannot_begin_leaves_no_journal() {
    let root = tempfile::tempdir().unwrap();
    let files = files(root.path());
    let lock = RunLock::take(&files.lock).unwrap();
    fs::remove_file(&files.lock).unwrap();
    let mut ignored = Recorder::default();
    let begun = Ledger::begin(started("/flow"), files.clone(), lock, &mut ignored);
    assert!(matches!(begun.err(), Some(EngineError::LockLost { .. })));
    assert!(!files.journal.exists(), "it would look like a run that cannot be read");
}

#[test]
fn journal_that_another_process_has_changed_stops_the_run_and_leaves_the_state_file_alone() {
    let root = tempfile::tempdir().unwrap();
    let mut ignored = Recorder::default();
    let mut ledger = begun(&root, &mut ignored);
    ledger.input(Input::Halt(Halt::Interrupted)).unwrap();
    let files = files(root.path());
    let mut bytes = fs::read(&files.journal).unwrap();
    bytes.extend_from_slice(b"{}\n");
    fs::write(&files.journal, bytes).unwrap();
    let error = ledger.sync().unwrap_err();
    assert!(matches!(&error, EngineError::Journal(JournalError::Io { what: "make durable", .. })));
    drop(ledger.close());
    assert!(!files.state.exists());
}

#[test]
fn state_file_of_whatever_content_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut ignored = Recorder::default();
    let mut ledger = begun(&root, &mut ignored);
    ledger.input(Input::Halt(Halt::Interrupted)).unwrap();
    let closed = ledger.close();
    let files = files(root.path());
    let written = fs::read_to_string(&files.state).unwrap();
    fs::write(&files.state, written.replace("10.0", "99999.0")).unwrap();
    assert_eq!(*opened(&root, &mut ignored).unwrap().run(), closed);
}

#[test]
fn journal_that_is_damaged_in_the_middle_is_neither_opened_nor_changed() {
    let root = tempfile::tempdir().unwrap();
    let mut ignored = Recorder::default();
    let mut ledger = begun(&root, &mut ignored);
    for _ in 0..3 {
        ledger.input(Input::Halt(Halt::Interrupted)).unwrap();
        ledger.input(resume()).unwrap();
    }
    drop(ledger.close());
    let files = files(root.path());
    let mut bytes = fs::read(&files.journal).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&files.journal, &bytes).unwrap();
    assert!(matches!(opened(&root, &mut ignored), Err(EngineError::Journal(_))));
    assert_eq!(fs::read(&files.journal).unwrap(), bytes);
}
