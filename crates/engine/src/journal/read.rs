//! Reading a journal back: which lines count, and which end was never finished.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use super::{
    Entry, JournalError,
    line::{self, LineError},
};

/// The longest line that is written and read: the largest answer of an agent twice, with every
/// character escaped, is shorter. Neither is an unfinished end longer.
pub(super) const LINE_BYTES_MAX: u64 = 1 << 30;

/// Reads the lines from byte `from` to the end of `file`. Returns also where the last whole line
/// ends: what follows it was never finished.
pub(super) fn read_lines(
    path: &Path,
    mut file: &File,
    from: u64,
) -> Result<(Vec<Entry>, u64), JournalError> {
    let io = JournalError::io("read", path);
    file.seek(SeekFrom::Start(from)).map_err(io)?;
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut lines = Lines { path, from, entries: Vec::new(), end: from, at: from, has_end: false };
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = reader.by_ref().take(LINE_BYTES_MAX);
        if limited.read_until(b'\n', &mut line).map_err(io)? == 0 {
            return Ok((lines.entries, lines.end));
        }
        lines.add(&line)?;
        lines.at += line.len() as u64;
    }
}

/// The lines of a journal so far.
struct Lines<'a> {
    path: &'a Path,
    from: u64,
    entries: Vec<Entry>,
    /// Where the last whole line ends.
    end: u64,
    /// Where the next line starts; further than `end` if what is between was never finished.
    at: u64,
    /// Whether a line end is in what was never finished.
    has_end: bool,
}

impl Lines<'_> {
    /// Adds the next line, which has a line end unless the file ends in it.
    fn add(&mut self, line: &[u8]) -> Result<(), JournalError> {
        let whole = line.strip_suffix(b"\n");
        let decoded = whole.map_or(Err(LineError::Damaged), line::decode);
        let is_behind_damage = self.at > self.end;
        match decoded {
            Ok(entry) if !is_behind_damage => {
                self.entries.push(entry);
                self.end = self.at + line.len() as u64;
                Ok(())
            }
            // Something good after something bad: that was not an unfinished end.
            Ok(_) => Err(self.damaged(self.end)),
            Err(LineError::Newer { version }) => {
                Err(JournalError::Newer { path: self.path.to_owned(), version })
            }
            Err(LineError::Unreadable) => Err(self.damaged(self.at)),
            Err(LineError::Damaged) => {
                let crlf = whole.and_then(|line| line.strip_suffix(b"\r"));
                if crlf.is_some_and(|line| line::decode(line).is_ok()) {
                    return Err(JournalError::Crlf { path: self.path.to_owned(), offset: self.at });
                }
                self.add_unfinished(line)
            }
        }
    }

    /// Accepts `line` as part of an unfinished end, if an interrupted write can leave it behind: a
    /// last line that lacks its end, or one with zeros where the disk never got what was written (no
    /// line has a zero in it). Anything else was written once and changed later.
    fn add_unfinished(&mut self, line: &[u8]) -> Result<(), JournalError> {
        let is_whole = line.ends_with(b"\n");
        let length = self.at - self.end + line.len() as u64;
        if is_whole && !line.contains(&0) || length >= LINE_BYTES_MAX {
            return Err(self.damaged(self.end));
        }
        self.has_end |= is_whole;
        // With nothing good before it, this is more likely a file in another encoding.
        let is_first = self.from == 0 && self.entries.is_empty();
        if is_first && self.has_end { Err(self.damaged(0)) } else { Ok(()) }
    }

    fn damaged(&self, offset: u64) -> JournalError {
        JournalError::Damaged { path: self.path.to_owned(), offset }
    }
}

/// Whether a line starts at byte `offset` of `file`.
pub(super) fn is_line_start(mut file: &File, offset: u64) -> io::Result<bool> {
    let Some(before) = offset.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    file.seek(SeekFrom::Start(before))?;
    file.read_exact(&mut byte)?;
    Ok(byte == *b"\n")
}
