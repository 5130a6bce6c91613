//! The local copy of a run that another machine decides about.
//!
//! A mirror plays the orchestrator of the run in this state directory: it holds the lock, writes the records that the
//! other machine has decided to the journal, publishes the questions, and takes what users want at the door. So every
//! command and page shows the run as if it were carried out here. It decides nothing: what users want becomes a
//! [`Wish`], which is sent to the other machine, and comes back as a record.
//!
//! ```text
//! workflows/ID/cluster.json       where the run is carried out: without a mirror, no process here may continue the run
//! workflows/ID/workflow/NAME/     the files of its workflow
//! ```
//!
//! The number of decisions in the journal says where a mirror goes on. Whatever a decision needs beside the journal, the
//! files of steps and the answers to questions, is written before its line, so a mirror that is killed between the two
//! only writes it again. What a user wants stays at the door, or in the directory of the question, until the other
//! machine has accepted it.

mod parcel;

use std::{
    collections::BTreeSet,
    fs,
    ops::ControlFlow,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AskId, RunId, StepId},
    machine::{Halt, Input, Record, ReplayError, Run, Started, Status},
};
use serde::{Deserialize, Serialize};

use crate::{
    asks::Desk,
    run::{
        door::{Door, DoorAnswer, PendingRequest, Request},
        error::{EngineError, at_work, io_error},
        events::Observer,
        inbox::Inbox,
        ledger::Ledger,
        open::{create_folders, has_begun, lock},
    },
    store::{
        journal::{Journal, JournalEntry, JournalPosition},
        layout::{RunFiles, StateDir},
        scope,
    },
    trust::{private, regular, seal},
};

pub use parcel::{SHOWN_BYTES_MAX, pack_folder, pack_step, unpack_folder, unpack_step};

/// The file that says where a run is carried out.
const ORIGIN: &str = "cluster.json";
/// What its seal is for.
const ORIGIN_SEAL: &str = "origin";
/// The largest such file: four short texts.
const ORIGIN_BYTES_MAX: u64 = 64 * 1024;
/// The directory with the files of the workflow.
const WORKFLOW: &str = "workflow";
/// How often answers are looked for, in case the process that answered was killed before it could tell of it.
const ASKS_INTERVAL: Duration = Duration::from_secs(5);

/// Where a run is carried out: the options of `raymond cluster` that lead there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Names and values, in the order in which they are typed.
    pub options: Vec<(String, String)>,
}

/// The mirror of one run.
pub struct Mirror<'o> {
    ledger: Ledger<'o>,
    desk: Desk,
    door: Door,
    /// How many decisions are in the journal.
    decisions: u64,
    /// The questions whose answers the other machine has accepted.
    passed_on: BTreeSet<AskId>,
    /// When all open questions were looked at.
    asks_checked: Option<Instant>,
}

impl std::fmt::Debug for Mirror<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("decisions", &self.decisions).finish_non_exhaustive()
    }
}

/// Rings when another process wants something of a mirrored run.
#[derive(Debug)]
pub struct Bell(Inbox);

impl Bell {
    /// Waits until it rings.
    pub fn wait(&self) {
        let _ = self.0.next(None);
    }
}

/// Something that a user wants of the run.
#[derive(Debug)]
pub struct Wish {
    /// The input for the machine that decides.
    pub input: Input,
    /// Whether running steps are ended.
    pub ends_steps: bool,
}

/// All that users want at the moment.
#[derive(Debug)]
pub struct Wishes {
    /// In the order in which they must be sent.
    pub wishes: Vec<Wish>,
    answered: Vec<AskId>,
    requests: Vec<PendingRequest>,
}

impl Wishes {
    /// Whether nobody waits for anything.
    pub fn is_empty(&self) -> bool {
        self.wishes.is_empty() && self.requests.is_empty()
    }
}

