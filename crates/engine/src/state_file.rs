//! The state file: refreshed when that is cheap, written at once or not at all.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{machine::Run, snapshot::Snapshot};

/// The state file may be this old while things happen; it is fresh whenever they do not.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Writing it takes at most this share of the time.
const COST_SHARE: u32 = 20;

/// Writes the state file of one run. It is a convenience: it may fail, and nothing is lost.
#[derive(Debug)]
pub(crate) struct StateFileWriter {
    path: PathBuf,
    written: Option<Instant>,
    cost: Duration,
    is_stale: bool,
}

impl StateFileWriter {
    pub(crate) fn new(path: PathBuf) -> Self {
        Self { path, written: None, cost: Duration::ZERO, is_stale: true }
    }

    /// Notes that the run has changed.
    pub(crate) fn changed(&mut self) {
        self.is_stale = true;
    }

    /// Whether the file is behind the run.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Writes it if it is stale and that is due: the larger it is, the more seldom.
    pub(crate) fn refresh(&mut self, run: &Run, journal_offset: u64) -> io::Result<()> {
        let interval = INTERVAL_MIN.max(self.cost * COST_SHARE);
        let is_due = self.written.is_none_or(|written| written.elapsed() >= interval);
        if self.is_stale && is_due { self.write(run, journal_offset) } else { Ok(()) }
    }

    /// Writes it now.
    pub(crate) fn write(&mut self, run: &Run, journal_offset: u64) -> io::Result<()> {
        let started = Instant::now();
        write_atomically(&self.path, Snapshot::to_json(run, journal_offset)?.as_bytes())?;
        self.cost = started.elapsed();
        self.written = Some(Instant::now());
        self.is_stale = false;
        Ok(())
    }
}

/// Replaces the file at `path`: readers see the old text or the new one, never a part.
fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".state-").tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Reads the state file; whatever is wrong with it, the journal knows better.
pub(crate) fn read(path: &Path) -> Option<Snapshot> {
    Snapshot::from_json(&fs::read_to_string(path).ok()?).ok()
}
