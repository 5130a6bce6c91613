//! Journals damaged by disks and crashes, changed by other programs, or written by newer versions.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use raymond_flow::{
    formats::Snapshot,
    id::{AgentId, RunId, StateName},
    machine::{Halt, Limits, Record, Settings, Spent, Started, Status, Summary},
    money::Usd,
};
use tempfile::TempDir;

use super::{Journal, JournalEntry, JournalError, Opened, Trimmed};

/// A private directory for one test.
struct Place {
    _folder: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.journal");
        Self { _folder: folder, path }
    }

    /// A place with a journal of these decisions.
    fn with(decisions: &[Vec<Record>]) -> Self {
        let place = Self::new();
        let mut journal = Journal::create(&place.path).unwrap();
        for records in decisions {
            journal.append(records).unwrap();
        }
        place
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(&self.path).unwrap()
    }

    fn write(&self, bytes: &[u8]) {
        fs::write(&self.path, bytes).unwrap();
    }

    fn read(&self) -> Vec<JournalEntry> {
        Journal::read(&self.path).unwrap()
    }
}

/// Six decisions of different shapes: of one record and of several, with text that needs escapes.
fn decisions() -> Vec<Vec<Record>> {
    let agent = AgentId::main();
    let started = Started {
        workflow_id: RunId::new("r").unwrap(),
        identity: String::new(),
        state_dir: String::new(),
        scope_dir: "/flow".to_owned(),
        entry: StateName::new("START.md"),
        cwd: "/".to_owned(),
        started_at_ms: 1,
        input: Some("two\nlines, \"quotes\" and ünïcode".to_owned()),
        metadata: std::collections::BTreeMap::new(),
        settings: Settings::default(),
        limits: Limits::default(),
    };
    let spent = Spent { cost_usd: Usd::from_dollars(0.25).unwrap(), ..Spent::default() };
    vec![
        vec![Record::Started(Box::new(started))],
        vec![Record::Queued { agent: agent.clone() }],
        vec![
            Record::Ended { agent: agent.clone(), number: 1, spent },
            Record::Halted { why: Halt::DiskLow { free_bytes: 7 } },
        ],
        vec![Record::Woke { agent: agent.clone() }],
        vec![Record::Called { agent }],
        vec![Record::Finished { status: Status::Paused }],
    ]
}

/// Decisions that describe a run.
fn run_decisions() -> Vec<Vec<Record>> {
    let halted = || vec![Record::Halted { why: Halt::DiskLow { free_bytes: 7 } }];
    let paused = || vec![Record::Finished { status: Status::Paused }];
    let (settings, limits) = (Settings::default(), Limits::default());
    let resumed = vec![Record::Resumed { settings, limits }];
    vec![decisions().remove(0), halted(), paused(), resumed, halted(), paused()]
}

fn more() -> Vec<Record> {
    vec![Record::UsageLimitLifted]
}

/// Where each line starts, and where the last one ends.
fn starts(bytes: &[u8]) -> Vec<usize> {
    let ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    std::iter::once(0).chain(ends).collect()
}

fn offset(at: usize) -> u64 {
    u64::try_from(at).unwrap()
}

#[track_caller]
fn open(path: &Path) -> Opened {
    Journal::open(path).unwrap().unwrap()
}

fn records(entries: &[JournalEntry]) -> Vec<Vec<Record>> {
    entries.iter().map(|entry| entry.records.clone()).collect()
}

/// A line with a right seal and checksum, whatever it says; `open_object` lacks its last brace.
fn line(open_object: &str) -> Vec<u8> {
    let seal = crate::trust::seal::seal("journal", &[open_object.as_bytes()]);
    unsealed(&format!("{open_object},\"seal\":\"{seal}\""))
}

/// A first line without its last brace.
fn first(records: &str) -> String {
    let (prev, now) = ("0".repeat(32), "{\"status\":\"running\",\"cost_usd\":0.0}");
    format!("{{\"v\":1,\"at\":1,\"prev\":\"{prev}\",\"records\":{records},\"now\":{now}")
}

