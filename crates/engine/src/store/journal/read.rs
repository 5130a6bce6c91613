//! Reading a journal back: which lines are valid, and where an unfinished tail begins.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    ops::ControlFlow,
    path::Path,
};

use raymond_flow::machine::Summary;

use super::{
    JournalEntry, JournalError,
    line::{self, LINE_END_BYTES, LineError, LineSeal, NO_SEAL},
};

/// The longest line that is written or read. Twice the largest answer of an agent, with every
/// character escaped, is shorter. An unfinished tail is also limited to this length.
pub(super) const LINE_BYTES_MAX: u64 = 1 << 30;

/// A position between two lines of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalPosition {
    /// The number of bytes before the position.
    pub(super) offset: u64,
    /// The seal of the line before the position.
    pub(super) seal: LineSeal,
    /// How the run stands there, if that line was read.
    pub(super) now: Summary,
}

impl JournalPosition {
    /// The number of bytes before the position.
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Before the first line.
    pub const START: Self = Self { offset: 0, seal: NO_SEAL, now: Summary::BEGUN };

    /// The position at byte `offset` of `file`; `None` if no line starts there.
    pub(super) fn at(mut file: &File, offset: u64) -> io::Result<Option<Self>> {
        if offset == 0 {
            return Ok(Some(Self::START));
        }
        let before = match offset.checked_sub(LINE_END_BYTES as u64) {
            Some(before) if offset <= file.metadata()?.len() => before,
            _ => return Ok(None),
        };
        let mut end = [0; LINE_END_BYTES];
        file.seek(SeekFrom::Start(before))?;
        file.read_exact(&mut end)?;
        let seal = line::seal_at_end(&end);
        Ok(seal.map(|seal| Self { offset, seal, now: Summary::BEGUN }))
    }
}

/// The two ends of a journal.
#[derive(Debug)]
pub struct JournalEnds {
    /// Its first decision.
    pub first: JournalEntry,
    /// How the run stands after the last one.
    pub now: Summary,
}

/// Reads the first and the last complete line of `file`, however many are between them: whether those are intact is not known.
pub(super) fn read_ends(path: &Path, file: &File) -> Result<Option<JournalEnds>, JournalError> {
    let io = JournalError::io("read", path);
    let mut first = None;
    visit_lines(path, file, JournalPosition::START, &mut |entry, _| {
        first = Some(entry);
        ControlFlow::Break(())
    })?;
    let Some(first) = first else { return Ok(None) };
    let mut start = file.metadata().map_err(io)?.len();
    loop {
        // From one line to the one before it, because an unfinished tail may contain newlines.
        start = line_start(file, start).map_err(io)?;
        let Some(from) = JournalPosition::at(file, start).map_err(io)? else { continue };
        let end = visit_lines(path, file, from, &mut |_, _| ControlFlow::Continue(()))?;
        if end.offset > start {
            return Ok(Some(JournalEnds { first, now: end.now }));
        }
    }
}

/// The start of the line of which the last byte is the one before `end`.
fn line_start(mut file: &File, end: u64) -> io::Result<u64> {
    const CHUNK_BYTES: u64 = 64 * 1024;
    let mut to = end.saturating_sub(1);
    let mut chunk = Vec::new();
    while to > 0 {
        let from = to.saturating_sub(CHUNK_BYTES);
        chunk.clear();
        file.seek(SeekFrom::Start(from))?;
        file.take(to - from).read_to_end(&mut chunk)?;
        if let Some(newline) = memchr::memrchr(b'\n', &chunk) {
            return Ok(from + newline as u64 + 1);
        }
        to = from;
    }
    Ok(0)
}

/// Reads the lines from `from` to the end of `file`. Also returns the end of the last complete line:
/// everything after it is an unfinished tail.
pub(super) fn read_lines(
    path: &Path,
    file: &File,
    from: JournalPosition,
) -> Result<(Vec<JournalEntry>, JournalPosition), JournalError> {
    let mut entries = Vec::new();
    let end = visit_lines(path, file, from, &mut |entry, _| {
        entries.push(entry);
        ControlFlow::Continue(())
    })?;
    Ok((entries, end))
}

