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
