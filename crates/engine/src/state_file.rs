//! The state file: refreshed when that is cheap, written at once or not at all, and believed only if it
//! belongs to the journal beside it.
//!
//! Its last field is a checksum, over the bytes before it and the checksum of the journal's line that
//! ends at `journal_offset`. So a state file that was edited, or whose journal went another way, is
//! ignored, and the whole journal is replayed instead.

use std::{
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{machine::Run, snapshot::Snapshot};

use crate::{journal::Journal, regular};

/// The state file may be this old while things happen; it is fresh whenever they do not.
const INTERVAL_MIN: Duration = Duration::from_millis(100);
/// Writing it takes at most this share of the time.
const COST_SHARE: u32 = 20;

/// The largest state file that is read: the journal behind it takes no longer, then.
const BYTES_MAX: u64 = 1 << 30;
/// Where the checksum begins, which covers everything before.
const SEAL: &str = ",\n  \"checksum\": \"";
/// How the object in a state file ends.
const OBJECT_END: &str = "\n}\n";

/// How long the state file may be stale when nothing happens.
const IDLE: Duration = Duration::from_millis(50);
/// How soon a state file is tried again that could not be written.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Writes the state file of one run. It is a convenience: it may fail, and nothing is lost.
#[derive(Debug)]
pub(crate) struct StateFileWriter {
    path: PathBuf,
    written: Option<Instant>,
    cost: Duration,
    is_stale: bool,
    /// When it could not be written, if that was so the last time.
    failed: Option<Instant>,
    /// Whether a failure was returned. One is enough.
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

    /// Notes that the run has changed.
    pub(crate) fn changed(&mut self) {
        self.is_stale = true;
    }

    /// How soon [`refresh`](Self::refresh) should be called when nothing happens.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let interval = if self.failed.is_some() { RETRY_INTERVAL } else { IDLE };
        self.is_stale.then_some(interval)
    }

    /// Writes it if it is stale and that is due: the larger it is, the more seldom. Returns the first
    /// failure.
    pub(crate) fn refresh(&mut self, run: &Run, journal: &Journal) -> Option<io::Error> {
        if self.failed.is_some_and(|failed| failed.elapsed() < RETRY_INTERVAL) {
            return None;
        }
        let interval = INTERVAL_MIN.max(self.cost * COST_SHARE);
        let is_due = self.written.is_none_or(|written| written.elapsed() >= interval);
        if self.is_stale && is_due { self.write(run, journal) } else { None }
    }

    /// Writes it now. Returns the first failure.
    pub(crate) fn write(&mut self, run: &Run, journal: &Journal) -> Option<io::Error> {
        let written = self.try_write(run, journal);
        self.failed = written.is_err().then(Instant::now);
        let error = written.err()?;
        (!std::mem::replace(&mut self.is_told, true)).then_some(error)
    }

    fn try_write(&mut self, run: &Run, journal: &Journal) -> io::Result<()> {
        let started = Instant::now();
        let text = Snapshot::to_json(run, journal.offset())?;
        write_atomically(&self.path, seal(&text, journal.checksum()).as_bytes())?;
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

/// Reads the state file beside `journal`; whatever is wrong with it, the journal knows better.
pub(crate) fn read(path: &Path, journal: &Path) -> Option<Snapshot> {
    let mut text = String::new();
    regular::open(path).ok()?.take(BYTES_MAX).read_to_string(&mut text).ok()?;
    let snapshot = Snapshot::from_json(&text).ok()?;
    let checksum = Journal::checksum_at(journal, snapshot.journal_offset).ok()??;
    is_sealed(&text, checksum).then_some(snapshot)
}

/// Adds the checksum to the text of a state file as its last field.
fn seal(text: &str, journal: u32) -> String {
    let covered = text.strip_suffix(OBJECT_END).unwrap_or(text);
    format!("{covered}{SEAL}{:08x}\"{OBJECT_END}", checksum(covered, journal))
}

/// Whether `text` is as it was sealed, beside a journal with the same line before it.
fn is_sealed(text: &str, journal: u32) -> bool {
    text.rsplit_once(SEAL).is_some_and(|(covered, seal)| {
        seal == format!("{:08x}\"{OBJECT_END}", checksum(covered, journal))
    })
}

fn checksum(text: &str, journal: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(journal);
    hasher.update(text.as_bytes());
    hasher.finalize()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use super::*;

    /// A run as this version wrote it, beside its journal. Never changed.
    const STATE: &str = include_str!("../tests/fixtures/v1/chained.state.json");
    const JOURNAL: &[u8] = include_bytes!("../tests/fixtures/v1/chained.journal");
    /// As the first version wrote it, without a checksum.
    const UNSEALED: &str = include_str!("../tests/fixtures/v1/unchained.state.json");
    const UNCHAINED: &[u8] = include_bytes!("../tests/fixtures/v1/unchained.journal");

    fn read_beside(state: &str, journal: &[u8]) -> Option<Snapshot> {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["r.json", "r.journal"].map(|name| folder.path().join(name));
        fs::write(&paths[0], state).unwrap();
        fs::write(&paths[1], journal).unwrap();
        read(&paths[0], &paths[1])
    }

    #[test]
    fn state_file_is_believed_beside_the_journal_that_it_was_written_for() {
        let snapshot = read_beside(STATE, JOURNAL).unwrap();
        assert_eq!(snapshot.journal_offset, JOURNAL.len() as u64);
        let text = Snapshot::to_json(&snapshot.run, snapshot.journal_offset).unwrap();
        let last = JOURNAL.len() - 11..JOURNAL.len() - 3;
        let journal = u32::from_str_radix(std::str::from_utf8(&JOURNAL[last]).unwrap(), 16);
        assert_eq!(seal(&text, journal.unwrap()), STATE);
    }

    #[test]
    fn state_file_that_was_edited_anywhere_is_not_believed() {
        for (from, to) in [
            ("/tmp/project/flow", "/tmp/another/flow"),
            ("\"completed\"", "\"running\""),
            ("\"budget_usd\": 10.0", "\"budget_usd\": 99.0"),
            ("  ", " "),
            (SEAL, ",\n  \"checksum\": \"0"),
        ] {
            let edited = STATE.replacen(from, to, 1);
            assert_ne!(edited, STATE, "{from}");
            assert!(read_beside(&edited, JOURNAL).is_none(), "{from}");
        }
        let formatted = STATE.trim_end();
        assert!(read_beside(formatted, JOURNAL).is_none());
    }

    #[test]
    fn state_file_of_the_first_version_or_of_another_journal_is_not_believed() {
        assert!(Snapshot::from_json(UNSEALED).is_ok(), "it is readable all the same");
        assert!(read_beside(UNSEALED, UNCHAINED).is_none());
        // Of the same length, but another story.
        let mut other = JOURNAL.to_vec();
        let length = other.len();
        other[length - 5] ^= 1;
        assert!(read_beside(STATE, &other).is_none());
        assert!(read_beside(STATE, &JOURNAL[..length - 1]).is_none());
    }
}