/// The seal with which the last line ends.
fn last_seal(bytes: &[u8]) -> String {
    String::from_utf8(bytes[bytes.len() - 52..bytes.len() - 20].to_vec()).unwrap()
}

/// A line with a right checksum.
fn unsealed(open_object: &str) -> Vec<u8> {
    let checksum = crc32fast::hash(open_object.as_bytes());
    format!("{open_object},\"crc\":\"{checksum:08x}\"}}\n").into_bytes()
}

/// Expects that exactly the bytes after `end` were moved to a file beside the journal.
#[track_caller]
fn expect_kept(trimmed: Option<Trimmed>, before: &[u8], end: usize, about: &str) {
    assert_eq!(trimmed.is_some(), end < before.len(), "{about}");
    if let Some(trimmed) = trimmed {
        assert_eq!(trimmed.offset, offset(end), "{about}");
        assert_eq!(trimmed.bytes, offset(before.len() - end), "{about}");
        assert_eq!(fs::read(&trimmed.kept).unwrap(), before[end..], "{about}: it is kept");
        fs::remove_file(trimmed.kept).unwrap();
    }
}

/// Expects that opening finds no line to continue from, and changes nothing.
#[track_caller]
fn expect_nothing_begun(place: &Place, about: &str) {
    let before = place.bytes();
    assert_eq!(place.read(), [], "{about}");
    assert!(Journal::open(&place.path).unwrap().is_none(), "{about}");
    assert_eq!(place.bytes(), before, "{about}: nothing is cut off");
}

/// Opens the damaged journal of `whole` and expects its first `count` entries, a file truncated
/// to them, and that more can be appended.
#[track_caller]
fn expect_shorter(
    place: &Place,
    whole: &[JournalEntry],
    bounds: &[usize],
    count: usize,
    about: &str,
) {
    let before = place.bytes();
    let end = bounds[count];
    assert_eq!(place.read(), whole[..count], "{about}: read");
    assert_eq!(place.bytes(), before, "{about}: reading changes nothing");
    let mut opened = open(&place.path);
    assert_eq!(opened.entries, whole[..count], "{about}");
    expect_kept(opened.trimmed, &before, end, about);
    assert_eq!(opened.journal.offset(), offset(end), "{about}");
    assert_eq!(place.bytes().len(), end, "{about}: the file is cut");
    opened.journal.append(&more()).unwrap();
    assert_eq!(opened.journal.offset(), offset(place.bytes().len()), "{about}");
    let mut expected = records(&whole[..count]);
    expected.push(more());
    assert_eq!(records(&place.read()), expected, "{about}: what is appended reads back");
}

#[track_caller]
fn expect_damaged(place: &Place, at: usize, about: &str) {
    let before = place.bytes();
    let expected = format!("the journal {} is damaged at byte {at}", place.path.display());
    let errors = [Journal::open(&place.path).map(|_| ()), Journal::read(&place.path).map(|_| ())];
    for error in errors.map(Result::unwrap_err) {
        assert!(
            matches!(&error, JournalError::Damaged { offset, .. } if *offset == self::offset(at)),
            "{about}: {error:?}"
        );
        assert_eq!(error.to_string(), expected, "{about}");
    }
    assert_eq!(place.bytes(), before, "{about}: what is damaged is left as it is");
}

#[test]
fn what_is_appended_is_read_back_in_order() {
    let earliest = crate::sys::clock::now_ms();
    let place = Place::with(&decisions());
    let latest = crate::sys::clock::now_ms();
    let entries = place.read();
    assert_eq!(records(&entries), decisions());
    assert!(entries.iter().all(|entry| (earliest..=latest).contains(&entry.at_ms)), "{entries:?}");
    let opened = open(&place.path);
    assert_eq!(opened.entries, entries);
    assert_eq!(opened.trimmed, None);
    assert_eq!(opened.journal.offset(), offset(place.bytes().len()));
}

