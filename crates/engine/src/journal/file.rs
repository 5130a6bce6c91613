//! The journal's file: append, make durable, and read back after anything.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use raymond_flow::machine::Record;
use thiserror::Error;

use super::{
    Entry,
    line::{self, LineError},
};
use crate::{clock, sys};

/// A journal open for appending. There is one writer: the owner of the run.
#[derive(Debug)]
pub struct Journal {
    file: File,
    /// The end of the last whole line.
    offset: u64,
    is_durable: bool,
}

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum JournalError {
    /// The file system says no.
    #[error("cannot {what} the journal {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// Damaged in the middle: whatever follows cannot be trusted to follow.
    #[error("the journal {} is damaged at byte {offset}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where the damaged line starts.
        offset: u64,
    },
    /// Written by a newer program.
    #[error("the journal {} has format version {version}, newer than this program", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
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
}

impl Journal {
    /// Starts a new journal. Fails if there is one.
    pub fn create(path: &Path) -> Result<Self, JournalError> {
        let io = |source| JournalError::Io { what: "create", path: path.to_owned(), source };
        let file = OpenOptions::new().create_new(true).append(true).open(path).map_err(io)?;
        if let Some(folder) = path.parent() {
            sys::sync_folder(folder).map_err(io)?;
        }
        Ok(Self { file, offset: 0, is_durable: true })
    }

    /// Opens a journal for appending and reads it from byte `from`, which must be the start of a
    /// line; `None` if it is not. An unfinished end is cut off.
    pub fn open(path: &Path, from: u64) -> Result<Option<Opened>, JournalError> {
        let io = |what| move |source| JournalError::Io { what, path: path.to_owned(), source };
        let mut file = OpenOptions::new().read(true).append(true).open(path).map_err(io("open"))?;
        let length = file.metadata().map_err(io("open"))?.len();
        if from > length || !is_line_start(&mut file, from).map_err(io("read"))? {
            return Ok(None);
        }
        file.seek(SeekFrom::Start(from)).map_err(io("read"))?;
        let (entries, end) = read_lines(path, &file, from)?;
        let trimmed = (end < length).then(|| Trimmed { offset: end, bytes: length - end });
        if trimmed.is_some() {
            // What is open for appending only cannot be cut everywhere.
            let whole = OpenOptions::new().write(true).open(path).map_err(io("mend"))?;
            whole.set_len(end).map_err(io("mend"))?;
            whole.sync_all().map_err(io("mend"))?;
        }
        Ok(Some(Opened {
            journal: Self { file, offset: end, is_durable: false },
            entries,
            trimmed,
        }))
    }

    /// Reads a journal that somebody else may own, without changing anything.
    pub fn read(path: &Path) -> Result<Vec<Entry>, JournalError> {
        Self::read_from(path, 0).map(|(entries, _)| entries)
    }

    /// The same from byte `from`, which must be the start of a line. Tells also where the last
    /// whole line ends.
    pub fn read_from(path: &Path, from: u64) -> Result<(Vec<Entry>, u64), JournalError> {
        let io = |source| JournalError::Io { what: "open", path: path.to_owned(), source };
        let mut file = File::open(path).map_err(io)?;
        file.seek(SeekFrom::Start(from)).map_err(io)?;
        read_lines(path, &file, from)
    }

    /// How many bytes it has.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Adds one decision. It is safe from a crash of this program at once, from a crash of the
    /// machine after [`sync`](Self::sync).
    pub fn append(&mut self, records: &[Record]) -> io::Result<()> {
        let line = line::encode(clock::now_ms(), records)?;
        if let Err(error) = self.file.write_all(&line) {
            // Half a line is no line; if it cannot be taken back, the next reader cuts it off.
            let _ = self.file.set_len(self.offset);
            return Err(error);
        }
        self.offset += line.len() as u64;
        self.is_durable = false;
        Ok(())
    }

    /// Makes everything that was appended durable.
    pub fn sync(&mut self) -> io::Result<()> {
        if !self.is_durable {
            self.file.sync_data()?;
            self.is_durable = true;
        }
        Ok(())
    }
}

fn is_line_start(file: &mut File, offset: u64) -> io::Result<bool> {
    let Some(before) = offset.checked_sub(1) else {
        return Ok(true);
    };
    let mut byte = [0];
    file.seek(SeekFrom::Start(before))?;
    file.read_exact(&mut byte)?;
    Ok(byte == *b"\n")
}

/// Reads whole lines up to the end, or up to a damaged one that nothing good follows. Returns
/// where that is.
fn read_lines(path: &Path, file: &File, from: u64) -> Result<(Vec<Entry>, u64), JournalError> {
    let io = |source| JournalError::Io { what: "read", path: path.to_owned(), source };
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut entries = Vec::new();
    let mut end = from;
    let mut damaged = None;
    let mut at = from;
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.read_until(b'\n', &mut line).map_err(io)? as u64;
        if length == 0 {
            return Ok((entries, end));
        }
        let decoded = match line.strip_suffix(b"\n") {
            Some(line) => line::decode(line),
            None => Err(LineError::Damaged),
        };
        match (decoded, damaged) {
            (Ok(entry), None) => {
                entries.push(entry);
                end = at + length;
            }
            // Something good after something bad: this is not an unfinished end.
            (Ok(_), Some(offset)) => {
                return Err(JournalError::Damaged { path: path.to_owned(), offset });
            }
            (Err(LineError::Newer { version }), _) => {
                return Err(JournalError::Newer { path: path.to_owned(), version });
            }
            (Err(LineError::Unreadable), _) => {
                return Err(JournalError::Damaged { path: path.to_owned(), offset: at });
            }
            (Err(LineError::Damaged), _) => damaged = damaged.or(Some(at)),
        }
        at += length;
    }
}
