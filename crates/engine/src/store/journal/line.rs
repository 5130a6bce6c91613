//! One line of the journal.
//!
//! ```text
//! {"v":1,"at":1700000000000,"prev":"d9af6d2a","records":[…],"now":{…},"seal":"5f…","crc":"0a1b2c3d"}
//! ```
//!
//! The seal covers every byte before it, with the user's key: a line that this user's Raymond did not write is foreign, whatever
//! is in it. The line before is part of it through `prev`, so sealed lines cannot be put together anew.
//!
//! The checksum covers every byte before `,"crc"`, so that a line is valid JSON for other tools and
//! damage is still detected. `prev` is the checksum of the previous line (zeros in the first line), so
//! that a dropped, duplicated or moved line is detected, too. Lines written by the first version of
//! Raymond have no `prev`.

use raymond_flow::{
    history::{self, Records},
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

/// A decoded line: its entry, and the checksums that link it to its neighbours.
#[derive(Debug)]
pub(super) struct DecodedLine {
    pub(super) entry: JournalEntry,
    /// The checksum of the previous line; `None` in lines written by the first version.
    pub(super) previous: Option<u32>,
    pub(super) checksum: u32,
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
struct WrittenLine {
    v: u32,
    at: u64,
    prev: String,
    records: Records,
    now: Summary,
}

#[derive(Deserialize)]
struct ReadLine<'a> {
    at: u64,
    #[serde(default, borrow)]
    prev: Option<&'a str>,
    records: Records,
    now: Summary,
}

/// Parsed before the rest: in a newer version the same field names may mean something else.
#[derive(Deserialize)]
struct LineVersion {
    v: u64,
}

/// What the seals of lines are for.
const PURPOSE: &str = "journal";
/// How the field with the seal begins.
const SEAL: &str = ",\"seal\":\"";

/// The length of `,"crc":"0a1b2c3d"}`, which replaces the object's closing brace.
const CHECKSUM_BYTES: usize = 18;

/// The same with the newline: the bytes that precede every line but the first.
pub(super) const LINE_END_BYTES: usize = CHECKSUM_BYTES + 1;

/// Encodes `records` as a line with its newline, to follow a line with the checksum `previous`. `now` is how the run
/// stands after them. Also returns the new line's checksum.
pub(super) fn encode(
    at: u64,
    previous: u32,
    records: &[Record],
    now: Summary,
) -> serde_json::Result<(Vec<u8>, u32)> {
    let prev = format!("{previous:08x}");
    let mut line = serde_json::to_vec(&WrittenLine {
        v: history::VERSION,
        at,
        prev,
        records: records.into(),
        now,
    })?;
    line.pop();
    let seal = seal::seal(PURPOSE, &[&line]);
    line.extend_from_slice(format!("{SEAL}{seal}\"").as_bytes());
    let checksum = crc32fast::hash(&line);
    line.extend_from_slice(format!(",\"crc\":\"{checksum:08x}\"}}\n").as_bytes());
    Ok((line, checksum))
}

/// Decodes a line, given without its newline.
pub(super) fn decode(line: &[u8]) -> Result<DecodedLine, LineError> {
    let split = line.len().checked_sub(CHECKSUM_BYTES).ok_or(LineError::Damaged)?;
    let (covered, rest) = line.split_at(split);
    let checksum = crc32fast::hash(covered);
    if rest != format!(",\"crc\":\"{checksum:08x}\"}}").as_bytes() {
        return Err(LineError::Damaged);
    }
    if !is_sealed(covered) {
        return Err(LineError::Foreign);
    }
    let LineVersion { v } = serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
    if v > u64::from(history::VERSION) {
        return Err(LineError::Newer { version: u32::try_from(v).unwrap_or(u32::MAX) });
    }
    let ReadLine { at, prev, records, now } =
        serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
    let previous = prev.map(|prev| u32::from_str_radix(prev, 16)).transpose();
    let previous = previous.map_err(|_| LineError::Unreadable)?;
    Ok(DecodedLine {
        entry: JournalEntry { at_ms: at, records: records.into() },
        previous,
        checksum,
        now,
    })
}

/// Whether a line, without its checksum, ends with a seal of this user.
fn is_sealed(line: &[u8]) -> bool {
    let end = SEAL.len() + SEAL_CHARS + 1;
    let Some((covered, end)) = line.len().checked_sub(end).map(|at| line.split_at(at)) else {
        return false;
    };
    let seal = end.strip_prefix(SEAL.as_bytes()).and_then(|end| end.strip_suffix(b"\""));
    let seal = seal.and_then(|seal| std::str::from_utf8(seal).ok()).unwrap_or_default();
    seal::is_sealed(PURPOSE, &[covered], seal)
}

/// A line of another user or machine, or one without a seal, with the seal of this user; `None` if it is none at all. The line
/// before has the checksum `previous`, and after it the run stood as `now` says. Also returns its checksum.
pub(super) fn resealed(line: &[u8], previous: u32, now: &mut Summary) -> Option<(Vec<u8>, u32)> {
    let JournalEntry { at_ms, records } = unsealed(line)?;
    *now = now.after(&records);
    encode(at_ms, previous, &records, *now).ok()
}

/// What an intact line says, whoever wrote it.
pub(super) fn unsealed(line: &[u8]) -> Option<JournalEntry> {
    let split = line.len().checked_sub(CHECKSUM_BYTES)?;
    let ReadLine { at, records, .. } = serde_json::from_slice(line).ok()?;
    let checksum = crc32fast::hash(line.get(..split)?);
    let is_intact = line.ends_with(format!(",\"crc\":\"{checksum:08x}\"}}").as_bytes());
    is_intact.then(|| JournalEntry { at_ms: at, records: records.into() })
}

/// Extracts the checksum from the last bytes of a line.
pub(super) fn checksum_in(end: &[u8; LINE_END_BYTES]) -> Option<u32> {
    let digits = end.strip_prefix(b",\"crc\":\"")?.strip_suffix(b"\"}\n")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