#[test]
fn every_line_is_json_of_its_own_with_two_checksums_and_the_first_has_the_version() {
    let place = Place::with(&decisions());
    let text = String::from_utf8(place.bytes()).unwrap();
    assert_eq!(text.lines().count(), 6);
    let mut previous = serde_json::Value::from("0".repeat(32));
    for (line, records) in text.lines().zip(decisions()) {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let (covered, _) = line.rsplit_once(",\"crc\"").unwrap();
        let is_first = previous == "0".repeat(32);
        assert_eq!(value["v"].as_u64(), is_first.then_some(1));
        assert_eq!(value["prev"], previous);
        assert_eq!(value["crc"], format!("{:08x}", crc32fast::hash(covered.as_bytes())));
        previous = value["seal"].clone();
        let read: Vec<Record> = serde_json::from_value(value["records"].clone()).unwrap();
        assert_eq!(read, records);
    }
}

#[test]
fn new_journal_is_empty_and_can_be_opened() {
    let place = Place::with(&[]);
    assert_eq!(place.bytes(), b"");
    let opened = open(&place.path);
    assert_eq!((opened.entries, opened.trimmed), (vec![], None));
    assert_eq!(opened.journal.offset(), 0);
}

#[test]
fn sync_changes_nothing_that_can_be_read_and_may_be_asked_for_twice() {
    let place = Place::new();
    let mut journal = Journal::create(&place.path).unwrap();
    journal.sync().unwrap();
    for records in decisions() {
        journal.append(&records).unwrap();
        let before = place.bytes();
        journal.sync().unwrap();
        journal.sync().unwrap();
        assert_eq!(place.bytes(), before);
    }
    assert_eq!(records(&place.read()), decisions());
    let mut opened = open(&place.path);
    opened.journal.sync().unwrap();
    assert_eq!(records(&place.read()), decisions());
}

#[test]
fn create_does_not_touch_a_journal_that_exists() {
    let place = Place::with(&decisions());
    let before = place.bytes();
    let error = Journal::create(&place.path).unwrap_err();
    assert_eq!(error.to_string(), format!("cannot create the journal {}", place.path.display()));
    let JournalError::Io { what: "create", path, source } = error else {
        panic!("{error:?}");
    };
    assert_eq!((path, source.kind()), (place.path.clone(), io::ErrorKind::AlreadyExists));
    assert_eq!(place.bytes(), before);
}

#[test]
fn journal_that_is_not_there_is_an_error_and_is_not_created() {
    let place = Place::new();
    let errors = [Journal::open(&place.path).map(|_| ()), Journal::read(&place.path).map(|_| ())];
    for error in errors.map(Result::unwrap_err) {
        assert_eq!(error.to_string(), format!("cannot open the journal {}", place.path.display()));
        assert!(
            matches!(&error, JournalError::Io { source, .. } if source.kind() == io::ErrorKind::NotFound),
            "{error:?}"
        );
    }
    assert!(!place.path.exists());
}

#[test]
fn reader_sees_at_once_what_the_owner_appends() {
    let place = Place::new();
    let mut journal = Journal::create(&place.path).unwrap();
    for (index, decision) in decisions().iter().enumerate() {
        journal.append(decision).unwrap();
        assert_eq!(records(&place.read()), decisions()[..=index]);
    }
    let mut reopened = open(&place.path).journal;
    reopened.append(&more()).unwrap();
    assert_eq!(place.read().last().unwrap().records, more());
}

#[test]
fn cut_at_every_byte_leaves_just_the_whole_lines_before_the_cut() {
    let place = Place::with(&decisions());
    let (whole, bytes) = (place.read(), place.bytes());
    let bounds = starts(&bytes);
    for length in 0..=bytes.len() {
        place.write(&bytes[..length]);
        let about = format!("cut at byte {length}");
        match bounds.iter().filter(|end| **end <= length).count() - 1 {
            0 if length > 0 => expect_nothing_begun(&place, &about),
            count => expect_shorter(&place, &whole, &bounds, count, &about),
        }
    }
}

