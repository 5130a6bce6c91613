//! One line of the journal.
//!
//! ```text
//! {"v":1,"at":1700000000000,"prev":"d9af6d2a","records":[…],"crc":"0a1b2c3d"}
//! ```
//!
//! The checksum covers every byte before `,"crc"`, so a line is valid JSON for anybody's tools and
//! still cannot be damaged unnoticed. `prev` is the checksum of the line before (zeros in the first
//! line), so no line can be dropped, doubled or moved unnoticed either. Lines of the first version have
//! no `prev`.

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

/// A line that was read: an entry, and how it hangs together with its neighbours.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) entry: Entry,
    /// The checksum of the line before, unless the first version wrote this one.
    pub(super) previous: Option<u32>,
    pub(super) checksum: u32,
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
    prev: String,
    records: Records,
}

#[derive(Deserialize)]
struct Read<'a> {
    at: u64,
    #[serde(default, borrow)]
    prev: Option<&'a str>,
    records: Records,
}

/// Read on its own first: a newer line may mean something else by the same words.
#[derive(Deserialize)]
struct Version {
    v: u64,
}

/// `,"crc":"0a1b2c3d"}` in the place of the object's last brace.
const CHECKSUM_BYTES: usize = 18;

/// The same with the line's end: the bytes before the start of every line but the first.
pub(super) const LINE_END_BYTES: usize = CHECKSUM_BYTES + 1;

/// The line for `records`, with its line end, after a line with the checksum `previous`. Returns also
/// its own checksum.
pub(super) fn encode(
    at: u64,
    previous: u32,
    records: &[Record],
) -> serde_json::Result<(Vec<u8>, u32)> {
    let prev = format!("{previous:08x}");
    let mut line =
        serde_json::to_vec(&Written { v: history::VERSION, at, prev, records: records.into() })?;
    line.pop();
    let checksum = crc32fast::hash(&line);
    line.extend_from_slice(format!(",\"crc\":\"{checksum:08x}\"}}\n").as_bytes());
    Ok((line, checksum))
}

/// Reads a line without its line end.
pub(super) fn decode(line: &[u8]) -> Result<Line, LineError> {
    let split = line.len().checked_sub(CHECKSUM_BYTES).ok_or(LineError::Damaged)?;
    let (covered, rest) = line.split_at(split);
    let checksum = crc32fast::hash(covered);
    if rest != format!(",\"crc\":\"{checksum:08x}\"}}").as_bytes() {
        return Err(LineError::Damaged);
    }
    let Version { v } = serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
    if v > u64::from(history::VERSION) {
        return Err(LineError::Newer { version: u32::try_from(v).unwrap_or(u32::MAX) });
    }
    let Read { at, prev, records } =
        serde_json::from_slice(line).map_err(|_| LineError::Unreadable)?;
    let previous = prev.map(|prev| u32::from_str_radix(prev, 16)).transpose();
    let previous = previous.map_err(|_| LineError::Unreadable)?;
    Ok(Line { entry: Entry { at_ms: at, records: records.into() }, previous, checksum })
}

/// The checksum of a line that ends with `end`.
pub(super) fn checksum_in(end: &[u8; LINE_END_BYTES]) -> Option<u32> {
    let digits = end.strip_prefix(b",\"crc\":\"")?.strip_suffix(b"\"}\n")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}