impl<'o> Mirror<'o> {
    /// Opens the mirror of run `id`, and begins it if it is not there. `first` is the first decision of the run, `bundle`
    /// the archive of its workflow.
    pub fn open(
        state_dir: &StateDir,
        (id, origin): (&RunId, &Origin),
        first: JournalEntry,
        bundle: &Path,
        observer: &'o mut dyn Observer,
    ) -> Result<(Self, Bell), EngineError> {
        let files = state_dir.run(id);
        let Some(started) = first.records.first().and_then(Record::started) else {
            let (id, journal) = (id.clone(), files.journal);
            return Err(EngineError::Replay { id, journal, source: ReplayError::NoStart });
        };
        let identity = started.identity.clone();
        state_dir.check_run(&files)?;
        let root = state_dir.root();
        state_dir.create().map_err(|source| io_error("create", root, source))?;
        create_folders(&files)?;
        let lock = lock(id, &files)?;
        if has_begun(&files)? {
            if identity_of(&files).as_deref() != Some(&*identity) {
                return Err(EngineError::Exists { id: id.clone() });
            }
        } else {
            begin(&files, origin, first, bundle)?;
        }
        let inbox = Inbox::open(&files.folder);
        let inbox = inbox.map_err(|source| io_error("listen in", &files.folder, source))?;
        let door = Door::open(&files.folder, &identity);
        let door = door.map_err(|source| io_error("open the door of", &files.folder, source))?;
        let ledger = Ledger::open(id, files.clone(), lock, observer)?;
        let mut decisions = 0;
        Journal::visit(&files.journal, JournalPosition::START, &mut |_, _| {
            decisions += 1;
            ControlFlow::Continue(())
        })?;
        let desk = Desk::new(files.asks.clone(), &identity);
        let (passed_on, asks_checked) = (BTreeSet::new(), None);
        let mut own = Self { ledger, desk, door, decisions, passed_on, asks_checked };
        own.publish()?;
        Ok((own, Bell(inbox)))
    }

    /// The run as far as it is known here.
    pub fn run(&self) -> &Run {
        self.ledger.run()
    }

    /// Its files.
    pub fn files(&self) -> &RunFiles {
        self.ledger.files()
    }

    /// How many of its decisions are known here.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Adds the next decisions. The files of the steps that they end must be there.
    pub fn append(&mut self, entries: Vec<JournalEntry>) -> Result<(), EngineError> {
        for JournalEntry { at_ms, records } in entries {
            for record in &records {
                if let Some((id, response)) = record.answered() {
                    let closed = self.desk.close(&id, response);
                    closed.map_err(|error| at_work("close a question", error))?;
                    self.passed_on.remove(&id);
                }
            }
            self.ledger.record(at_ms, records)?;
            self.decisions += 1;
        }
        self.ledger.sync()?;
        self.publish()
    }