/// Damages every byte by `damage` and expects that the damage is found. Nothing but the last line is
/// missing where a crash could have done it: where its end is missing, or a zero is in it.
fn damage_every_byte(damage: impl Fn(u8) -> u8) {
    let place = Place::with(&decisions());
    let (whole, bytes) = (place.read(), place.bytes());
    let bounds = starts(&bytes);
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] = damage(bytes[at]);
        if damaged == bytes {
            continue;
        }
        place.write(&damaged);
        let hit = bounds.iter().filter(|start| **start <= at).count() - 1;
        // Without its newline a line merges with the next one.
        let next_good = if bytes[at] == b'\n' { hit + 2 } else { hit + 1 };
        let about = format!("byte {at} is {:#04x}", damaged[at]);
        let is_unfinished = damaged[at] == 0 || at == bytes.len() - 1;
        if next_good < whole.len() || !is_unfinished {
            expect_damaged(&place, bounds[hit], &about);
        } else {
            expect_shorter(&place, &whole, &bounds, hit, &about);
        }
    }
}

#[test]
fn lowest_bit_flipped_at_every_byte_is_noticed() {
    damage_every_byte(|byte| byte ^ 0x01);
}

#[test]
fn highest_bit_flipped_at_every_byte_is_noticed() {
    damage_every_byte(|byte| byte ^ 0x80);
}

#[test]
fn newline_instead_of_every_byte_is_noticed() {
    damage_every_byte(|_| b'\n');
}

#[test]
fn zero_instead_of_every_byte_is_noticed() {
    damage_every_byte(|_| 0);
}

#[test]
fn line_that_is_missing_a_byte_anywhere_is_noticed() {
    let place = Place::with(&decisions());
    let (whole, bytes) = (place.read(), place.bytes());
    let bounds = starts(&bytes);
    for at in bounds[2]..bounds[3] {
        let mut damaged = bytes.clone();
        damaged.remove(at);
        place.write(&damaged);
        // Even without its newline there is a good line left after the next.
        assert!(whole.len() > 4);
        expect_damaged(&place, bounds[2], &format!("without byte {at}"));
    }
}

#[test]
fn zeros_after_the_last_line_are_cut_off() {
    let place = Place::with(&decisions());
    let (whole, bytes) = (place.read(), place.bytes());
    let bounds = starts(&bytes);
    // One byte, a block, and more than what is read at once.
    for count in [1, 4096, (1 << 20) + 17] {
        let mut file = bytes.clone();
        file.resize(bytes.len() + count, 0);
        place.write(&file);
        expect_shorter(&place, &whole, &bounds, 6, &format!("{count} zeros"));
    }
}

#[test]
fn last_lines_that_became_zeros_are_cut_off() {
    let place = Place::with(&decisions());
    let (whole, bytes) = (place.read(), place.bytes());
    let bounds = starts(&bytes);
    for from in bounds[4]..bytes.len() {
        let mut file = bytes.clone();
        file[from..].fill(0);
        place.write(&file);
        let count = if from < bounds[5] { 4 } else { 5 };
        expect_shorter(&place, &whole, &bounds, count, &format!("zeros from byte {from}"));
    }
}

#[test]
fn zeros_before_a_good_line_are_damage() {
    let place = Place::with(&decisions());
    let bytes = place.bytes();
    let bounds = starts(&bytes);
    let mut file = bytes.clone();
    file[bounds[1]..bounds[2] - 1].fill(0);
    place.write(&file);
    expect_damaged(&place, bounds[1], "a line of zeros");
}

#[test]
fn several_lines_with_zeros_at_the_end_are_cut_off_together() {
    let place = Place::with(&decisions());
    let (whole, mut bytes) = (place.read(), place.bytes());
    let bounds = starts(&bytes);
    bytes.extend_from_slice(b"\0\0\n{\"v\":1,\0\0\0\n\0\"}\nmore");
    place.write(&bytes);
    expect_shorter(&place, &whole, &bounds, 6, "blocks that were never written");
}

#[test]
fn whole_lines_of_garbage_at_the_end_are_refused_and_never_cut_off() {
    for garbage in ["\n", "garbage\n", "{\"v\":1}\nmore", "\0\0\ngarbage\n"] {
        let place = Place::with(&decisions());
        let mut bytes = place.bytes();
        let end = bytes.len();
        bytes.extend_from_slice(garbage.as_bytes());
        place.write(&bytes);
        expect_damaged(&place, end, garbage);
    }
}

