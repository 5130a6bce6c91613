//! One line of the journal.
//!
//! ```text
//! {"v":1,"at":1700000000000,"records":[…],"crc":"0a1b2c3d"}
//! ```
//!
//! The checksum covers every byte before `,"crc"`, so a line is valid JSON for anybody's tools and
//! still cannot be damaged unnoticed.

use raymond_flow::{
    history::{self, Records},
    machine::Record,
};
use serde::{Deserialize, Serialize};

/// One decision, and when it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// In milliseconds since 1970.
    pub at_ms: u64,
    /// What became true.
    pub records: Vec<Record>,
}

/// Why a line cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LineError {
    /// Not what was written.
    Damaged,
    /// Written by a newer program.
    Newer { version: u32 },
    /// As it was written, and still not to be understood. Nobody may throw it away.
    Unreadable,
}

#[derive(Serialize)]
struct Written {
    v: u32,
    at: u64,
    records: Records,
}

#[derive(Deserialize)]
struct Read {
    at: u64,
    records: Records,
}

/// Read on its own first: a newer line may mean something else by the same words.
#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// `,"crc":"0a1b2c3d"}` in the place of the object's last brace.
const CHECKSUM_BYTES: usize = 18;

/// The line for `records`, with its newline.
pub(super) fn encode(at: u64, records: &[Record]) -> serde_json::Result<Vec<u8>> {
    let mut line =
        serde_json::to_vec(&Written { v: history::VERSION, at, records: records.into() })?;
    line.pop();
    let checksum = crc32fast::hash(&line);
    line.extend_from_slice(format!(",\"crc\":\"{checksum:08x}\"}}\n").as_bytes());
    Ok(line)
}

/// Reads a line without its newline.
pub(super) fn decode(line: &[u8]) -> Result<Entry, LineError> {
    let split = line.len().checked_sub(CHECKSUM_BYTES).ok_or(LineError::Damaged)?;
    let (covered, rest) = line.split_at(split);
    let expected = format!(",\"crc\":\"{:08x}\"}}", crc32fast::hash(covered));
    if rest != expected.as_bytes() {
        return Err(LineError::Damaged);
    }
    let Version { v } = serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
    if v > u64::from(history::VERSION) {
        return Err(LineError::Newer { version: u32::try_from(v).unwrap_or(u32::MAX) });
    }
    let Read { at, records } = serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
    Ok(Entry { at_ms: at, records: records.into() })
}
