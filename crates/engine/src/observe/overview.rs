//! Everything about a run that is shown to people, kept up to date from its journal. For a process that does not own the
//! run.

use std::ops::Deref;

use raymond_flow::{
    id::{RunId, StepId},
    machine::{Run, Step},
    view::{At, RunView, StepFacts, running},
};

use crate::{
    observe::follower::{Follower, Read},
    run::{
        error::{EngineError, io_error},
        events::Event,
    },
    store::{
        journal::{Journal, UNREADABLE},
        layout::RunFiles,
        results::Results,
    },
};

/// How many steps are remembered in tests.
const TEST_STEPS: usize = 1_000;

/// A run as far as its journal was read.
#[derive(Debug)]
pub struct Overview {
    follower: Follower,
    view: RunView,
    /// Why the rest of the journal cannot be read.
    pub problem: Option<String>,
    /// The status of a run of which nothing can be read.
    pub unread: &'static str,
}

impl Deref for Overview {
    type Target = RunView;

    fn deref(&self) -> &RunView {
        &self.view
    }
}

impl Overview {
    /// The run with these files, of which nothing was read yet.
    pub fn new(id: RunId, files: RunFiles) -> Self {
        let view = if cfg!(test) { RunView::remembering(TEST_STEPS) } else { RunView::default() };
        Self { follower: Follower::new(id, files), view, problem: None, unread: UNREADABLE }
    }

    /// Reads the whole journal. What was kept elsewhere of the result is read, too.
    pub fn load(id: RunId, files: RunFiles) -> Result<Self, EngineError> {
        let results = Results::of(&files);
        let mut overview = Self::new(id, files);
        overview.read()?;
        results.restore(overview.follower.run_mut()?);
        Ok(overview)
    }

    /// What is shown of the run, and what reads on.
    pub fn split(self) -> (RunView, Follower) {
        (self.view, self.follower)
    }

    /// Reads what is new in the journal. If the journal was replaced, the run is read anew. What cannot be read is
    /// told by `problem`.
    pub fn refresh(&mut self) {
        if std::fs::metadata(self.files().journal.as_path())
            .is_ok_and(|journal| journal.len() < self.offset())
        {
            *self = Self::new(self.id().clone(), self.files().clone());
        }
        if let Err(error) = self.read() {
            if self.offset() > 0 && self.problem.is_none() {
                // Not the journal that it was, or damaged: what can be read of it from its beginning counts.
                let mut anew = Self::new(self.id().clone(), self.files().clone());
                let read = anew.read();
                *self = anew;
                self.problem = read.err().map(|error| chain(&error));
                return;
            }
            (self.problem, self.unread) = (Some(chain(&error)), error.status());
        } else {
            self.problem = None;
        }
    }

    /// Reads what is new, and shows `see` each record. After an error, everything before it was read.
    pub fn follow(&mut self, mut see: impl FnMut(&Read<'_>)) -> Result<(), EngineError> {
        let Self { follower, view, .. } = self;
        follower.read(|read| {
            if let Event::Recorded { record, .. } = &read.seen.event {
                let at = At { ms: read.seen.at_ms, line: read.line, offset: read.offset };
                view.add(record, read.run, at);
            }
            see(read);
        })
    }

    fn read(&mut self) -> Result<(), EngineError> {
        self.follow(|_| {})
    }

    /// The run's id.
    pub fn id(&self) -> &RunId {
        &self.follower.id
    }

    /// Its files.
    pub fn files(&self) -> &RunFiles {
        &self.follower.files
    }

    /// The run; `None` if nothing of its journal could be read.
    pub fn run(&self) -> Option<&Run> {
        self.follower.run().ok()
    }

    /// The run; an error if nothing of its journal could be read.
    pub fn known(&self) -> Result<&Run, EngineError> {
        self.follower.run()
    }

    /// How many bytes of the journal were read.
    pub fn offset(&self) -> u64 {
        self.follower.offset()
    }

    /// Whether an orchestrator runs it. Ask before [`refresh`](Self::refresh).
    pub fn is_alive(&self) -> bool {
        self.follower.is_alive()
    }

    /// The intent of a step, from the journal.
    pub fn intent(&self, facts: &StepFacts) -> Result<Option<Step>, EngineError> {
        let path = &self.files().journal;
        let entry = Journal::entry_at(path, facts.line);
        let entry = entry.map_err(|source| io_error("read", path, source))?;
        let mut records = entry.iter().flat_map(|entry| &entry.records);
        Ok(records.find_map(|record| {
            let (agent, step) = record.intent()?;
            let is_it = *agent == facts.agent && step.number == facts.number;
            is_it.then(|| step.clone())
        }))
    }

    /// The steps that run: turns whose output can be watched, and scripts.
    pub fn running(&self) -> impl Iterator<Item = (StepId, &Step)> {
        self.run().into_iter().flat_map(running)
    }
}

fn chain(error: &EngineError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

#[cfg(test)]
mod tests;