#[test]
fn journal_without_one_good_line_is_never_cut_off() {
    let place = Place::with(&decisions());
    let bytes = place.bytes();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let utf16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    place.write(&utf16);
    expect_damaged(&place, 0, "UTF-16");
    place.write(text.replace("\"v\":1", "\"v\": 1").as_bytes());
    expect_damaged(&place, 0, "formatted");
    place.write(text.replace('\n', "\r").as_bytes());
    expect_nothing_begun(&place, "line ends of an old Macintosh");
}

#[test]
fn journal_that_was_converted_to_crlf_is_refused_with_an_error_of_its_own() {
    let place = Place::with(&decisions());
    let bytes = place.bytes();
    let bounds = starts(&bytes);
    for first in [0, 3, 5] {
        let (front, back) = bytes.split_at(bounds[first]);
        let back = String::from_utf8(back.to_vec()).unwrap().replace('\n', "\r\n");
        let converted = [front, back.as_bytes()].concat();
        place.write(&converted);
        let errors =
            [Journal::open(&place.path).map(|_| ()), Journal::read(&place.path).map(|_| ())];
        for error in errors.map(Result::unwrap_err) {
            assert!(
                matches!(&error, JournalError::Crlf { offset: at, .. } if *at == offset(bounds[first])),
                "{error:?}"
            );
        }
        assert_eq!(place.bytes(), converted, "nothing is cut off");
    }
}

#[test]
fn journal_that_is_set_aside_is_kept_if_anything_is_in_it() {
    let place = Place::with(&[]);
    Journal::set_aside(&place.path).unwrap();
    let files = || fs::read_dir(place.path.parent().unwrap()).unwrap().flatten();
    assert_eq!(files().count(), 0);
    place.write(b"{\"v\":1,");
    Journal::set_aside(&place.path).unwrap();
    let kept: Vec<_> = files().map(|entry| fs::read(entry.path()).unwrap()).collect();
    assert_eq!(kept, [b"{\"v\":1,"]);
    assert!(!place.path.exists());
}

#[test]
fn journal_of_a_newer_version_is_reported_and_kept() {
    for (version, records) in [(2, "[{\"teleported\":{\"agent\":\"main\"}}]"), (77, "7")] {
        for is_last in [true, false] {
            let place = Place::new();
            let mut bytes = line(&format!("{{\"v\":{version},\"at\":1,\"records\":{records}"));
            if !is_last {
                bytes.extend(line(&first("[]")));
            }
            place.write(&bytes);
            let errors =
                [Journal::open(&place.path).map(|_| ()), Journal::read(&place.path).map(|_| ())];
            for error in errors.map(Result::unwrap_err) {
                let expected = format!(
                    "the journal {} has format version {version}, newer than this program",
                    place.path.display()
                );
                assert_eq!(error.to_string(), expected);
                assert!(matches!(error, JournalError::Newer { version: v, .. } if v == version));
            }
            assert_eq!(place.bytes(), bytes, "nothing is cut off");
        }
    }
}

#[test]
fn complete_line_that_cannot_be_parsed_is_refused_and_never_cut_off() {
    let place = Place::with(&decisions());
    let bytes = place.bytes();
    let nonsense = line(&first("[{\"teleported\":{}}]"));
    let mut file = bytes.clone();
    file.extend(&nonsense);
    place.write(&file);
    expect_damaged(&place, bytes.len(), "nonsense at the end");
    assert_eq!(place.bytes(), file, "it is still there");
    file.extend(line(&first("[]")));
    place.write(&file);
    expect_damaged(&place, bytes.len(), "nonsense before a good line");
}

#[test]
fn line_that_is_shorter_than_a_checksum_is_damage() {
    let place = Place::new();
    for text in ["\n", "{}\n"] {
        let mut bytes = text.as_bytes().to_vec();
        bytes.extend(line(&first("[]")));
        place.write(&bytes);
        expect_damaged(&place, 0, text);
    }
}

#[test]
fn very_long_line_survives() {
    let place = Place::new();
    let agent = AgentId::main();
    let why = "x\n\"".repeat(1 << 20);
    let long = vec![Record::Retried {
        agent,
        why,
        counts_as: raymond_flow::machine::CountsAs::Nothing,
        delay_ms: 0,
        left: None,
    }];
    let mut journal = Journal::create(&place.path).unwrap();
    journal.append(&long).unwrap();
    journal.append(&more()).unwrap();
    drop(journal);
    assert_eq!(records(&open(&place.path).entries), [long, more()]);
}

