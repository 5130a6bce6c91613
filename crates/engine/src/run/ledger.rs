//! The ledger of one run: the run in memory, its journal and its state file, kept consistent.
//!
//! [`Ledger::commit`] is the only way in which a run changes: it appends the records, reports them to the
//! observer, applies them, and does the same with the decisions that follow from them. Starting, reopening and
//! cancelling a run and the run loop all use it, so that an observer sees every record.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use raymond_flow::{
    id::RunId,
    machine::{
        Decision, Effect, Input, Record, ReplayError, Run, Started, apply, decide, replay, settle,
        start,
    },
};

use crate::{
    run::{
        error::{EngineError, io_error},
        events::{Event, Observer},
        mirror,
    },
    store::{
        journal::{Journal, JournalEntry, JournalError, Trimmed},
        layout::{RunFiles, StateDir},
        lock::RunLock,
        results::Results,
        room::Room,
        state_file::StateFileWriter,
    },
    sys::clock,
};

/// The run, its files, and the observer of its records.
pub(crate) struct Ledger<'a> {
    run: Run,
    files: RunFiles,
    journal: Journal,
    results: Results,
    lock: RunLock,
    /// Reserved disk space for records that must be written on a full disk.
    room: Room,
    state_file: StateFileWriter,
    /// Whether the journal agrees with the run in memory, and no other process owns the run. If not, no
    /// state file is written.
    is_sound: bool,
    observer: &'a mut dyn Observer,
}

impl<'a> Ledger<'a> {
    /// Creates the ledger of a new run. Also returns its first effects.
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
        ledger.append(clock::now_ms(), &records).inspect_err(|_| {
            // The run has not begun: an empty journal would look like an unreadable run.
            let _ = fs::remove_file(&ledger.files.journal);
        })?;
        ledger.tell_opened(true);
        for record in records {
            // Not applied: the run was made from this record.
            let event = ledger.record_event(record);
            ledger.tell(event);
        }
        Ok((ledger, effects))
    }

    /// Opens the ledger of a run from its journal.
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
        let results = Results::of(&files);
        Self { run, files, journal, results, lock, room, state_file, is_sound: true, observer }
    }

    pub(crate) fn run(&self) -> &Run {
        &self.run
    }

    pub(crate) fn files(&self) -> &RunFiles {
        &self.files
    }

    /// The run, and the observer.
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

    /// Decides about `input`, and commits the decision. Returns the effects.
    pub(crate) fn input(&mut self, input: Input) -> Result<Vec<Effect>, EngineError> {
        let decision = decide(&self.run, input);
        self.commit(decision)
    }

    /// Appends, reports and applies a decision and what follows from it. Returns the effects. The records are
    /// durable after [`sync`](Self::sync).
    pub(crate) fn commit(&mut self, mut decision: Decision) -> Result<Vec<Effect>, EngineError> {
        let mut effects = Vec::new();
        while !decision.is_empty() {
            self.record(clock::now_ms(), decision.records)?;
            effects.append(&mut decision.effects);
            decision = settle(&self.run);
        }
        Ok(effects)
    }

    /// Appends, reports and applies the records of one decision, which was made at this time. What follows from them
    /// is not decided here: another machine may have done it.
    pub(crate) fn record(
        &mut self,
        at_ms: u64,
        mut records: Vec<Record>,
    ) -> Result<(), EngineError> {
        self.keep_results(&mut records)?;
        if !records.is_empty() {
            self.append(at_ms, &records)?;
        }
        for record in records {
            let seen = self.record_event(record).now();
            self.observer.see(&seen);
            if let Event::Recorded { record, .. } = &seen.event
                && let Err(error) = apply(&mut self.run, record)
            {
                self.is_sound = false;
                return Err(EngineError::Inconsistent(error));
            }
        }
        Ok(())
    }

    /// Reports that the run is open. Before any record of this owner.
    pub(crate) fn tell_opened(&mut self, is_new: bool) {
        let (id, run) = (self.run.id.clone(), Box::new(self.run.clone()));
        self.tell(Event::Opened { id, run, is_new });
    }

    fn record_event(&self, record: Record) -> Event {
        Event::recorded(record, &self.run)
    }

    /// Moves long results to files, before there is a record of them.
    fn keep_results(&mut self, records: &mut [Record]) -> Result<(), EngineError> {
        let mut kept = self.results.keep(records);
        if kept.as_ref().is_err_and(is_full) && self.room.give_up() {
            kept = self.results.keep(records);
        }
        kept.map_err(|source| io_error("keep a result in", &self.files.results, source))
    }

    fn append(&mut self, at_ms: u64, records: &[Record]) -> Result<(), EngineError> {
        let appended = self.try_append(at_ms, records);
        self.is_sound &= appended.is_ok();
        appended
    }

    fn try_append(&mut self, at_ms: u64, records: &[Record]) -> Result<(), EngineError> {
        let owned = self.lock.check();
        owned.map_err(|source| EngineError::LockLost { id: self.run.id.clone(), source })?;
        let mut appended = self.journal.append_at(at_ms, records);
        if appended.as_ref().is_err_and(is_full) && self.room.give_up() {
            appended = self.journal.append_at(at_ms, records);
        }
        appended.map_err(|source| self.journal_error("write to", source))?;
        self.state_file.changed();
        Ok(())
    }

    /// Makes all committed records durable.
    pub(crate) fn sync(&mut self) -> Result<(), EngineError> {
        let synced = self.journal.sync();
        self.is_sound &= synced.is_ok();
        synced.map_err(|source| self.journal_error("make durable", source))
    }

    /// The longest wait before the next call of [`refresh`](Self::refresh).
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.state_file.patience()
    }

    /// Writes the state file if it is out of date and a write is due.
    pub(crate) fn refresh(&mut self) {
        let refreshed = self.state_file.refresh(&self.run, &self.journal);
        self.tell_failure(refreshed);
    }

    /// Closes the ledger: writes the state file, unless the run may be half-applied or owned by another
    /// process. Returns the run.
    pub(crate) fn close(mut self) -> Run {
        if self.is_sound {
            let written = self.state_file.write(&self.run, &self.journal);
            self.tell_failure(written);
        }
        self.run
    }

    /// Reports why the state file was not written. Nothing depends on that file.
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

