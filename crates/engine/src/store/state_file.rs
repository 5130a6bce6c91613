//! The state file, for people and scripts: refreshed when that is cheap, and replaced atomically. Raymond itself does not read
//! it: anyone could have written it.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{formats::Snapshot, machine::Run};

use crate::store::journal::Journal;

/// The state file may lag behind a busy run by this much. When the run is idle, it is up to date.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Writing takes at most one part in this many of the run's time.
const COST_SHARE: u32 = 20;

/// How long the state file may be stale while the run is idle.
const IDLE: Duration = Duration::from_millis(50);
/// The wait after a failed write.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Writes the state file of one run. If a write fails, nothing is lost: the journal has everything.
#[derive(Debug)]
pub(crate) struct StateFileWriter {
    path: PathBuf,
    written: Option<Instant>,
    cost: Duration,
    is_stale: bool,
    /// When the last write failed; `None` if it succeeded.
    failed: Option<Instant>,
    /// Whether a failure was returned. One report is enough.
    is_told: bool,
}

impl StateFileWriter {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self {
            path,
            written: None,
            cost: Duration::ZERO,
            is_stale: true,
            failed: None,
            is_told: false,
        }
    }

    /// Marks the file as out of date.
    pub(crate) fn changed(&mut self) {
        self.is_stale = true;
    }

    /// How soon [`refresh`](Self::refresh) should be called when nothing happens.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let interval = if self.failed.is_some() { RETRY_INTERVAL } else { IDLE };
        self.is_stale.then_some(interval)
    }

    /// Writes the file if it is stale and a write is due. The longer a write takes, the rarer it is.
    /// Returns the first failure.
    pub(crate) fn refresh(&mut self, run: &Run, journal: &Journal) -> Option<io::Error> {
        if self.failed.is_some_and(|failed| failed.elapsed() < RETRY_INTERVAL) {
            return None;
        }
        let interval = INTERVAL_MIN.max(self.cost * COST_SHARE);
        let is_due = self.written.is_none_or(|written| written.elapsed() >= interval);
        if self.is_stale && is_due { self.write(run, journal) } else { None }
    }

    /// Writes the file now. Returns the first failure.
    pub(crate) fn write(&mut self, run: &Run, journal: &Journal) -> Option<io::Error> {
        let written = self.try_write(run, journal);
        self.failed = written.is_err().then(Instant::now);
        let error = written.err()?;
        (!std::mem::replace(&mut self.is_told, true)).then_some(error)
    }

    fn try_write(&mut self, run: &Run, journal: &Journal) -> io::Result<()> {
        let started = Instant::now();
        let text = Snapshot::new(run, journal.offset()).to_json()?;
        write_atomically(&self.path, text.as_bytes())?;
        self.cost = started.elapsed();
        self.written = Some(Instant::now());
        self.is_stale = false;
        Ok(())
    }
}

/// Replaces the file at `path`: readers see the old or the new contents, never a part.
fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".state-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests;
