//! The books of one run: the run in memory, its journal and its state file, kept in step.
//!
//! [`Ledger::commit`] is the only way in which a run changes: the records are appended, told to the
//! observer and applied, and so is whatever follows from them. Starting, reopening and cancelling a run
//! and the run loop all use it, so that an observer sees every record.

use std::{fs, io, time::Duration};

use raymond_flow::{
    id::RunId,
    machine::{
        Decision, Effect, Input, Record, ReplayError, Run, Started, apply, decide, replay, settle,
        start,
    },
};

use crate::{
    error::EngineError,
    events::{Event, Observer},
    journal::{Journal, JournalError, Trimmed},
    layout::RunFiles,
    lock::RunLock,
    room::Room,
    state_file::{self, StateFileWriter},
};

/// The books of a run, and the observer that is told what is entered.
pub(crate) struct Ledger<'a> {
    run: Run,
    files: RunFiles,
    journal: Journal,
    lock: RunLock,
    /// For what must be written down on a full disk.
    room: Room,
    state_file: StateFileWriter,
    /// Whether journal and memory still agree, and nobody else owns the run. If not, no state file is
    /// written.
    is_sound: bool,
    observer: &'a mut dyn Observer,
}

impl<'a> Ledger<'a> {
    /// Begins the books of a new run. Returns also what the run wants first.
    pub(crate) fn begin(
        started: Started,
        files: RunFiles,
        lock: RunLock,
        observer: &'a mut dyn Observer,
    ) -> Result<(Self, Vec<Effect>), EngineError> {
        let journal = Journal::create(&files.journal)?;
        let run = Run::new(&started);
        let mut ledger = Self::new(run, files, journal, lock, observer);
        let Decision { records, effects } = start(started);
        ledger.append(&records).inspect_err(|_| {
            // Nothing has begun: an empty journal would look like a run that cannot be read.
            let _ = fs::remove_file(&ledger.files.journal);
        })?;
        ledger.tell_opened(true);
        for record in records {
            // Not applied: the run was made from it.
            let event = ledger.record_event(record);
            ledger.tell(event);
        }
        Ok((ledger, effects))
    }

    /// Opens the books of a run as its snapshot and journal tell it. A snapshot that does not fit costs
    /// a longer replay.
    pub(crate) fn open(
        id: &RunId,
        files: RunFiles,
        lock: RunLock,
        observer: &'a mut dyn Observer,
    ) -> Result<Self, EngineError> {
        let (run, journal, trimmed) = read(id, &files)?;
        let mut ledger = Self::new(run, files, journal, lock, observer);
        if let Some(trimmed) = trimmed {
            ledger.tell(Event::JournalTrimmed(trimmed));
        }
        Ok(ledger)
    }