/// Shows `visit` each entry from `from` on with the position after it, until it breaks off or the file ends. Returns
/// the end of the last line that was shown. Only one line is in memory at a time.
pub(super) fn visit_lines(
    path: &Path,
    mut file: &File,
    from: JournalPosition,
    visit: &mut dyn FnMut(JournalEntry, JournalPosition) -> ControlFlow<()>,
) -> Result<JournalPosition, JournalError> {
    let io = JournalError::io("read", path);
    file.seek(SeekFrom::Start(from.offset)).map_err(io)?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut lines = LineReader { path, end: from, at: from.offset, has_end: false };
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = reader.by_ref().take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut line).map_err(io)? == 0 {
            return Ok(lines.end);
        }
        if let Some(entry) = lines.add(&line)?
            && visit(entry, lines.end).is_break()
        {
            return Ok(lines.end);
        }
        lines.at += line.len() as u64;
    }
}

/// Checks the lines of a journal while it is read.
struct LineReader<'a> {
    path: &'a Path,
    /// The end of the last complete line.
    end: JournalPosition,
    /// The start of the next line. It is beyond `end` if an unfinished tail lies between them.
    at: u64,
    /// Whether the unfinished tail contains a newline.
    has_end: bool,
}

impl LineReader<'_> {
    /// Takes the next line and returns its entry; `None` if it belongs to an unfinished tail. It has a newline unless
    /// the file ends without one.
    fn add(&mut self, line: &[u8]) -> Result<Option<JournalEntry>, JournalError> {
        let whole = line.strip_suffix(b"\n");
        let decoded = whole.map_or(Err(LineError::Damaged), line::decode);
        match decoded {
            // A valid line after an invalid one: the invalid one is damage, not an unfinished tail.
            Ok(_) if self.at > self.end.offset => Err(self.damaged(self.end.offset)),
            Ok(decoded) => {
                if decoded.previous != self.end.seal {
                    let path = self.path.to_owned();
                    return Err(JournalError::OutOfOrder { path, offset: self.at });
                }
                self.end = JournalPosition {
                    offset: self.at + line.len() as u64,
                    seal: decoded.seal,
                    now: decoded.now,
                };
                Ok(Some(decoded.entry))
            }
            Err(LineError::Newer { version }) => {
                Err(JournalError::Newer { path: self.path.to_owned(), version })
            }
            Err(LineError::Foreign) => {
                Err(JournalError::Foreign { path: self.path.to_owned(), offset: self.at })
            }
            Err(LineError::Unreadable) => Err(self.damaged(self.at)),
            Err(LineError::Damaged) => {
                let crlf = whole.and_then(|line| line.strip_suffix(b"\r"));
                if crlf.is_some_and(|line| line::decode(line).is_ok()) {
                    return Err(JournalError::Crlf { path: self.path.to_owned(), offset: self.at });
                }
                self.add_unfinished(line).map(|()| None)
            }
        }
    }

    /// Accepts `line` as part of an unfinished tail, if an interrupted write can leave it behind: a
    /// last line without its newline, or a line with zero bytes where data never reached the disk (a valid
    /// line contains no zero byte). Anything else was changed after it was written.
    fn add_unfinished(&mut self, line: &[u8]) -> Result<(), JournalError> {
        let is_whole = line.ends_with(b"\n");
        let length = self.at - self.end.offset + line.len() as u64;
        if is_whole && !line.contains(&0) || length >= LINE_BYTES_MAX {
            return Err(self.damaged(self.end.offset));
        }
        self.has_end |= is_whole;
        // Without a valid line before it, this is more likely a file in another encoding.
        if self.end.offset == 0 && self.has_end { Err(self.damaged(0)) } else { Ok(()) }
    }

    fn damaged(&self, offset: u64) -> JournalError {
        JournalError::Damaged { path: self.path.to_owned(), offset }
    }
}
