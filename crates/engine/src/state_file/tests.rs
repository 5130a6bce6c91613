#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::fs;

use super::*;

/// A run with checksums, and its journal. These samples are never changed.
const STATE: &str = include_str!("../../tests/fixtures/v1/chained.state.json");
const JOURNAL: &[u8] = include_bytes!("../../tests/fixtures/v1/chained.journal");
/// A run as the first version wrote it, without checksums.
const UNSEALED: &str = include_str!("../../tests/fixtures/v1/unchained.state.json");
const UNCHAINED: &[u8] = include_bytes!("../../tests/fixtures/v1/unchained.journal");

fn read_beside(state: &str, journal: &[u8]) -> Option<Snapshot> {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["r.json", "r.journal"].map(|name| folder.path().join(name));
    fs::write(&paths[0], state).unwrap();
    fs::write(&paths[1], journal).unwrap();
    read(&paths[0], &paths[1])
}

#[test]
fn state_file_is_trusted_with_the_journal_that_it_was_written_for() {
    let snapshot = read_beside(STATE, JOURNAL).unwrap();
    assert_eq!(snapshot.journal_offset, JOURNAL.len() as u64);
    let text = Snapshot::to_json(&snapshot.run, snapshot.journal_offset).unwrap();
    let last = JOURNAL.len() - 11..JOURNAL.len() - 3;
    let journal = u32::from_str_radix(std::str::from_utf8(&JOURNAL[last]).unwrap(), 16);
    assert_eq!(seal(&text, journal.unwrap()), STATE);
}

#[test]
fn state_file_that_was_edited_anywhere_is_not_trusted() {
    for (from, to) in [
        ("/tmp/project/flow", "/tmp/another/flow"),
        ("\"completed\"", "\"running\""),
        ("\"budget_usd\": 10.0", "\"budget_usd\": 99.0"),
        ("  ", " "),
        (SEAL, ",\n  \"checksum\": \"0"),
    ] {
        let edited = STATE.replacen(from, to, 1);
        assert_ne!(edited, STATE, "{from}");
        assert!(read_beside(&edited, JOURNAL).is_none(), "{from}");
    }
    let formatted = STATE.trim_end();
    assert!(read_beside(formatted, JOURNAL).is_none());
}

#[test]
fn state_file_of_the_first_version_or_of_another_journal_is_not_trusted() {
    assert!(Snapshot::from_json(UNSEALED).is_ok(), "it is readable all the same");
    assert!(read_beside(UNSEALED, UNCHAINED).is_none());
    // The same length, but another last line.
    let mut other = JOURNAL.to_vec();
    let length = other.len();
    other[length - 5] ^= 1;
    assert!(read_beside(STATE, &other).is_none());
    assert!(read_beside(STATE, &JOURNAL[..length - 1]).is_none());
}

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