    fn new(
        run: Run,
        files: RunFiles,
        journal: Journal,
        lock: RunLock,
        observer: &'a mut dyn Observer,
    ) -> Self {
        let room = Room::take(&files.folder);
        let state_file = StateFileWriter::new(files.state.clone());
        Self { run, files, journal, lock, room, state_file, is_sound: true, observer }
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    pub(crate) fn files(&self) -> &RunFiles {
        &self.files
    }

    /// The run, and the observer of what is done for it.
    pub(crate) fn split(&mut self) -> (&Run, &mut dyn Observer) {
        (&self.run, self.observer)
    }

    pub(crate) fn wants_activity(&self) -> bool {
        self.observer.wants_activity()
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.observer.see(&event.now());
    }

    pub(crate) fn trouble(&mut self, text: String) {
        self.tell(Event::Trouble(text));
    }

    /// Decides about `input`, and commits the decision. Returns what is wanted.
    pub(crate) fn input(&mut self, input: Input) -> Result<Vec<Effect>, EngineError> {
        let decision = decide(&self.run, input);
        self.commit(decision)
    }

    /// Appends, tells and applies a decision and what follows from it. Returns what is wanted. It is
    /// durable after [`sync`](Self::sync).
    pub(crate) fn commit(&mut self, mut decision: Decision) -> Result<Vec<Effect>, EngineError> {
        let mut effects = Vec::new();
        while !decision.is_empty() {
            if !decision.records.is_empty() {
                self.append(&decision.records)?;
            }
            for record in decision.records {
                let seen = self.record_event(record).now();
                self.observer.see(&seen);
                if let Event::Recorded { record, .. } = &seen.event
                    && let Err(error) = apply(&mut self.run, record)
                {
                    self.is_sound = false;
                    return Err(EngineError::Inconsistent(error));
                }
            }
            effects.append(&mut decision.effects);
            decision = settle(&self.run);
        }
        Ok(effects)
    }

    /// Tells that the run is open. Before any record of this owner.
    pub(crate) fn tell_opened(&mut self, is_new: bool) {
        let (id, run) = (self.run.id.clone(), Box::new(self.run.clone()));
        self.tell(Event::Opened { id, run, is_new });
    }

    fn record_event(&self, record: Record) -> Event {
        Event::recorded(record, &self.run)
    }

    fn append(&mut self, records: &[Record]) -> Result<(), EngineError> {
        let appended = self.try_append(records);
        self.is_sound &= appended.is_ok();
        appended
    }

    fn try_append(&mut self, records: &[Record]) -> Result<(), EngineError> {
        let owned = self.lock.check();
        owned.map_err(|source| EngineError::LockLost { id: self.run.id.clone(), source })?;
        let mut appended = self.journal.append(records);
        if appended.as_ref().is_err_and(is_full) && self.room.give_up() {
            appended = self.journal.append(records);
        }
        appended.map_err(|source| self.journal_error("write to", source))?;
        self.state_file.changed();
        Ok(())
    }

    /// Makes everything durable that was committed.
    pub(crate) fn sync(&mut self) -> Result<(), EngineError> {
        let synced = self.journal.sync();
        self.is_sound &= synced.is_ok();
        synced.map_err(|source| self.journal_error("make durable", source))
    }

    /// How long to wait at most before [`refresh`](Self::refresh) is called again.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.state_file.patience()
    }

    /// Writes the state file if it is stale and that is due.
    pub(crate) fn refresh(&mut self) {
        let refreshed = self.state_file.refresh(&self.run, &self.journal);
        self.tell_failure(refreshed);
    }

    /// Closes the books: writes the state file, unless the run may be half-applied or another's. Returns
    /// the run as it was left.
    pub(crate) fn close(mut self) -> Run {
        if self.is_sound {
            let written = self.state_file.write(&self.run, &self.journal);
            self.tell_failure(written);
        }
        self.run
    }

    /// Tells why the state file was not written. Nothing depends on it.
    fn tell_failure(&mut self, failure: Option<io::Error>) {
        if let Some(error) = failure {
            self.trouble(format!("the state file could not be written: {error}"));
        }
    }

    fn journal_error(&self, what: &'static str, source: io::Error) -> EngineError {
        let path = self.files.journal.clone();
        EngineError::Journal(JournalError::Io { what, path, source })
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// The run as snapshot and journal tell it, and what had to be cut off the journal.
fn read(id: &RunId, files: &RunFiles) -> Result<(Run, Journal, Option<Trimmed>), EngineError> {
    let replay_error = |source| EngineError::Replay { id: id.clone(), source };
    let mut trimmed = None;
    if let Some(snapshot) = state_file::read(&files.state, &files.journal)
        && snapshot.run.id == *id
        && let Some(opened) = Journal::open(&files.journal, snapshot.journal_offset)?
    {
        let mut run = snapshot.run;
        let records = opened.entries.iter().flat_map(|entry| &entry.records);
        if records.into_iter().try_for_each(|record| apply(&mut run, record)).is_ok() {
            return Ok((run, opened.journal, opened.trimmed));
        }
        trimmed = opened.trimmed;
    }
    let opened = Journal::open(&files.journal, 0)?;
    let opened = opened.ok_or_else(|| replay_error(ReplayError::Empty))?;
    let records = opened.entries.into_iter().flat_map(|entry| entry.records);
    let run = replay(records.collect::<Vec<Record>>()).map_err(replay_error)?;
    // A state file that does not fit may tell of a future that a crash of the machine took back. Removed
    // only now: beside a journal that is refused, nothing is changed.
    let _ = fs::remove_file(&files.state);
    Ok((run, opened.journal, opened.trimmed.or(trimmed)))
}

#[cfg(test)]
mod tests;
