//! The journal's file: append, make durable, and open again after anything.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _},
    path::{Path, PathBuf},
};

use raymond_flow::machine::Record;

use super::{
    Entry, JournalError, Position, line,
    read::{LINE_BYTES_MAX, read_lines},
};
use crate::{clock, private, regular, sys};

/// A journal open for appending. There is one writer: the owner of the run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// After the last whole line.
    end: Position,
    is_durable: bool,
}

/// A journal that was read back.
#[derive(Debug)]
pub struct Opened {
    /// Ready for more.
    pub journal: Journal,
    /// Everything from the offset asked for.
    pub entries: Vec<Entry>,
    /// What had to be cut off its end.
    pub trimmed: Option<Trimmed>,
}

/// The unfinished end of a journal. Nothing that was acted upon was in it, or what it led to is
/// found again in the folders of the steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trimmed {
    /// Where it began.
    pub offset: u64,
    /// How much it was.
    pub bytes: u64,
    /// The file that it was moved to.
    pub kept: PathBuf,
}

impl Journal {
    /// Starts a new journal. Fails if there is one.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let io = JournalError::io("create", path);
        let file = private::options().create_new(true).append(true).open(path).map_err(io)?;
        if let Some(folder) = path.parent() {
            sys::sync_folder(folder).map_err(io)?;
        }
        Ok(Self { file, end: Position::START, is_durable: true })
    }

    /// Opens a journal for appending and reads it from byte `from`. An unfinished end is moved to a
    /// file beside it. `None`, and nothing is changed, if no line starts at `from`, or if there is
    /// something in the journal but not one whole line.
    pub fn open(path: &Path, from: u64) -> Result<Option<Opened>, JournalError> {
        let io = |what| JournalError::io(what, path);
        let file = OpenOptions::new().read(true).append(true).open(path).map_err(io("open"))?;
        private::tighten(path).map_err(io("open"))?;
        let length = file.metadata().map_err(io("open"))?.len();
        let Some(from) = Position::at(&file, from).map_err(io("read"))? else {
            return Ok(None);
        };
        let (entries, end) = read_lines(path, &file, from)?;
        if end.offset == 0 && length > 0 {
            return Ok(None);
        }
        let trimmed = (end.offset < length).then(|| trim(path, &file, end.offset)).transpose();
        let trimmed = trimmed.map_err(io("repair"))?;
        let journal = Self { file, end, is_durable: false };
        Ok(Some(Opened { journal, entries, trimmed }))
    }

    /// The checksum of the line that ends at byte `offset`; `None` if none does.
    pub fn checksum_at(path: &Path, offset: u64) -> io::Result<Option<u32>> {
        Ok(Position::at(&regular::open(path)?, offset)?.map(|position| position.checksum))
    }

    /// Moves a journal away in which nothing is, or nothing but an unfinished line.
    pub fn set_aside(path: &Path) -> io::Result<()> {
        if fs::metadata(path)?.len() == 0 {
            return fs::remove_file(path);
        }
        fs::rename(path, kept_path(path, 0))
    }

    /// Reads a journal that somebody else may own, without changing anything.
    pub fn read(path: &Path) -> Result<Vec<Entry>, JournalError> {
        Self::read_from(path, Position::START).map(|(entries, _)| entries)
    }

    /// Reads the first decision of a journal, and nothing else; `None` if there is none.
    pub fn first(path: &Path) -> io::Result<Option<Entry>> {
        let mut line = Vec::new();
        let mut reader = BufReader::new(regular::open(path)?).take(LINE_BYTES_MAX);
        reader.read_until(b'\n', &mut line)?;
        let line = line.strip_suffix(b"\n").and_then(|line| line::decode(line).ok());
        Ok(line.map(|decoded| decoded.entry))
    }

    /// The same from a position that an earlier call has told. Tells also where the last whole line
    /// ends.
    pub fn read_from(path: &Path, from: Position) -> Result<(Vec<Entry>, Position), JournalError> {
        let file = regular::open(path).map_err(JournalError::io("open", path))?;
        read_lines(path, &file, from)
    }

    /// How many bytes it has.
    pub fn offset(&self) -> u64 {
        self.end.offset
    }

    /// The checksum of its last line.
    pub fn checksum(&self) -> u32 {
        self.end.checksum
    }

    /// Adds one decision. It is safe from a crash of this program at once, from a crash of the
    /// machine after [`sync`](Self::sync).
    pub fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let (line, checksum) = line::encode(clock::now_ms(), self.end.checksum, records)?;
        if line.len() as u64 >= LINE_BYTES_MAX {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if let Err(error) = self.file.write_all(&line) {
            // Half a line is no line. If it cannot be taken back, the next reader cuts it off, and nothing
            // may be appended behind it: that error is of another kind than one that passes.
            let taken_back = self.file.set_len(self.end.offset);
            return Err(taken_back.err().map_or(error, io::Error::other));
        }
        let offset = self.end.offset + line.len() as u64;
        self.end = Position { offset, checksum, is_chained: true };
        self.is_durable = false;
        Ok(())
    }

    /// Makes everything that was appended durable. Fails if that is not all, or not what the journal's
    /// name stands for: then the run has a second owner, or none.
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

/// Moves what follows byte `end` to a file beside the journal. It is durable there before it is cut
/// off here.
fn trim(path: &Path, mut file: &File, end: u64) -> io::Result<Trimmed> {
    let kept = kept_path(path, end);
    let mut copy = private::options().create_new(true).write(true).open(&kept)?;
    file.seek(SeekFrom::Start(end))?;
    let bytes = io::copy(&mut file.take(LINE_BYTES_MAX), &mut copy)?;
    copy.sync_all()?;
    if let Some(folder) = path.parent() {
        sys::sync_folder(folder)?;
    }
    // What is open for appending only cannot be cut everywhere.
    let whole = OpenOptions::new().write(true).open(path)?;
    whole.set_len(end)?;
    whole.sync_all()?;
    Ok(Trimmed { offset: end, bytes, kept })
}

/// The file for what was cut off at byte `offset`; the time makes it unlike earlier ones.
fn kept_path(path: &Path, offset: u64) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".trimmed-{offset}-{}", clock::now_ms()));
    PathBuf::from(name)
}
