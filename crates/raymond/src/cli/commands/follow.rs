//! Reads a run record by record while another process may be writing it.

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

/// How often the journal is read. There is no portable way to wait for changes of a file.
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

    /// Reads new records; `see` receives each of them as the run's own observers did.
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

    /// The run after the records read so far.
    pub(super) fn run(&self) -> Result<&Run, EngineError> {
        self.run
            .as_ref()
            .ok_or_else(|| EngineError::Replay { id: self.id.clone(), source: ReplayError::Empty })
    }

    /// Whether an orchestrator owns it. Ask before reading: then its last records are read.
    pub(super) fn is_alive(&self) -> bool {
        RunLock::holder(&self.files.lock).is_some()
    }
}