#[test]
fn reader_that_finds_a_partial_line_returns_the_complete_ones_and_changes_nothing() {
    let place = Place::with(&decisions());
    let whole = place.read();
    let mut file = fs::OpenOptions::new().append(true).open(&place.path).unwrap();
    let bytes = place.bytes();
    let previous = last_seal(&bytes);
    let next = format!(
        "{{\"at\":9,\"prev\":\"{previous}\",\"records\":[\"usage_limit_lifted\"],\"now\":{{\"status\":\"running\",\"cost_usd\":0.0}}"
    );
    let next = line(&next);
    let (front, back) = next.split_at(next.len() / 2);
    file.write_all(front).unwrap();
    assert_eq!(place.read(), whole);
    file.write_all(back).unwrap();
    let expected: Vec<_> =
        whole.into_iter().chain([JournalEntry { at_ms: 9, records: more() }]).collect();
    assert_eq!(place.read(), expected);
}

#[track_caller]
fn expect_out_of_order(place: &Place, at: usize, about: &str) {
    let before = place.bytes();
    let errors = [Journal::open(&place.path).map(|_| ()), Journal::read(&place.path).map(|_| ())];
    for error in errors.map(Result::unwrap_err) {
        assert!(
            matches!(&error, JournalError::OutOfOrder { offset, .. } if *offset == self::offset(at)),
            "{about}: {error:?}"
        );
    }
    assert_eq!(place.bytes(), before, "{about}: it is left as it is");
}

/// The lines of a journal, each with its end.
fn split(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

#[test]
fn line_that_is_dropped_doubled_or_moved_is_refused() {
    let place = Place::with(&decisions());
    let bytes = place.bytes();
    let (lines, bounds) = (split(&bytes), starts(&bytes));
    for at in 0..lines.len() {
        if at + 1 < lines.len() {
            let mut dropped = lines.clone();
            dropped.remove(at);
            place.write(&dropped.concat());
            expect_out_of_order(&place, bounds[at], &format!("without line {at}"));
        }
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at].clone());
        place.write(&doubled.concat());
        expect_out_of_order(&place, bounds[at + 1], &format!("line {at} twice"));
        for other in at + 1..lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(at, other);
            place.write(&swapped.concat());
            expect_out_of_order(&place, bounds[at], &format!("lines {at} and {other} swapped"));
        }
    }
}

#[test]
fn line_of_another_journal_is_refused() {
    let (place, other) = (Place::with(&decisions()), Place::with(&decisions()[1..]));
    let bytes = place.bytes();
    let foreign = split(&other.bytes()).remove(2);
    place.write(&[bytes.as_slice(), &foreign].concat());
    expect_out_of_order(&place, bytes.len(), "a foreign line");
}

/// A failed run that was continued to its end. Never changed.
const CHAINED: &[u8] = include_bytes!("../../../tests/fixtures/v1/chained.journal");

#[test]
fn journal_of_this_version_is_readable_for_ever() {
    let place = Place::new();
    place.write(CHAINED);
    let entries = place.read();
    assert_eq!(entries.len(), 10);
    assert_eq!(open(&place.path).entries, entries);
    let records = entries.into_iter().flat_map(|entry| entry.records);
    let run = raymond_flow::machine::replay(records.collect::<Vec<_>>()).unwrap();
    assert_eq!(place.bytes(), CHAINED, "nothing is changed by that");
    let state_file = Snapshot::new(&run, offset(CHAINED.len())).to_json().unwrap();
    assert_eq!(state_file, include_str!("../../../tests/fixtures/v1/chained.state.json"));
}