/// The run from its journal, all of it: nothing is appended to one that was not checked as a whole. Also returns the
/// unfinished tail that was cut off.
fn read(id: &RunId, files: &RunFiles) -> Result<(Run, Journal, Option<Trimmed>), EngineError> {
    let journal = || files.journal.clone();
    let replay_error = |source| EngineError::Replay { id: id.clone(), journal: journal(), source };
    let opened = Journal::open(&files.journal)?;
    let opened = opened.ok_or_else(|| replay_error(ReplayError::Empty))?;
    if let Some(begun) = opened.entries.first().and_then(started) {
        refuse_copy(id, files, begun)?;
    }
    let records = opened.entries.into_iter().flat_map(|entry| entry.records);
    let run = replay(records.collect::<Vec<Record>>()).map_err(replay_error)?;
    Ok((run, opened.journal, opened.trimmed))
}

/// Refuses a run that is a copy of one which is still there.
pub(crate) fn refuse_copy(
    id: &RunId,
    files: &RunFiles,
    begun: &Started,
) -> Result<(), EngineError> {
    // The mirror of a run of a cluster is a copy, may be one of many, and is never resumed here.
    if mirror::origin(files).is_some() {
        return Ok(());
    }
    match original(begun, &files.journal) {
        Some((original, state_dir)) => {
            let journal = files.journal.clone();
            Err(EngineError::Copied { id: id.clone(), original, state_dir, journal })
        }
        None => Ok(()),
    }
}

/// The run of which `journal`, of a run that began so, is a copy, and its state directory: that in which the run was started, if
/// the run is still there in another file. One that was moved is no copy.
fn original(begun: &Started, journal: &Path) -> Option<(RunId, PathBuf)> {
    let state_dir = StateDir::new(&begun.state_dir);
    let there = state_dir.run(&begun.workflow_id).journal;
    let real = |path: &Path| fs::canonicalize(path).ok();
    if there == journal || real(&there)? == real(journal)? {
        return None;
    }
    let first = Journal::first(&there).ok()??;
    let is_same = started(&first)?.identity == begun.identity;
    is_same.then(|| (begun.workflow_id.clone(), state_dir.root().to_owned()))
}

fn started(entry: &JournalEntry) -> Option<&Started> {
    entry.records.first()?.started()
}

#[cfg(test)]
mod tests;