    /// Publishes the open questions; those of a cancelled run are closed.
    fn publish(&mut self) -> Result<(), EngineError> {
        let failed = |error| at_work("publish a question", error);
        let run = self.ledger.run();
        if run.status == Status::Cancelled {
            return self.desk.withdraw(run).map_err(failed);
        }
        for (id, agent, question) in run.questions() {
            if !self.desk.is_open(&id) {
                let step = StepId { agent: agent.id.clone(), number: agent.steps };
                let shown = parcel::shown(self.ledger.files(), &step);
                let place = shown.as_deref().unwrap_or(&agent.cwd);
                let ask = (&id, &agent.current_state);
                self.desk.publish(ask, question, place).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// What users want. Send it, [`append`](Self::append) what follows from it, then [`confirm`](Self::confirm) it.
    pub fn wishes(&mut self) -> Result<Wishes, EngineError> {
        let mut all =
            Wishes { wishes: Vec::new(), answered: Vec::new(), requests: self.door.requests() };
        for id in self.asks_to_look_at(&all.requests) {
            let given = self.desk.given(self.ledger.run(), &id);
            let given =
                given.map_err(|error| at_work("look at the answer to a question", error))?;
            if let Some(response) = given {
                let input = Input::Answered { id: id.clone(), response };
                all.wishes.push(Wish { input, ends_steps: false });
                all.answered.push(id);
            }
        }
        let mut limits = self.ledger.run().limits.clone();
        for request in &all.requests {
            let (input, ends_steps) = match &request.what {
                Request::Stop { now } => (Input::Halt(Halt::Interrupted), *now),
                Request::Cancel => (Input::Halt(Halt::Cancelled), true),
                Request::Limit(change) => {
                    limits = change.apply(limits);
                    (Input::ChangeLimits { limits: limits.clone() }, false)
                }
                Request::Tell { agent, message } => {
                    let (agent, message) = (agent.clone(), message.clone());
                    (Input::Told { agent, message }, false)
                }
                // Its answer is among those above.
                Request::Answered { .. } => continue,
            };
            all.wishes.push(Wish { input, ends_steps });
        }
        Ok(all)
    }

    /// The questions that were answered, as the requests say; now and then all that are open.
    fn asks_to_look_at(&mut self, requests: &[PendingRequest]) -> BTreeSet<AskId> {
        let is_due = self.asks_checked.is_none_or(|at| at.elapsed() >= ASKS_INTERVAL);
        let mut ids: BTreeSet<_> = if is_due {
            self.asks_checked = Some(Instant::now());
            self.desk.open().into_iter().collect()
        } else {
            let named = |request: &PendingRequest| match &request.what {
                Request::Answered { ask } => AskId::parse(ask),
                Request::Stop { .. }
                | Request::Cancel
                | Request::Limit(_)
                | Request::Tell { .. } => None,
            };
            requests.iter().filter_map(named).collect()
        };
        ids.retain(|id| !self.passed_on.contains(id));
        ids
    }

    /// Confirms what the other machine has accepted.
    pub fn confirm(&mut self, wishes: Wishes) {
        self.passed_on.extend(wishes.answered);
        let run = self.ledger.run();
        let running_steps = run.agents.values().filter(|own| own.phase.step().is_some()).count();
        let answer = DoorAnswer { status: run.status, running_steps };
        for request in &wishes.requests {
            self.door.confirm(request, &answer);
        }
    }

    /// Writes the state file if that is due. Returns how long nothing need be done if nothing happens.
    pub fn rest(&mut self) -> Duration {
        self.ledger.refresh();
        self.ledger.patience().unwrap_or(ASKS_INTERVAL).min(ASKS_INTERVAL)
    }

    /// Writes the state file, and leaves the run.
    pub fn close(self) -> Run {
        self.ledger.close()
    }
}

/// Writes the files of a new mirror. The journal comes last: without it there is no run.
fn begin(
    files: &RunFiles,
    origin: &Origin,
    mut first: JournalEntry,
    bundle: &Path,
) -> Result<(), EngineError> {
    let path = files.folder.join(ORIGIN);
    let written =
        seal::to_json(ORIGIN_SEAL, &path, origin).and_then(|json| private::write(&path, json));
    written.map_err(|source| io_error("write", &path, source))?;
    let place = files.folder.join(WORKFLOW);
    let failed = |source| io_error("write the files of the workflow to", &place, source);
    // Left by a mirror that was killed before it had a journal.
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(error)),
        _ => {}
    }
    private::create_dir_all(&place).map_err(failed)?;
    if let Some(started) = first.records.first_mut().and_then(Record::started_mut) {
        let copy = place.join(name_of(started));
        scope::unpack(bundle, &copy).map_err(|error| failed(std::io::Error::other(error)))?;
        // The workflow as the run uses it, whatever becomes of the one that it was started from.
        started.scope_dir = copy.to_string_lossy().into_owned();
    }
    let mut journal = Journal::create(&files.journal)?;
    let begun = journal.append_at(first.at_ms, &first.records).and_then(|()| journal.sync());
    begun.map_err(|source| io_error("write to", &files.journal, source))
}

/// The name of the workflow.
fn name_of(started: &Started) -> PathBuf {
    let name = Path::new(&started.scope_dir).file_name();
    name.map_or_else(|| PathBuf::from(WORKFLOW), PathBuf::from)
}

/// The identity of the run whose journal is there.
pub(super) fn identity_of(files: &RunFiles) -> Option<String> {
    let first = Journal::first(&files.journal).ok()??;
    first.records.first()?.started().map(|started| started.identity.clone())
}

/// Where the run with these files is carried out; `None` if it is here. A file that Raymond did not write says nothing.
pub fn origin(files: &RunFiles) -> Option<Origin> {
    let path = files.folder.join(ORIGIN);
    let bytes = regular::read(&path, ORIGIN_BYTES_MAX).ok()?;
    seal::from_json(ORIGIN_SEAL, &path, &bytes).ok()
}

/// Refuses to continue a run here that is carried out elsewhere.
pub(crate) fn refuse(id: &RunId, files: &RunFiles) -> Result<(), EngineError> {
    match origin(files) {
        Some(origin) => Err(EngineError::Mirrored { id: id.clone(), origin: Box::new(origin) }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