#[test]
fn sync_fails_if_another_process_writes_to_or_removes_the_journal() {
    let place = Place::with(&decisions());
    let mut first = open(&place.path).journal;
    let mut second = open(&place.path).journal;
    first.append(&more()).unwrap();
    first.sync().unwrap();
    second.append(&more()).unwrap();
    let error = second.sync().unwrap_err();
    assert!(error.to_string().starts_with("another process has changed"), "{error}");
    let place = Place::with(&decisions());
    let mut journal = open(&place.path).journal;
    fs::remove_file(&place.path).unwrap();
    journal.append(&more()).unwrap();
    assert_eq!(journal.sync().is_err(), cfg!(unix));
}

#[cfg(unix)]
#[test]
fn fifo_in_the_place_of_a_journal_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.journal");
    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let Err(JournalError::Io { source, .. }) = Journal::open(&path) else {
        panic!("it is no journal")
    };
    assert!(source.to_string().contains("is a FIFO, not a regular file"), "{source}");
}

#[cfg(unix)]
#[test]
fn link_to_a_journal_is_neither_read_nor_written() {
    let place = Place::with(&decisions());
    let link = place.path.with_file_name("link.journal");
    std::os::unix::fs::symlink(&place.path, &link).unwrap();
    for refused in [Journal::open(&link).map(drop), Journal::read(&link).map(drop)] {
        let Err(JournalError::Io { source, .. }) = refused else { panic!("it is a link") };
        assert!(source.to_string().contains("is a link, not a regular file"), "{source}");
    }
}

/// How the run stands by the two ends of its journal.
fn ends(place: &Place) -> Result<Option<Summary>, JournalError> {
    Journal::ends(&place.path).map(|ends| ends.map(|ends| ends.now))
}

#[test]
fn ends_of_a_journal_say_how_the_run_stands_whatever_is_between_them() {
    let all = decisions();
    for count in 1..=all.len() {
        let place = Place::with(&all[..count]);
        let now = Summary::BEGUN.after(all[..count].iter().flatten());
        assert_eq!(ends(&place).unwrap(), Some(now), "{count} decisions");
        // What a killed process or a crashed machine leaves behind them.
        let bytes = place.bytes();
        for tail in [&b"{\"v\":1,\"at\""[..], b"\0\0\0", b"\0\n\0\0\n", &vec![b'x'; 200_000]] {
            place.write(&[&bytes, tail].concat());
            assert_eq!(ends(&place).unwrap(), Some(now), "{count} decisions and a tail");
        }
    }
    let place = Place::with(&all);
    let (mut bytes, whole) = (place.bytes(), ends(&place).unwrap());
    let lines = split(&bytes);
    let between =
        lines[0].len()..bytes.len() - lines[lines.len() - 1].len() - super::line::LINE_END_BYTES;
    bytes[between].fill(b'x');
    place.write(&bytes);
    assert_eq!(ends(&place).unwrap(), whole, "that is for others to find");
    place.write(b"");
    assert_eq!(ends(&place).unwrap(), None);
}

#[test]
fn last_line_of_another_journal_or_program_does_not_say_how_the_run_stands() {
    let (place, other) = (Place::with(&decisions()), Place::with(&decisions()[1..]));
    let bytes = place.bytes();
    let foreign = split(&other.bytes()).remove(2);
    place.write(&[bytes.as_slice(), &foreign].concat());
    assert!(matches!(ends(&place), Err(JournalError::OutOfOrder { .. })));
    let text = String::from_utf8(bytes.clone()).unwrap();
    let (front, last) = text.trim_end().rsplit_once('\n').unwrap();
    let (open, _) = last.rsplit_once(",\"crc\"").unwrap();
    let forged = open.replace("\"cost_usd\":", "\"cost_usd\":1");
    assert_ne!(forged, open);
    place.write(&[format!("{front}\n").into_bytes(), unsealed(&forged)].concat());
    assert!(matches!(ends(&place), Err(JournalError::Foreign { .. })));
    place.write(&[bytes.as_slice(), b"nonsense\n"].concat());
    assert!(matches!(ends(&place), Err(JournalError::Damaged { .. })));
}

