//! Opening a run: a new one, or one that ended, was interrupted or died.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{
    id::RunId,
    machine::{
        ApplyError, Effect, Halt, Input, Limits, Record, ReplayError, Run, Settings, Started,
        Status, apply, decide, pending, replay, start,
    },
};
use thiserror::Error;

use crate::{
    agent::Agents,
    clock,
    events::{Event, Observer},
    inbox::{Inbox, Message, Outbox},
    interrupts::Interrupts,
    journal::{Entry, Journal, JournalError, Trimmed},
    keeper,
    layout::{RunFiles, StateDir},
    lock::{LockError, Owner, RunLock},
    perform::Performer,
    private, programs,
    run_loop::RunLoop,
    scope::{DiskWorld, ScopeError},
    state_file, sys,
    tails::Tails,
    timers::Timers,
    trust::TrustError,
    warm::Warm,
};

/// Why a run cannot be opened or cannot go on. Whatever it was, nothing that finished is lost.
#[derive(Debug, Error)]
pub enum EngineError {
    /// There is no such run.
    #[error("there is no run `{id}`")]
    NoSuchRun {
        /// The id.
        id: RunId,
    },
    /// There is such a run already.
    #[error("there is a run `{id}` already")]
    Exists {
        /// The id.
        id: RunId,
    },
    /// The state folder is not, or not only, the user's own.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Somebody gave the run up for good.
    #[error("run `{id}` is cancelled")]
    Cancelled {
        /// The id.
        id: RunId,
    },
    /// Somebody else runs it.
    #[error("run `{id}` cannot be taken over: {source}")]
    Lock {
        /// The id.
        id: RunId,
        /// Who, or why.
        source: LockError,
    },
    /// The run may have a second owner.
    #[error("run `{id}` was stopped, because {source}: another process may run it, too")]
    LockLost {
        /// The id.
        id: RunId,
        /// How.
        source: LockError,
    },
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal does not make sense.
    #[error("the journal of `{id}` does not describe a run")]
    Replay {
        /// The id.
        id: RunId,
        /// Why not.
        source: ReplayError,
    },
    /// The workflow's files cannot be used.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// A file or folder of the run cannot be made.
    #[error("cannot {what} {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something on this machine failed in the middle of a run.
    #[error("cannot {what}")]
    AtWork {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A decision does not fit its run: a bug of ours.
    #[error("a decision does not fit the run; this is a bug")]
    Inconsistent(#[source] ApplyError),
    /// Nobody here carries out what the run is carried out by.
    #[error(
        "run `{id}` is carried out by the coding agent `{agent}`, which is not configured here"
    )]
    NoAgent {
        /// The run.
        id: RunId,
        /// The coding agent.
        agent: String,
    },
    /// No shell.
    #[error("`bash` is not installed")]
    NoShell,
}

/// How often the owner of a run is told to give it up.
const CANCEL_INTERVAL: Duration = Duration::from_millis(100);
/// How long it may take to do so: steps, reapers and the keeper have their own time to end.
const CANCEL_PATIENCE: Duration = Duration::from_mins(1);

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// How it stands.
    pub run: Run,
    /// Whether somebody interrupted it.
    pub is_interrupted: bool,
}

/// Opens runs.
pub struct Engine<'a> {
    /// Where their files lie.
    pub state_dir: StateDir,
    /// What to run as a keeper: this program and its hidden subcommand.
    pub keeper_program: Vec<OsString>,
    /// Who carries out prompts.
    pub agents: &'a Agents,
    /// How many processes of coding agents are kept for further turns.
    pub warm_limit: usize,
    /// Whether waits before a retry and for a usage limit are over at once: for tests of workflows.
    pub is_hurried: bool,
    /// What must be free on the disk before a step is started.
    pub disk_reserve_bytes: u64,
    /// How much later than promised a usage limit is taken for lifted: clocks differ, and asking a
    /// little late costs less than asking too early.
    pub reset_margin: Duration,
    /// Ctrl-C, if anybody listens to it.
    pub interrupts: Option<Interrupts>,
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}

/// What a run loop needs to know of how it was set up.
pub(crate) struct Setup {
    pub(crate) files: RunFiles,
    pub(crate) lock: RunLock,
    pub(crate) interrupts: Option<Interrupts>,
}

/// A run as its files tell it.
#[derive(Debug)]
pub struct Loaded {
    /// The run.
    pub run: Run,
    /// Every decision, in order, if the whole journal was read.
    pub entries: Vec<Entry>,
}

