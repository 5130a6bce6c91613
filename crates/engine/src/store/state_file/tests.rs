#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::fs;

use super::*;

/// A run, its journal, and a writer of its state file.
fn writer(folder: &Path) -> (StateFileWriter, Run, Journal) {
    let journal = Journal::create(&folder.join("r.journal")).unwrap();
    let run = Run::new(&crate::testing::started("/flow"));
    (StateFileWriter::new(folder.join("r.json")), run, journal)
}

#[test]
fn state_file_is_written_when_it_is_stale_and_not_before_it_is_due() {
    let folder = tempfile::tempdir().unwrap();
    let (mut writer, run, journal) = writer(folder.path());
    let path = folder.path().join("r.json");
    assert_eq!(writer.patience(), Some(IDLE), "a new one is stale");
    assert!(writer.refresh(&run, &journal).is_none());
    assert!(path.exists());
    assert_eq!(writer.patience(), None, "nothing has to be done");
    fs::remove_file(&path).unwrap();
    // It is fresh.
    writer.written = None;
    assert!(writer.refresh(&run, &journal).is_none());
    assert!(!path.exists());
    // It is stale, but was written a moment ago, and that took long.
    writer.changed();
    (writer.written, writer.cost) = (Some(Instant::now()), Duration::from_hours(1));
    assert!(writer.refresh(&run, &journal).is_none());
    assert!(!path.exists());
    assert_eq!(writer.patience(), Some(IDLE));
    // At the end it is written in any case.
    assert!(writer.write(&run, &journal).is_none());
    assert!(path.exists());
}

#[test]
fn failure_is_told_once_and_tried_again_after_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let (mut writer, run, journal) = writer(folder.path());
    let path = folder.path().join("r.json");
    fs::create_dir(&path).unwrap();
    assert!(writer.refresh(&run, &journal).is_some());
    assert_eq!(writer.patience(), Some(RETRY_INTERVAL));
    fs::remove_dir(&path).unwrap();
    assert!(writer.refresh(&run, &journal).is_none(), "not at once");
    assert!(!path.exists());
    writer.failed = Instant::now().checked_sub(RETRY_INTERVAL);
    assert!(writer.refresh(&run, &journal).is_none());
    assert!(path.exists());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(writer.write(&run, &journal).is_none(), "one is enough");
    assert!(writer.failed.is_some());
}

#[test]
fn reader_never_sees_a_part_and_no_draft_is_left() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.json");
    fs::write(&path, "old").unwrap();
    let open = fs::File::open(&path).unwrap();
    write_atomically(&path, b"new and longer").unwrap();
    assert_eq!(io::read_to_string(open).unwrap(), "old", "the old file was not touched");
    assert_eq!(fs::read_to_string(&path).unwrap(), "new and longer");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(write_atomically(&path, b"x").is_err());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}
