//! A run that another process may be writing, read record by record.

use std::time::Duration;

use raymond_engine::{
    EngineError,
    events::{Event, Seen},
    journal::{Journal, JournalEntry, JournalPosition},
    layout::RunFiles,
    lock::RunLock,
};
use raymond_flow::{
    id::RunId,
    machine::{Record, ReplayError, Run, apply},
};

/// How often the journal is looked at. There is no way to wait for a file of another process that works
/// everywhere.
pub(super) const INTERVAL: Duration = Duration::from_millis(200);

/// Reads a journal as it grows.
pub(super) struct Follower {
    pub(super) id: RunId,
    pub(super) files: RunFiles,
    position: JournalPosition,
    run: Option<Run>,
    records: u64,
}

impl Follower {
    pub(super) fn new(id: RunId, files: RunFiles) -> Self {
        Self { id, files, position: JournalPosition::START, run: None, records: 0 }
    }

    /// Reads what is new; `see` is shown each record as the run's own program showed it.
    pub(super) fn read(&mut self, mut see: impl FnMut(&Seen)) -> Result<(), EngineError> {
        let (entries, end) = Journal::read_from(&self.files.journal, self.position)?;
        self.position = end;
        for JournalEntry { at_ms, records } in entries {
            for record in records {
                self.records += 1;
                self.take(record, at_ms, &mut see)
                    .map_err(|source| EngineError::Replay { id: self.id.clone(), source })?;
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        record: Record,
        at_ms: u64,
        see: &mut impl FnMut(&Seen),
    ) -> Result<(), ReplayError> {
        let (run, is_new) = match (&mut self.run, &record) {
            (Some(run), _) => (run, false),
            (none, Record::Started(started)) => (none.insert(Run::new(started)), true),
            (None, _) => return Err(ReplayError::NoStart),
        };
        let seen = Seen { at_ms, event: Event::recorded(record, run) };
        see(&seen);
        let number = self.records;
        match &seen.event {
            Event::Recorded { record, .. } if !is_new => {
                apply(run, record).map_err(|source| ReplayError::Unfit { number, source })
            }
            _ => Ok(()),
        }
    }

    /// The run as it was read so far.
    pub(super) fn run(&self) -> Result<&Run, EngineError> {
        self.run
            .as_ref()
            .ok_or_else(|| EngineError::Replay { id: self.id.clone(), source: ReplayError::Empty })
    }

    /// Whether a program runs it. Ask before reading: then whatever it wrote last is read.
    pub(super) fn is_alive(&self) -> bool {
        RunLock::holder(&self.files.lock).is_some()
    }
}
