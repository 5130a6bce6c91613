//! The journal's file: append, make durable, and reopen after a crash.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    ops::ControlFlow,
    path::{Path, PathBuf},
};

use raymond_flow::machine::{Record, Summary, replay};

use super::{
    JournalEnds, JournalEntry, JournalError, JournalPosition,
    line::{self, LineError},
    read::{LINE_BYTES_MAX, read_ends, read_lines, visit_lines},
};
use crate::{
    sys,
    sys::clock,
    trust::{private, regular},
};

/// A journal open for appending. It has one writer: the orchestrator that owns the run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// The end of the last complete line.
    end: JournalPosition,
    is_durable: bool,
}

/// A reopened journal.
#[derive(Debug)]
pub struct Opened {
    /// The journal, ready for appending.
    pub journal: Journal,
    /// All entries.
    pub entries: Vec<JournalEntry>,
    /// The unfinished tail that was cut off, if there was one.
    pub trimmed: Option<Trimmed>,
}

/// The unfinished tail of a journal. Either no effect of it was performed, or the result of the
/// effect is found again in the step directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// The byte at which the tail began.
    pub offset: u64,
    /// The length of the tail.
    pub bytes: u64,
    /// The file to which the tail was moved.
    pub kept: PathBuf,
}

impl Journal {
    /// Creates a journal. Fails if the file exists.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let io = JournalError::io("create", path);
        let file = private::options().create_new(true).append(true).open(path).map_err(io)?;
        if let Some(folder) = path.parent() {
            sys::sync_folder(folder).map_err(io)?;
        }
        Ok(Self { file, end: JournalPosition::START, is_durable: true })
    }

    /// Opens a journal for appending, and reads and checks all of it. Moves an unfinished tail to a file beside the
    /// journal. Returns `None` and changes nothing if the journal is not empty but has no complete line.
    pub fn open(path: &Path) -> Result<Option<Opened>, JournalError> {
        let io = |what| JournalError::io(what, path);
        // A FIFO or a device in its place could be opened for writing, and says less when it is read.
        regular::open(path).map_err(io("open"))?;
        let file = private::options().read(true).append(true).open(path).map_err(io("open"))?;
        let length = file.metadata().map_err(io("open"))?.len();
        let (entries, end) = read_lines(path, &file, JournalPosition::START)?;
        if end.offset == 0 && length > 0 {
            return Ok(None);
        }
        let trimmed = (end.offset < length).then(|| trim(path, &file, end.offset)).transpose();
        let trimmed = trimmed.map_err(io("repair"))?;
        let journal = Self { file, end, is_durable: false };
        Ok(Some(Opened { journal, entries, trimmed }))
    }

    /// Removes a journal that is empty, or moves it aside if it holds only an unfinished line.
    pub fn set_aside(path: &Path) -> io::Result<()> {
        if fs::metadata(path)?.len() == 0 {
            return fs::remove_file(path);
        }
        fs::rename(path, kept_path(path, 0))
    }

    /// Reads a journal without changing it. Another process may be appending to it.
    pub fn read(path: &Path) -> Result<Vec<JournalEntry>, JournalError> {
        Self::read_from(path, JournalPosition::START).map(|(entries, _)| entries)
    }

    /// Takes over a journal that another user, another machine or another program wrote: gives every line the seal of this
    /// user. The journal is replaced when that is done. Nothing happens unless [`read_foreign`](Self::read_foreign) can read it.
    pub fn take_over(path: &Path) -> io::Result<()> {
        let (mut sealed, mut previous) = (Vec::new(), line::NO_SEAL);
        let mut now = Summary::BEGUN;
        for JournalEntry { at_ms, records } in Self::read_foreign(path)? {
            now = now.after(&records);
            let (line, seal) = line::encode(at_ms, previous, &records, now)?;
            sealed.extend(line);
            previous = seal;
        }
        crate::store::user::replace(path, &sealed)
    }

    /// The decisions of a journal, whoever wrote it: to be shown, never to be acted on. Fails if a line is damaged or does not
    /// follow the one before it, or if they do not describe a run.
    pub fn read_foreign(path: &Path) -> io::Result<Vec<JournalEntry>> {
        let bytes = regular::read(path, LINE_BYTES_MAX)?;
        let none = String::from_utf8_lossy(&line::NO_SEAL).into_owned();
        let (mut entries, mut before, mut now) = (Vec::new(), none.clone(), Summary::BEGUN);
        for (number, whole) in (1..).zip(bytes.split_inclusive(|byte| *byte == b'\n')) {
            let line = line::unsealed(whole.strip_suffix(b"\n").unwrap_or(whole));
            let line = line.map_err(|error| match error {
                LineError::Newer { version } => io::Error::other(format!(
                    "its format has version {version}, which is newer than this program"
                )),
                _ => io::Error::other(format!("line {number} of it is damaged")),
            })?;
            now = now.after(&line.entry.records);
            // A line without a seal may be followed by one that names none, in either way.
            let is_next = line.previous == before || before.is_empty() && line.previous == none;
            if !is_next || line.now != now {
                let why = format!(
                    "line {number} of it does not follow the one before: a line is missing, duplicated or moved"
                );
                return Err(io::Error::other(why));
            }
            before = line.seal;
            entries.push(line.entry);
        }
        let records = entries.iter().flat_map(|entry| entry.records.iter().cloned());
        replay(records).map_err(io::Error::other)?;
        Ok(entries)
    }

    /// Reads the first decision of a journal, and nothing else; `None` if there is none.
    pub fn first(path: &Path) -> io::Result<Option<JournalEntry>> {
        Self::entry_at(path, 0)
    }

    /// Reads the first and the last line of a journal, and nothing between them; `None` if it has no complete line.
    pub fn ends(path: &Path) -> Result<Option<JournalEnds>, JournalError> {
        let file = regular::open(path).map_err(JournalError::io("open", path))?;
        read_ends(path, &file)
    }

    /// Reads the decision whose line begins at byte `offset`, and nothing else; `None` if none does.
    pub fn entry_at(path: &Path, offset: u64) -> io::Result<Option<JournalEntry>> {
        let mut line = Vec::new();
        let mut file = regular::open(path)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut reader = BufReader::new(file).take(LINE_BYTES_MAX);
        reader.read_until(b'\n', &mut line)?;
        let line = line.strip_suffix(b"\n").and_then(|line| line::decode(line).ok());
        Ok(line.map(|decoded| decoded.entry))
    }

    /// Reads from a position that an earlier call returned. Also returns the end of the last complete
    /// line, at which the next call continues.
    pub fn read_from(
        path: &Path,
        from: JournalPosition,
    ) -> Result<(Vec<JournalEntry>, JournalPosition), JournalError> {
        let file = regular::open(path).map_err(JournalError::io("open", path))?;
        read_lines(path, &file, from)
    }

    /// Shows `visit` each decision from `from` on with the position after it, until it breaks off or the journal ends.
    /// Returns the position after the last that was shown. However long the journal is, one decision is in memory.
    pub fn visit(
        path: &Path,
        from: JournalPosition,
        visit: &mut dyn FnMut(JournalEntry, JournalPosition) -> ControlFlow<()>,
    ) -> Result<JournalPosition, JournalError> {
        let file = regular::open(path).map_err(JournalError::io("open", path))?;
        visit_lines(path, &file, from, visit)
    }

    /// The position at byte `offset`; `None` if no line ends there.
    pub fn position(path: &Path, offset: u64) -> io::Result<Option<JournalPosition>> {
        JournalPosition::at(&regular::open(path)?, offset)
    }

    /// The length of the journal in bytes.
    pub fn offset(&self) -> u64 {
        self.end.offset
    }

    /// Appends one decision. It survives a crash of this process at once, and a crash of the
    /// machine after [`sync`](Self::sync).
    pub fn append(&mut self, records: &[Record]) -> io::Result<()> {
        self.append_at(clock::now_ms(), records)
    }

    /// The same for a decision that was made at this time, in milliseconds since 1970.
    pub(crate) fn append_at(&mut self, at_ms: u64, records: &[Record]) -> io::Result<()> {
        let now = self.end.now.after(records);
        let (line, seal) = line::encode(at_ms, self.end.seal, records, now)?;
        if line.len() as u64 >= LINE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if let Err(error) = self.file.write_all(&line) {
            // Take back the partial line. If that fails, the next reader cuts it off, but this process must
            // not append after it: the error then gets a kind that does not count as transient.
            let taken_back = self.file.set_len(self.end.offset);
            return Err(taken_back.err().map_or(error, io::Error::other));
        }
        let offset = self.end.offset + line.len() as u64;
        self.end = JournalPosition { offset, seal, now };
        self.is_durable = false;
        Ok(())
    }

    /// Makes everything that was appended durable. Fails if the file has another length than this process
    /// wrote, or is no longer the file under the journal's name: then another process has taken over or
    /// deleted the run.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.is_durable {
            let metadata = self.file.metadata()?;
            if metadata.len() != self.end.offset || !sys::has_name(&metadata) {
                let message = "another process has changed, replaced or removed it";
                return Err(io::Error::other(message));
            }
            self.file.sync_data()?;
            self.is_durable = true;
        }
        Ok(())
    }
}

/// Moves everything after byte `end` to a file beside the journal. The copy is durable before the
/// journal is truncated.
fn trim(path: &Path, mut file: &File, end: u64) -> io::Result<Trimmed> {
    let kept = kept_path(path, end);
    let mut copy = private::options().create_new(true).write(true).open(&kept)?;
    file.seek(SeekFrom::Start(end))?;
    let bytes = io::copy(&mut file.take(LINE_BYTES_MAX), &mut copy)?;
    copy.sync_all()?;
    if let Some(folder) = path.parent() {
        sys::sync_folder(folder)?;
    }
    // Some systems cannot truncate a file that is open only for appending.
    let whole = private::options().write(true).open(path)?;
    whole.set_len(end)?;
    whole.sync_all()?;
    Ok(Trimmed { offset: end, bytes, kept })
}

/// The file for a tail cut off at byte `offset`. The time keeps the name unique.
fn kept_path(path: &Path, offset: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".trimmed-{offset}-{}", clock::now_ms()));
    PathBuf::from(name)
}
