//! How a step ended, as its reaper writes it down.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Seek as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{private, regular, sys};

/// The room that is reserved before the child starts: a full disk must not lose the outcome.
pub(crate) const EXIT_RECORD_BYTES: u32 = 4096;

/// The first line: who looks after the step.
#[derive(Debug, Serialize, Deserialize)]
struct ClaimLine {
    reaper: u32,
    /// The identity of the run whose step it is; empty if the run has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    run: String,
}

/// The second line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    /// How.
    pub(crate) how: HowEnded,
    /// How long it ran.
    pub(crate) duration_ms: u64,
    /// How much it printed. If its file has less, the machine lost it, and so the outcome.
    #[serde(default)]
    pub(crate) stdout_bytes: u64,
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HowEnded {
    /// By itself, with this code.
    Code(i32),
    /// By a signal that was not ours.
    Signal(i32),
    /// It printed nothing for so many seconds and was ended.
    TimedOut(u64),
    /// It was ended because somebody asked for it.
    Interrupted,
    /// It could not be started.
    NotRun(String),
    /// Likewise, for want of something that may be there later.
    NotRunNow(String),
    /// Nobody started it, and nobody may any more.
    Forbidden,
}

impl HowEnded {
    /// Whether a child ran that printed to the files of its step.
    pub(crate) fn has_output(&self) -> bool {
        match self {
            Self::Code(_) | Self::Signal(_) | Self::TimedOut(_) | Self::Interrupted => true,
            Self::NotRun(_) | Self::NotRunNow(_) | Self::Forbidden => false,
        }
    }
}

/// The exclusive right to start a step, held by its reaper.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
    line_length: u64,
}

impl Claim {
    /// Claims the step of run `run` whose `exit` file is `path`. Fails if anybody ever did before.
    ///
    /// The file gets its name only when it is locked and says whose it is: nobody ever sees a claim
    /// that looks like a lost one.
    pub(crate) fn take(path: &Path, run: &str, is_durable: bool) -> io::Result<Self> {
        let own = path.with_extension(std::process::id().to_string());
        // Whoever left a file of that name was killed and had our number.
        let _ = fs::remove_file(&own);
        let claim = Self::create(&own, run)?;
        if is_durable {
            claim.file.sync_all()?;
        }
        let named = sys::rename_new(&own, path).or_else(|error| match error.kind() {
            // Some systems and file systems cannot; all of those that matter can link.
            io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported => {
                fs::hard_link(&own, path).and_then(|()| fs::remove_file(&own))
            }
            _ => Err(error),
        });
        if let Err(error) = named {
            let _ = fs::remove_file(&own);
            return Err(error);
        }
        if is_durable && let Some(folder) = path.parent() {
            sys::sync_folder(folder)?;
        }
        Ok(claim)
    }

    /// Makes the `exit` file in a folder that nobody else looks at yet.
    pub(crate) fn create(path: &Path, run: &str) -> io::Result<Self> {
        let mut options = private::options();
        let file = options.read(true).write(true).create_new(true).open(path)?;
        let prepare = || -> io::Result<u64> {
            sys::lock(&file)?;
            sys::reserve(&file, EXIT_RECORD_BYTES)?;
            write_claim(&file, run)
        };
        match prepare() {
            Ok(line_length) => Ok(Self { file, line_length }),
            Err(error) => {
                // No room for the outcome: nothing is claimed.
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Says whose step it is, if that was not known when the `exit` file was made. To be done before
    /// anything of the step is started.
    #[cfg(not(portable))]
    pub(crate) fn assign(&mut self, run: &str) -> io::Result<()> {
        self.line_length = write_claim(&self.file, run)?;
        Ok(())
    }

    /// Writes down how the step ended. The room for it is there since the claim.
    pub(crate) fn end(&self, record: &ExitRecord, is_durable: bool) -> io::Result<()> {
        sys::write_all_at(&self.file, &line(record)?, self.line_length)?;
        if is_durable { self.file.sync_data() } else { Ok(()) }
    }
}

/// Writes the first line; returns its length.
fn write_claim(file: &File, run: &str) -> io::Result<u64> {
    let line = line(&ClaimLine { reaper: std::process::id(), run: run.to_owned() })?;
    sys::write_all_at(file, &line, 0)?;
    Ok(line.len() as u64)
}

/// A value on one line, short enough for the room that is reserved for both lines.
fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    if line.len() > EXIT_RECORD_BYTES as usize / 2 {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(line)
}

/// What an `exit` file says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The step ended so.
    Ended(ExitRecord),
    /// Its reaper holds the lock.
    Running {
        /// The reaper, if it has already said who it is.
        reaper: Option<sys::Pid>,
    },
    /// Nobody holds it, and nothing was written down.
    Lost,
}

/// Reads the `exit` file at `path`: the identity of the run that claimed the step, and how the step
/// stands. `None` if there is no such file. The identity is `None` if it cannot be read: a loss of power
/// can leave zeros in the place of a claim that was not made durable.
pub(crate) fn read(path: &Path) -> io::Result<Option<(Option<String>, Read)>> {
    let file = match regular::open(path) {
        Ok(file) => file,
        // Something else was put there.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Ok(Some((None, Read::Lost)));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if let (claim, Some(record)) = parse(&file)? {
        return Ok(Some((claim.map(|claim| claim.run), Read::Ended(record))));
    }
    let is_held = match sys::try_lock_shared(&file) {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(error)) => return Err(error),
    };
    // The reaper may have ended between the two looks: what it wrote counts.
    let (claim, record) = parse(&file)?;
    let (reaper, run) = claim.map(|claim| (claim.reaper, claim.run)).unzip();
    let reaper = reaper.and_then(|reaper| sys::Pid::try_from(reaper).ok());
    let read = match record {
        Some(record) => Read::Ended(record),
        None if is_held => Read::Running { reaper },
        None => Read::Lost,
    };
    Ok(Some((run, read)))
}

fn parse(mut file: &File) -> io::Result<(Option<ClaimLine>, Option<ExitRecord>)> {
    let mut bytes = Vec::with_capacity(EXIT_RECORD_BYTES as usize);
    file.rewind()?;
    file.take(u64::from(EXIT_RECORD_BYTES)).read_to_end(&mut bytes)?;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    // A line that is not complete was never written: the rest of the room is zeros.
    let mut next = || lines.next().filter(|line| line.ends_with(b"\n"));
    let claim = next().and_then(|line| serde_json::from_slice(line).ok());
    let record = next().and_then(|line| serde_json::from_slice(line).ok());
    Ok((claim, record))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn claim_is_taken_although_somebody_with_our_number_died_over_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("exit");
        fs::write(path.with_extension(std::process::id().to_string()), "").unwrap();
        let claim = Claim::take(&path, "a", false).unwrap();
        let (run, read_back) = read(&path).unwrap().unwrap();
        assert_eq!(run.as_deref(), Some("a"));
        assert!(matches!(read_back, Read::Running { reaper: Some(_) }));
        let again = Claim::take(&path, "a", false).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        drop(claim);
        assert_eq!(read(&path).unwrap(), Some((Some("a".to_owned()), Read::Lost)));
    }
}
