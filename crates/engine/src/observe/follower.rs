//! A run that another process may be writing, read record by record.

use std::{ops::ControlFlow, time::Duration};

use raymond_flow::{
    id::RunId,
    machine::{Record, ReplayError, Run, apply},
};

use crate::{
    run::{
        error::EngineError,
        events::{Event, Seen},
    },
    store::{
        journal::{Journal, JournalPosition},
        layout::RunFiles,
        lock::RunLock,
    },
};

/// How often a journal is looked at where nothing says that it has grown.
pub const INTERVAL: Duration = Duration::from_millis(200);

/// Reads a journal as it grows. Nothing is changed, and one decision is in memory at a time.
#[derive(Debug)]
pub struct Follower {
    /// The run.
    pub id: RunId,
    /// Its files.
    pub files: RunFiles,
    position: JournalPosition,
    run: Option<Run>,
    records: u64,
}

/// A record that was read.
#[derive(Debug)]
pub struct Read<'a> {
    /// The record, as the run's own orchestrator showed it to observers.
    pub seen: &'a Seen,
    /// The run with it.
    pub run: &'a Run,
    /// The byte of the journal at which its decision begins.
    pub line: u64,
    /// The byte after its decision.
    pub offset: u64,
}

impl Follower {
    /// Follows the run with these files from its beginning.
    pub fn new(id: RunId, files: RunFiles) -> Self {
        Self { id, files, position: JournalPosition::START, run: None, records: 0 }
    }

    /// Reads what is new, and shows `see` each record. After an error, everything before it was shown.
    pub fn read(&mut self, mut see: impl FnMut(&Read<'_>)) -> Result<(), EngineError> {
        self.read_until(|read| {
            see(read);
            ControlFlow::Continue(())
        })
    }

    /// The same until `see` breaks off. Read nothing more after that: the run is then in the middle of a decision.
    pub fn read_until(
        &mut self,
        mut see: impl FnMut(&Read<'_>) -> ControlFlow<()>,
    ) -> Result<(), EngineError> {
        let Self { id, files, position, run, records } = self;
        let mut unfit = None;
        Journal::visit(&files.journal, *position, &mut |entry, after| {
            let (line, offset) = (position.offset(), after.offset());
            for record in entry.records {
                *records += 1;
                let seen = match take(run, record, entry.at_ms, *records) {
                    Ok(seen) => seen,
                    Err(source) => {
                        let (id, journal) = (id.clone(), files.journal.clone());
                        unfit = Some(EngineError::Replay { id, journal, source });
                        return ControlFlow::Break(());
                    }
                };
                if let Some(run) = run
                    && see(&Read { seen: &seen, run, line, offset }).is_break()
                {
                    return ControlFlow::Break(());
                }
            }
            *position = after;
            ControlFlow::Continue(())
        })?;
        unfit.map_or(Ok(()), Err)
    }

    /// The run as it was read so far.
    pub fn run(&self) -> Result<&Run, EngineError> {
        self.run.as_ref().ok_or_else(|| empty(&self.id, &self.files))
    }

    pub(crate) fn into_run(self) -> Result<Run, EngineError> {
        self.run.ok_or_else(|| empty(&self.id, &self.files))
    }

    pub(crate) fn run_mut(&mut self) -> Result<&mut Run, EngineError> {
        self.run.as_mut().ok_or_else(|| empty(&self.id, &self.files))
    }

    /// How many bytes of the journal were read.
    pub fn offset(&self) -> u64 {
        self.position.offset()
    }

    /// Whether an orchestrator runs it. Ask before reading: then whatever it wrote last is read.
    pub fn is_alive(&self) -> bool {
        RunLock::holder(&self.files.lock).is_some()
    }
}

fn empty(id: &RunId, files: &RunFiles) -> EngineError {
    let journal = files.journal.clone();
    EngineError::Replay { id: id.clone(), journal, source: ReplayError::Empty }
}

/// Applies the record with this number.
fn take(
    run: &mut Option<Run>,
    record: Record,
    at_ms: u64,
    number: u64,
) -> Result<Seen, ReplayError> {
    let (run, is_new) = match (run, record.started()) {
        (Some(run), _) => (run, false),
        (none, Some(started)) => (none.insert(Run::new(started)), true),
        (None, None) => return Err(ReplayError::NoStart),
    };
    let event = Event::recorded(record, run);
    if let (Event::Recorded { record, .. }, false) = (&event, is_new) {
        apply(run, record).map_err(|source| ReplayError::Unfit { number, source })?;
    }
    Ok(Seen { at_ms, event })
}

#[cfg(test)]
mod tests;
