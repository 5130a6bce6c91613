//! The `exit` file of a step: the claim of its reaper, then how the step ended.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read as _, Seek as _},
    path::Path,
};

use serde::{Deserialize, Serialize};

use crate::{
    sys,
    trust::{private, regular},
};

/// Disk space reserved before the child starts, so that a full disk cannot lose the outcome.
pub(crate) const EXIT_RECORD_BYTES: u32 = 4096;

/// The first line: the reaper of the step, and the run that the step belongs to.
#[derive(Debug, Serialize, Deserialize)]
struct ClaimLine {
    reaper: u32,
    /// The identity of the run and a seal: see `StepFolder::claim_text`.
    run: String,
}

/// The second line: how the step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    pub(crate) how: HowEnded,
    pub(crate) duration_ms: u64,
    /// The length of its output. If the `stdout` file is shorter, a machine crash lost output, and the
    /// outcome with it.
    pub(crate) stdout_bytes: u64,
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum HowEnded {
    /// It exited with this code.
    Code(i32),
    /// It was killed by a signal that Raymond did not send.
    Signal(i32),
    /// It printed nothing for this many seconds, and the reaper killed it.
    TimedOut(u64),
    /// It printed lines for a minute of which none is understood, and the reaper killed it.
    NotUnderstood,
    /// The reaper killed it on request.
    Interrupted,
    /// It could not be started.
    NotRun(String),
    /// It could not be started for a transient reason, such as a lack of memory or processes.
    NotRunNow(String),
    /// It was never started, and the orchestrator has claimed it so that it never will be.
    Forbidden,
}

impl HowEnded {
    /// Whether a child ran, so that the step has output files.
    pub(crate) fn has_output(&self) -> bool {
        match self {
            Self::Code(_)
            | Self::Signal(_)
            | Self::TimedOut(_)
            | Self::NotUnderstood
            | Self::Interrupted => true,
            Self::NotRun(_) | Self::NotRunNow(_) | Self::Forbidden => false,
        }
    }
}

/// The exclusive right to start a step. Its reaper holds it.
#[derive(Debug)]
pub(crate) struct Claim {
    file: File,
    line_length: u64,
}

impl Claim {
    /// Claims the step of run `run` whose `exit` file is `path`. Fails with `AlreadyExists` if the step was
    /// ever claimed before.
    ///
    /// The file gets its name only after it is locked and its first line is written, so that no reader
    /// can take a new claim for a lost step.
    pub(crate) fn take(path: &Path, run: &str, is_durable: bool) -> io::Result<Self> {
        Self::publish(path, run, None, is_durable)
    }

    /// Claims a step and ends it at once. A process that is killed in between must not leave a
    /// claim without an end, so the end is written before the file gets its name.
    pub(crate) fn take_ended(
        path: &Path,
        run: &str,
        record: &ExitRecord,
        is_durable: bool,
    ) -> io::Result<()> {
        Self::publish(path, run, Some(record), is_durable).map(drop)
    }

    fn publish(
        path: &Path,
        run: &str,
        ended: Option<&ExitRecord>,
        is_durable: bool,
    ) -> io::Result<Self> {
        let own = path.with_extension(std::process::id().to_string());
        // Left behind by a killed process that had our pid.
        let _ = fs::remove_file(&own);
        let claim = Self::create(&own, run)?;
        if let Some(record) = ended {
            claim.end(record, false)?;
        }
        if is_durable {
            claim.file.sync_all()?;
        }
        if let Err(error) = private::name_new(&own, path) {
            let _ = fs::remove_file(&own);
            return Err(error);
        }
        if is_durable && let Some(folder) = path.parent() {
            sys::sync_folder(folder)?;
        }
        Ok(claim)
    }

    /// Creates the `exit` file directly. Only for a directory that no other process uses yet.
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
                // No space for the outcome: do not claim the step.
                let _ = fs::remove_file(path);
                Err(error)
            }
        }
    }

    /// Writes how the step ended, into the space that the claim has reserved.
    pub(crate) fn end(&self, record: &ExitRecord, is_durable: bool) -> io::Result<()> {
        sys::write_all_at(&self.file, &line(record)?, self.line_length)?;
        if is_durable { self.file.sync_data() } else { Ok(()) }
    }
}

/// Writes the first line and returns its length.
fn write_claim(file: &File, run: &str) -> io::Result<u64> {
    let line = line(&ClaimLine { reaper: std::process::id(), run: run.to_owned() })?;
    sys::write_all_at(file, &line, 0)?;
    Ok(line.len() as u64)
}

/// Serializes a value on one line. At most half of the reserved space, which is for two lines.
fn line<T: Serialize>(value: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    if line.len() > EXIT_RECORD_BYTES as usize / 2 {
        return Err(io::Error::from(io::ErrorKind::FileTooLarge));
    }
    Ok(line)
}

/// The content of an `exit` file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ExitFile {
    /// The step ended.
    Ended(ExitRecord),
    /// Its reaper holds the lock.
    Running {
        /// The reaper, if it has already written its pid.
        reaper: Option<sys::Pid>,
    },
    /// No process holds the lock, and there is no second line.
    Lost,
}

/// Reads the `exit` file at `path`: what the claim says of its run, and the state of the step. `None` if there is no such
/// file. The claim is `None` if it cannot be read: a power loss can leave zeros instead of one that was not made durable.
pub(crate) fn read(path: &Path) -> io::Result<Option<(Option<String>, ExitFile)>> {
    let file = match regular::open(path) {
        Ok(file) => file,
        // Not a regular file: something else has replaced the claim.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
            return Ok(Some((None, ExitFile::Lost)));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if let (claim, Some(record)) = parse(&file)? {
        return Ok(Some((claim.map(|claim| claim.run), ExitFile::Ended(record))));
    }
    let is_held = match sys::try_lock_shared(&file) {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(error)) => return Err(error),
    };
    // The reaper may have finished between the first read and the lock attempt: read again.
    let (claim, record) = parse(&file)?;
    let (reaper, run) = claim.map(|claim| (claim.reaper, claim.run)).unzip();
    let reaper = reaper.and_then(|reaper| sys::Pid::try_from(reaper).ok());
    let read = match record {
        Some(record) => ExitFile::Ended(record),
        None if is_held => ExitFile::Running { reaper },
        None => ExitFile::Lost,
    };
    Ok(Some((run, read)))
}

fn parse(mut file: &File) -> io::Result<(Option<ClaimLine>, Option<ExitRecord>)> {
    let mut bytes = Vec::with_capacity(EXIT_RECORD_BYTES as usize);
    file.rewind()?;
    file.take(u64::from(EXIT_RECORD_BYTES)).read_to_end(&mut bytes)?;
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    // The rest of the reserved space is zeros, so only a line with its newline was written.
    let mut next = || lines.next().filter(|line| line.ends_with(b"\n"));
    let claim = next().and_then(|line| serde_json::from_slice(line).ok());
    let record = next().and_then(|line| serde_json::from_slice(line).ok());
    Ok((claim, record))
}

#[cfg(test)]
mod tests;