/// Reads a run without owning or changing it.
pub fn load(state_dir: &StateDir, id: &RunId) -> Result<Loaded, EngineError> {
    let files = state_dir.run(id);
    if !files.journal.exists() {
        return Err(EngineError::NoSuchRun { id: id.clone() });
    }
    let entries = Journal::read(&files.journal)?;
    let records = entries.iter().flat_map(|entry| entry.records.iter().cloned());
    let run = replay(records).map_err(|source| EngineError::Replay { id: id.clone(), source })?;
    Ok(Loaded { run, entries })
}

impl Engine<'_> {
    /// Starts a run and sees it through.
    pub fn start(
        &self,
        started: Started,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, EngineError> {
        let identity = uuid::Uuid::new_v4().simple().to_string();
        let started = Started { identity, ..started };
        let id = started.workflow_id.clone();
        let files = self.state_dir.run(&id);
        self.state_dir.check_run(&files)?;
        create_folders(&files)?;
        let lock = lock(&id, &files)?;
        if files.journal.exists() {
            // Without one whole line nothing ever happened: whoever began it died at once.
            if Journal::read(&files.journal).map_or(true, |entries| !entries.is_empty()) {
                return Err(EngineError::Exists { id });
            }
            let moved = Journal::set_aside(&files.journal);
            moved.map_err(|source| io_error("replace", &files.journal, source))?;
        }
        let world = DiskWorld::open(Path::new(&started.scope_dir), &files.scope)?;
        let mut journal = Journal::create(&files.journal)?;
        let run = Run::new(&started);
        let decision = start(started);
        let append = journal.append(&decision.records);
        append.map_err(|source| {
            // Nothing has begun: an empty journal would look like a run that cannot be read.
            let _ = fs::remove_file(&files.journal);
            io_error("write to", &files.journal, source)
        })?;
        observer.see(&Event::Opened { id: &id, run: &run, is_new: true });
        for record in &decision.records {
            observer.see(&Event::Recorded { record, at_ms: run.started_at_ms, run: &run });
        }
        self.go((run, journal, world), (files, lock), decision.effects, None, observer)
    }

    /// Takes a run up again and sees it through; one that is completed is just told again.
    /// `change` gives settings and limits for what follows, starting from those that it had.
    pub fn resume(
        &self,
        id: &RunId,
        change: impl FnOnce(&mut Settings, &mut Limits),
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, EngineError> {
        self.reopen(id, change, None, observer)
    }

    /// Gives a run up for good, and ends whatever still runs. One that somebody else runs is given
    /// up by them.
    pub fn cancel(&self, id: &RunId, observer: &mut dyn Observer) -> Result<Run, EngineError> {
        let files = self.state_dir.run(id);
        let deadline = Instant::now() + CANCEL_PATIENCE;
        loop {
            match self.reopen(id, |_, _| {}, Some(Halt::Cancelled), observer) {
                Err(EngineError::Lock { source: LockError::Owned { owner }, id }) => {
                    if Instant::now() >= deadline {
                        return Err(EngineError::Lock { source: LockError::Owned { owner }, id });
                    }
                    wake_owner(owner.as_ref(), observer);
                }
                Err(EngineError::Cancelled { .. }) => return Ok(load(&self.state_dir, id)?.run),
                Ok(end) => return Ok(end.run),
                Err(error) => return Err(error),
            }
            // Said again and again: its owner may not be listening yet.
            if let Ok(outbox) = Outbox::to(&files.folder) {
                outbox.send(&Message::Cancel);
            }
            std::thread::sleep(CANCEL_INTERVAL);
        }
    }

    fn reopen(
        &self,
        id: &RunId,
        change: impl FnOnce(&mut Settings, &mut Limits),
        halt: Option<Halt>,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, EngineError> {
        let files = self.state_dir.run(id);
        if !files.journal.exists() {
            return Err(EngineError::NoSuchRun { id: id.clone() });
        }
        self.state_dir.check_run(&files)?;
        create_folders(&files)?;
        let lock = lock(id, &files)?;
        let (mut run, mut journal, trimmed) = reopen(id, &files)?;
        match run.status {
            Status::Cancelled => return Err(EngineError::Cancelled { id: id.clone() }),
            // Somebody may have died before telling: the result is still there.
            Status::Completed => return Ok(RunEnd { run, is_interrupted: false }),
            Status::Running | Status::Failed | Status::Stopped | Status::Paused => {}
        }
        let world = match DiskWorld::open(Path::new(&run.scope_dir), &files.scope) {
            // A run can be cancelled although its archive is gone: nothing of it is read.
            Err(_) if halt.is_some() => DiskWorld::open(&files.folder, &files.scope)?,
            opened => opened?,
        };
        if let Some(trimmed) = &trimmed {
            observer.see(&Event::JournalTrimmed(trimmed));
        }
        let (mut settings, mut limits) = (run.settings.clone(), run.limits.clone());
        change(&mut settings, &mut limits);
        if let Some(agent) = settings.agent.clone().filter(|name| !self.agents.has(name))
            && halt.is_none()
        {
            return Err(EngineError::NoAgent { id: id.clone(), agent });
        }
        observer.see(&Event::Opened { id, run: &run, is_new: false });
        // Heard when the steps that still run are found again.
        let first = halt.is_some().then_some(Message::Cancel);
        let inputs = [Some(Input::Resume { settings, limits }), halt.map(Input::Halt)];
        for input in inputs.into_iter().flatten() {
            let decision = decide(&run, input);
            let append = journal.append(&decision.records);
            append.map_err(|source| io_error("write to", &files.journal, source))?;
            let at_ms = clock::now_ms();
            for record in &decision.records {
                observer.see(&Event::Recorded { record, at_ms, run: &run });
                apply(&mut run, record).map_err(EngineError::Inconsistent)?;
            }
        }
        let effects = pending(&run);
        self.go((run, journal, world), (files, lock), effects, first, observer)
    }

    fn go(
        &self,
        (run, journal, world): (Run, Journal, DiskWorld),
        (files, lock): (RunFiles, RunLock),
        effects: Vec<Effect>,
        first: Option<Message>,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, EngineError> {
        let inbox = Inbox::open(&files.folder);
        let inbox = inbox.map_err(|source| io_error("listen in", &files.folder, source))?;
        if let Some(message) = first {
            inbox.outbox().send(&message);
        }
        let warm_limit = if keeper::IS_APART { self.warm_limit } else { 0 };
        let performer = Performer {
            identity: run.identity.clone(),
            files: files.clone(),
            world,
            agents: self.agents,
            tails: Tails::default(),
            warm: Warm::new(warm_limit, inbox.outbox()),
            keeper_program: self.keeper_program.clone(),
            keeper: None,
            connection: 0,
            outbox: inbox.outbox(),
            timers: Timers::default(),
            is_hurried: self.is_hurried,
            disk_reserve_bytes: self.disk_reserve_bytes,
            reset_margin: self.reset_margin,
            limit_waits: 0,
            unpaid: raymond_flow::machine::Spent::default(),
            shell: programs::shell().ok_or(EngineError::NoShell)?,
            keepers_lost: 0,
            remarks: Vec::new(),
            stopped: HashMap::new(),
            warned: HashSet::new(),
        };
        let setup = Setup { files, lock, interrupts: self.interrupts.clone() };
        let run_loop = RunLoop::new(run, journal, &setup, performer, observer, inbox);
        let run = run_loop.run(effects);
        if let Some(interrupts) = &self.interrupts {
            interrupts.hold_back();
        }
        let run = run?;
        let is_interrupted = run.halt == Some(Halt::Interrupted);
        Ok(RunEnd { run, is_interrupted })
    }
}

/// Lets the owner of a run hear, if it is stopped.
fn wake_owner(owner: Option<&Owner>, observer: &mut dyn Observer) {
    let pid = owner.and_then(|owner| sys::Pid::try_from(owner.pid).ok());
    if let Some(pid) = pid.filter(|pid| *pid > 0 && sys::is_stopped(*pid)) {
        sys::wake(pid);
        let text = format!("process {pid}, which runs it, was stopped; it was woken");
        observer.see(&Event::Trouble(&text));
    }
}

fn lock(id: &RunId, files: &RunFiles) -> Result<RunLock, EngineError> {
    RunLock::take(&files.lock).map_err(|source| EngineError::Lock { id: id.clone(), source })
}

/// The run as snapshot and journal tell it. A snapshot that does not fit costs a longer replay.
fn reopen(id: &RunId, files: &RunFiles) -> Result<(Run, Journal, Option<Trimmed>), EngineError> {
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

/// Makes the folders of a run, durably: steps that are paid for will lie in them.
fn create_folders(files: &RunFiles) -> Result<(), EngineError> {
    let create = || -> io::Result<()> {
        private::create_dir_all(&files.steps)?;
        // Everything of every run lies below the first of them.
        for folder in [files.folder.parent(), Some(&files.folder)].into_iter().flatten() {
            private::tighten(folder)?;
        }
        sys::sync_folder(&files.folder)
    };
    create().map_err(|source| io_error("create", &files.steps, source))
}

fn io_error(what: &'static str, path: &Path, source: io::Error) -> EngineError {
    EngineError::Io { what, path: path.to_owned(), source }
}
