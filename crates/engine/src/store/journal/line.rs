//! One line of the journal.
//!
//! ```text
//! {"at":1700000000000,"prev":"d9…","records":[…],"now":{…},"seal":"5f…","crc":"0a1b2c3d"}
//! ```
//!
//! The seal covers every byte before it, with the user's key: a line that this user's Raymond did not write is foreign, whatever
//! is in it. `prev` is the seal of the previous line (zeros in the first line), so a line that was dropped, duplicated or moved
//! is detected, and sealed lines cannot be put together anew.
//!
//! The checksum covers every byte before `,"crc"`, so that a line is valid JSON for other tools and
//! damage is told from what another program has written. The first line begins with the version of the format, `"v":1`.

use raymond_flow::{
    formats,
    machine::{Record, Summary},
};
use serde::{Deserialize, Serialize};

use crate::trust::seal::{self, SEAL_CHARS};

/// One decision, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalEntry {
    /// When the orchestrator decided, in milliseconds since 1970.
    pub at_ms: u64,
    /// The records of the decision, in order.
    pub records: Vec<Record>,
}

/// The seal of a line as its text: what links it to the line after it.
pub(super) type LineSeal = [u8; SEAL_CHARS];
/// What the first line names as the seal of the line before it.
pub(super) const NO_SEAL: LineSeal = [b'0'; SEAL_CHARS];

/// A decoded line: its entry, and the seals that link it to its neighbours.
#[derive(Debug)]
pub(super) struct DecodedLine {
    pub(super) entry: JournalEntry,
    /// The seal of the previous line.
    pub(super) previous: LineSeal,
    pub(super) seal: LineSeal,
    /// How the run stands after it.
    pub(super) now: Summary,
}

/// Why a line cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineError {
    /// The checksum does not match.
    Damaged,
    /// The checksum matches, but the seal is not that of this user.
    Foreign,
    /// A newer version of Raymond wrote the line.
    Newer { version: u32 },
    /// The checksum matches, but the content cannot be parsed. Such a line must never be discarded.
    Unreadable,
}

#[derive(Serialize)]
struct WrittenLine<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    v: Option<u32>,
    at: u64,
    prev: String,
    records: &'a [Record],
    now: Summary,
}

#[derive(Deserialize)]
struct ReadLine<'a> {
    at: u64,
    #[serde(borrow)]
    prev: &'a str,
    records: Vec<Record>,
    now: Summary,
    #[serde(default, borrow)]
    seal: &'a str,
}

/// Parsed before the rest of the first line: in a newer version the same field names may mean something else.
#[derive(Deserialize)]
struct LineVersion {
    v: u64,
}

/// How the first line begins, and no other.
const VERSION: &[u8] = b"{\"v\":";
/// What the seals of lines are for.
const PURPOSE: &str = "journal";
/// How the field with the seal begins.
const SEAL: &str = ",\"seal\":\"";

/// The length of `,"crc":"0a1b2c3d"}`, which replaces the object's closing brace.
const CHECKSUM_BYTES: usize = 18;

/// The length of `,"seal":"…"`, which comes before it.
const SEAL_BYTES: usize = SEAL.len() + SEAL_CHARS + 1;

/// Both with the newline: the bytes that precede every line but the first.
pub(super) const LINE_END_BYTES: usize = SEAL_BYTES + CHECKSUM_BYTES + 1;

/// Encodes `records` as a line with its newline, to follow a line with the seal `previous`. `now` is how the run
/// stands after them. Also returns the new line's seal.
pub(super) fn encode(
    at: u64,
    previous: LineSeal,
    records: &[Record],
    now: Summary,
) -> serde_json::Result<(Vec<u8>, LineSeal)> {
    let prev = String::from_utf8_lossy(&previous).into_owned();
    let mut line = serde_json::to_vec(&WrittenLine {
        v: (previous == NO_SEAL).then_some(formats::VERSION),
        at,
        prev,
        records,
        now,
    })?;
    line.pop();
    let seal = seal::seal(PURPOSE, &[&line]);
    line.extend_from_slice(format!("{SEAL}{seal}\"").as_bytes());
    let checksum = crc32fast::hash(&line);
    line.extend_from_slice(format!(",\"crc\":\"{checksum:08x}\"}}\n").as_bytes());
    // Without a key there is none, and the line is foreign to every reader.
    Ok((line, seal.as_bytes().try_into().unwrap_or(NO_SEAL)))
}

/// Decodes a line, given without its newline.
pub(super) fn decode(line: &[u8]) -> Result<DecodedLine, LineError> {
    let seal = sealed(intact(line)?).ok_or(LineError::Foreign)?;
    check_version(line)?;
    let ReadLine { at, prev, records, now, .. } =
        serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
    let previous = prev.as_bytes().try_into().map_err(|_| LineError::Unreadable)?;
    let entry = JournalEntry { at_ms: at, records };
    Ok(DecodedLine { entry, previous, seal, now })
}

/// A line without its checksum, if that matches.
fn intact(line: &[u8]) -> Result<&[u8], LineError> {
    let split = line.len().checked_sub(CHECKSUM_BYTES).ok_or(LineError::Damaged)?;
    let (covered, rest) = line.split_at(split);
    let checksum = crc32fast::hash(covered);
    let is_intact = rest == format!(",\"crc\":\"{checksum:08x}\"}}").as_bytes();
    if is_intact { Ok(covered) } else { Err(LineError::Damaged) }
}

fn check_version(line: &[u8]) -> Result<(), LineError> {
    if line.starts_with(VERSION) {
        let LineVersion { v } = serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
        if v > u64::from(formats::VERSION) {
            return Err(LineError::Newer { version: u32::try_from(v).unwrap_or(u32::MAX) });
        }
    }
    Ok(())
}

/// The seal with which a line, without its checksum, ends, if it is one of this user.
fn sealed(line: &[u8]) -> Option<LineSeal> {
    let (covered, end) = line.split_at(line.len().checked_sub(SEAL_BYTES)?);
    let seal = seal_in(end)?;
    let text = std::str::from_utf8(&seal).ok()?;
    seal::is_sealed(PURPOSE, &[covered], text).then_some(seal)
}

/// The seal in `,"seal":"…"`.
fn seal_in(end: &[u8]) -> Option<LineSeal> {
    end.strip_prefix(SEAL.as_bytes())?.strip_suffix(b"\"")?.try_into().ok()
}

/// What an intact line says, whoever wrote it.
pub(super) struct UnsealedLine {
    pub(super) entry: JournalEntry,
    /// The seal of the previous line.
    pub(super) previous: String,
    /// Its own; empty if it has none.
    pub(super) seal: String,
    /// How the run stands after it.
    pub(super) now: Summary,
}

/// Decodes a line without asking for the seal of this user.
pub(super) fn unsealed(line: &[u8]) -> Result<UnsealedLine, LineError> {
    intact(line)?;
    check_version(line)?;
    let ReadLine { at, prev, records, now, seal } =
        serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
    let entry = JournalEntry { at_ms: at, records };
    Ok(UnsealedLine { entry, previous: prev.to_owned(), seal: seal.to_owned(), now })
}

/// Extracts the seal from the last bytes of a line.
pub(super) fn seal_at_end(end: &[u8; LINE_END_BYTES]) -> Option<LineSeal> {
    let (seal, checksum) = end.split_at(SEAL_BYTES);
    let is_end = checksum.starts_with(b",\"crc\":\"") && checksum.ends_with(b"\"}\n");
    seal_in(seal).filter(|_| is_end)
}