#[test]
fn journal_that_another_program_wrote_is_foreign_until_it_is_taken_over() {
    let place = Place::with(&run_decisions());
    let (whole, bytes) = (place.read(), place.bytes());
    let text = String::from_utf8(bytes.clone()).unwrap();
    // The same lines without the key: other seals, or none, with right checksums and a right chain.
    for seal in [Some("0".repeat(32)), Some(String::new()), None] {
        let (mut forged, mut previous) = (Vec::new(), "0".repeat(32));
        for line in text.lines() {
            let (open, _) = line.rsplit_once(",\"seal\"").unwrap();
            let (front, rest) = open.split_once("\"prev\":\"").unwrap();
            let (_, rest) = rest.split_once('"').unwrap();
            let open = format!("{front}\"prev\":\"{previous}\"{rest}");
            previous = seal.clone().unwrap_or_default();
            let seal = seal.as_ref().map(|it| format!(",\"seal\":\"{it}\"")).unwrap_or_default();
            forged.extend(unsealed(&format!("{open}{seal}")));
        }
        place.write(&forged);
        let errors =
            [Journal::open(&place.path).map(|_| ()), Journal::read(&place.path).map(|_| ())];
        for error in errors.map(Result::unwrap_err) {
            assert!(matches!(error, JournalError::Foreign { offset: 0, .. }), "{error:?}");
        }
        assert_eq!(place.bytes(), forged, "it is left as it is");
        Journal::take_over(&place.path).unwrap();
        assert_eq!(place.read(), whole);
    }
    // A line that was changed in place, with a right checksum.
    let (open, _) = text.trim_end().rsplit_once(",\"crc\"").unwrap();
    let (front, last) = open.rsplit_once('\n').unwrap();
    let last = &last.replace("\"paused\"", "\"failed\"");
    place.write(&[format!("{front}\n").into_bytes(), unsealed(last)].concat());
    assert!(matches!(Journal::read(&place.path), Err(JournalError::Foreign { .. })));
    place.write(b"{\"damaged\":1}\n");
    assert!(Journal::take_over(&place.path).is_err());
    assert_eq!(place.bytes(), b"{\"damaged\":1}\n");
}

#[test]
fn journal_in_which_a_line_is_missing_or_moved_is_not_taken_over() {
    let place = Place::with(&run_decisions());
    let bytes = place.bytes();
    let lines = split(&bytes);
    let order = |numbers: &[usize]| {
        numbers.iter().flat_map(|number| lines[*number].clone()).collect::<Vec<u8>>()
    };
    let all: Vec<_> = (0..lines.len()).collect();
    place.write(&order(&all));
    Journal::take_over(&place.path).unwrap();
    let mut wrong = Vec::new();
    for number in 1..lines.len() - 1 {
        let [mut without, mut twice, mut moved] = [all.clone(), all.clone(), all.clone()];
        without.remove(number);
        twice.insert(number, number);
        moved.swap(number, number + 1);
        wrong.extend([without, twice, moved]);
    }
    wrong.push(all[1..].to_vec());
    for numbers in wrong {
        place.write(&order(&numbers));
        let refused = Journal::take_over(&place.path).unwrap_err().to_string();
        assert!(refused.contains("does not follow the one before"), "{numbers:?}: {refused}");
        assert_eq!(place.bytes(), order(&numbers), "it is left as it is");
    }
}

/// Without seals nothing links the lines but what they say.
#[test]
fn journal_without_seals_is_taken_over_only_if_it_describes_a_run() {
    let place = Place::with(&run_decisions());
    let text = String::from_utf8(place.bytes()).unwrap();
    let none = "0".repeat(32);
    let lines: Vec<_> = text
        .lines()
        .map(|line| {
            let (open, _) = line.rsplit_once(",\"seal\"").unwrap();
            let (front, rest) = open.split_once("\"prev\":\"").unwrap();
            let (_, rest) = rest.split_once('"').unwrap();
            unsealed(&format!("{front}\"prev\":\"{none}\"{rest}"))
        })
        .collect();
    place.write(&lines.concat());
    assert!(Journal::read_foreign(&place.path).is_ok());
    let without = [&lines[..1], &lines[2..]].concat().concat();
    place.write(&without);
    let refused = Journal::take_over(&place.path).unwrap_err().to_string();
    assert!(refused.contains("does not fit") || refused.contains("does not follow"), "{refused}");
    assert_eq!(place.bytes(), without);
}
