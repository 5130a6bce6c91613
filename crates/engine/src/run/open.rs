//! Opens runs: new ones, and those that ended, were interrupted or died.

use std::{
    io,
    path::Path,
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AgentId, AskId, RunId},
    machine::{Effect, Halt, Input, Limits, Message, Run, Settings, Started, Status, pending},
    view::RunView,
};

use crate::{
    agent::Agents,
    asks::Answerer,
    exec::{
        perform::{Means, Performer},
        programs,
        steps::{RunPlace, Runner},
    },
    observe::overview::Overview,
    run::{
        door::{self, Door, DoorAnswer, Letter, LimitChange, Request},
        error::{EngineError, at_work, io_error},
        events::{Event, Observer},
        inbox::{Inbox, Outbox},
        interrupts::Interrupts,
        ledger::{Ledger, refuse_copy},
        mirror,
        run_loop::RunLoop,
        usage_limit::SharedLimits,
    },
    store::{
        journal::{Journal, JournalError},
        layout::{RunFiles, StateDir},
        lock::{LockError, Owner, RunLock},
        results::Results,
        retention::Retention,
        scope::DiskWorld,
        user::UserDir,
    },
    sys,
    trust::{private, seal},
};

/// How often the caller asks the orchestrator again, in case it was not listening, and tries its lock.
const ASK_INTERVAL: Duration = Duration::from_millis(100);
/// How long a cancelled run may take to end: steps, reapers and the keeper have timeouts of their own.
const CANCEL_PATIENCE: Duration = Duration::from_mins(1);

/// The result of a request to a run.
enum RequestOutcome {
    /// Its orchestrator has carried out the request.
    Answered(DoorAnswer),
    /// No orchestrator owns the run. This is its lock.
    Unowned(RunLock),
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// The run at its end, with its whole result if that can be read.
    pub run: Run,
    /// Whether an interrupt stopped it.
    pub is_interrupted: bool,
}

/// Opens runs.
pub struct Engine<'a> {
    /// The directory of all runs.
    pub state_dir: StateDir,
    /// Runs the steps.
    pub runner: Runner,
    /// The coding agents that carry out prompts.
    pub agents: &'a Agents,
    /// How many processes of coding agents are kept for further turns.
    pub warm_limit: usize,
    /// Whether waits before a retry and for a usage limit end at once: for tests of workflows.
    pub is_hurried: bool,
    /// The disk space that must be free before a step is started.
    pub disk_reserve_bytes: u64,
    /// How long after the announced time a usage limit counts as lifted: clocks differ, and a late retry
    /// costs less than an early one.
    pub reset_margin: Duration,
    /// How many finished script steps of a run keep their files; 0 keeps all.
    pub kept_script_steps: usize,
    /// Where the runs of this user tell each other about usage limits; `None` if they do not.
    pub user_dir: Option<UserDir>,
    /// Variables that every script gets besides those that it inherits: for tests of workflows.
    pub environment: Vec<(String, String)>,
    /// Answers questions at once instead of people: for tests of workflows.
    pub answerer: Option<Answerer<'a>>,
    /// Ctrl-C and similar signals, if the program handles them.
    pub interrupts: Option<Interrupts>,
}

impl std::fmt::Debug for Engine<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("state_dir", &self.state_dir).finish_non_exhaustive()
    }
}

/// A run as read from its files.
#[derive(Debug)]
pub struct Loaded {
    /// The run, with its whole result if that can be read.
    pub run: Run,
    /// Everything else that is shown of it.
    pub view: RunView,
}

impl Loaded {
    /// Fails if this is the run `id` of `state_dir` and a copy of one that is still there: nothing is done to it.
    pub fn refuse_copy(&self, state_dir: &StateDir, id: &RunId) -> Result<(), EngineError> {
        let begun = self.view.started.as_deref();
        begun.map_or(Ok(()), |begun| refuse_copy(id, &state_dir.run(id), begun))
    }
}

/// Reads a run without owning or changing it.
pub fn load(state_dir: &StateDir, id: &RunId) -> Result<Loaded, EngineError> {
    let files = state_dir.run(id);
    if !files.journal.exists() {
        return Err(EngineError::NoSuchRun { id: id.clone() });
    }
    let (view, follower) = Overview::load(id.clone(), files)?.split();
    Ok(Loaded { run: follower.into_run()?, view })
}

/// Ends the processes that an earlier orchestrator, its keeper and its reapers could not end, because all were killed. Returns
/// what to tell about that.
fn end_left(ledger: &Ledger<'_>) -> Option<String> {
    let place = RunPlace::new(&ledger.run().identity, ledger.files());
    match place.end_left() {
        Ok(0) => None,
        Ok(1) => Some("ended 1 process that had outlived its step".to_owned()),
        Ok(count) => Some(format!("ended {count} processes that had outlived their steps")),
        Err(error) => Some(format!("a step has left processes: {error}")),
    }
}

impl Engine<'_> {
    /// Starts a run and runs it to its end.
    pub fn start(
        &self,
        started: Started,
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, EngineError> {
        seal::prepare().map_err(|error| at_work("seal the journal", error))?;
        let identity = uuid::Uuid::new_v4().simple().to_string();
        let state_dir = self.state_dir.root().to_string_lossy().into_owned();
        let started = Started { identity, state_dir, ..started };
        let id = started.workflow_id.clone();
        let files = self.state_dir.run(&id);
        self.state_dir.check_run(&files)?;
        let root = self.state_dir.root();
        self.state_dir.create().map_err(|source| io_error("create", root, source))?;
        create_folders(&files)?;
        let lock = lock(&id, &files)?;
        make_way(&id, &files)?;
        let world =
            DiskWorld::open(Path::new(&started.scope_dir), &files.scope, self.agents.known())?;
        let (ledger, effects) = Ledger::begin(started, files, lock, observer)?;
        self.go(ledger, world, effects, false)
    }

    /// Resumes a run and runs it to its end; a completed run is only returned. `change` computes the
    /// settings and limits from the present ones.
    pub fn resume(
        &self,
        id: &RunId,
        change: impl FnOnce(&mut Settings, &mut Limits),
        observer: &mut dyn Observer,
    ) -> Result<RunEnd, EngineError> {
        self.reopen(id, change, None, observer)
    }

    /// Cancels a run permanently, and kills its processes. If an orchestrator owns the run, that one does.
    pub fn cancel(&self, id: &RunId, observer: &mut dyn Observer) -> Result<Run, EngineError> {
        let deadline = Instant::now() + CANCEL_PATIENCE;
        loop {
            if let RequestOutcome::Unowned(lock) = self.deliver(id, &Request::Cancel, observer)? {
                drop(lock);
                match self.reopen(id, |_, _| {}, Some(Halt::Cancelled), observer) {
                    Err(EngineError::Cancelled { .. }) => return Ok(load(&self.state_dir, id)?.run),
                    // Another process has taken the run in the meantime.
                    Err(EngineError::Lock { source: LockError::Owned { .. }, .. })
                        if Instant::now() < deadline => {}
                    end => return end.map(|end| end.run),
                }
            } else if Instant::now() >= deadline {
                let owner = RunLock::holder(&self.state_dir.run(id).lock);
                return Err(EngineError::Lock {
                    source: LockError::Owned { owner },
                    id: id.clone(),
                });
            }
            // The cancel is confirmed; wait until the orchestrator has ended its steps and left.
            std::thread::sleep(ASK_INTERVAL);
        }
    }

    /// Asks the orchestrator of a run to stop it, so that it can be resumed. `now` also ends running steps.
    /// `None` if no orchestrator owns it.
    pub fn stop(
        &self,
        id: &RunId,
        now: bool,
        observer: &mut dyn Observer,
    ) -> Result<Option<DoorAnswer>, EngineError> {
        match self.deliver(id, &Request::Stop { now }, observer)? {
            RequestOutcome::Answered(answer) => Ok(Some(answer)),
            RequestOutcome::Unowned(_) => {
                if load(&self.state_dir, id)?.run.status == Status::Running {
                    mirror::refuse(id, &self.state_dir.run(id))?;
                }
                Ok(None)
            }
        }
    }

    /// Changes the limits of a run, whether or not an orchestrator owns it. When this returns, the change is
    /// durable.
    pub fn limit(
        &self,
        id: &RunId,
        change: &LimitChange,
        observer: &mut dyn Observer,
    ) -> Result<DoorAnswer, EngineError> {
        let request = Request::Limit(change.clone());
        self.change(id, &request, observer, |run| Input::ChangeLimits {
            limits: change.apply(run.limits.clone()),
        })
    }

    /// Keeps a message for an agent of a run, whether or not an orchestrator owns the run. When this returns, the message
    /// is durable, unless the agent or the run has ended.
    pub fn tell(
        &self,
        id: &RunId,
        agent: &AgentId,
        message: &Message,
        observer: &mut dyn Observer,
    ) -> Result<DoorAnswer, EngineError> {
        let (agent, message) = (agent.clone(), message.clone());
        let request = Request::Tell { agent: agent.clone(), message: message.clone() };
        self.change(id, &request, observer, |_| Input::Told { agent, message })
    }

    /// Asks the orchestrator of a run for a change, or makes it here if no orchestrator owns the run.
    fn change(
        &self,
        id: &RunId,
        request: &Request,
        observer: &mut dyn Observer,
        input: impl FnOnce(&Run) -> Input,
    ) -> Result<DoorAnswer, EngineError> {
        let lock = match self.deliver(id, request, observer)? {
            RequestOutcome::Answered(answer) => return Ok(answer),
            RequestOutcome::Unowned(lock) => lock,
        };
        mirror::refuse(id, &self.state_dir.run(id))?;
        let mut ledger = Ledger::open(id, self.state_dir.run(id), lock, observer)?;
        if ledger.run().status == Status::Cancelled {
            return Err(EngineError::Cancelled { id: id.clone() });
        }
        let input = input(ledger.run());
        ledger.input(input)?;
        ledger.sync()?;
        Ok(DoorAnswer { status: ledger.close().status, running_steps: 0 })
    }

    /// Tells the orchestrator of a run that a question was answered, and waits until it has taken the answer.
    /// Returns whether there is one.
    pub fn tell_answered(
        &self,
        id: &RunId,
        ask: &AskId,
        observer: &mut dyn Observer,
    ) -> Result<bool, EngineError> {
        match self.deliver(id, &Request::Answered { ask: ask.to_string() }, observer)? {
            RequestOutcome::Answered(_) => Ok(true),
            RequestOutcome::Unowned(_) => {
                mirror::refuse(id, &self.state_dir.run(id))?;
                Ok(false)
            }
        }
    }

    /// Delivers a request to the orchestrator of a run, and waits for its answer. If no orchestrator owns the run,
    /// returns its lock.
    fn deliver(
        &self,
        id: &RunId,
        request: &Request,
        observer: &mut dyn Observer,
    ) -> Result<RequestOutcome, EngineError> {
        let files = self.state_dir.run(id);
        if !files.journal.exists() {
            return Err(EngineError::NoSuchRun { id: id.clone() });
        }
        self.state_dir.check_run(&files)?;
        refuse_foreign(&files)?;
        create_folders(&files)?;
        let door_error = |source| io_error("ask at the door of", &files.folder, source);
        let deadline = Instant::now() + door::PATIENCE;
        let mut letter: Option<Letter> = None;
        loop {
            let owner = match lock(id, &files) {
                Ok(lock) => {
                    // The orchestrator may have answered and left.
                    let answer = letter.as_ref().and_then(Letter::answer).transpose();
                    let answer = answer.map_err(door_error)?;
                    return Ok(
                        answer.map_or(RequestOutcome::Unowned(lock), RequestOutcome::Answered)
                    );
                }
                Err(EngineError::Lock { source: LockError::Owned { owner }, .. }) => owner,
                Err(error) => return Err(error),
            };
            // Withdrawn before it is made again.
            letter = letter.filter(|letter| !letter.is_too_early());
            if letter.is_none() {
                let run = mirror::identity_of(&files).unwrap_or_default();
                letter = Some(Letter::post(&files.folder, &run, request).map_err(door_error)?);
            }
            if Instant::now() >= deadline {
                let source = LockError::Owned { owner };
                return Err(EngineError::Lock { source, id: id.clone() });
            }
            wake_owner(owner.as_ref(), observer);
            if let Some(letter) = &letter
                && let Some(answer) = letter.wait(ASK_INTERVAL)
            {
                return answer.map(RequestOutcome::Answered).map_err(door_error);
            }
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
        refuse_foreign(&files)?;
        create_folders(&files)?;
        let lock = lock(id, &files)?;
        let mut ledger = Ledger::open(id, files, lock, observer)?;
        let left = end_left(&ledger);
        let (run, files) = (ledger.run(), ledger.files());
        match run.status {
            Status::Cancelled => return Err(EngineError::Cancelled { id: id.clone() }),
            // Its orchestrator may have died before it printed the result.
            Status::Completed => {
                let mut run = run.clone();
                Results::of(files).restore(&mut run);
                if let Some(text) = left {
                    ledger.trouble(text);
                }
                return Ok(RunEnd { run, is_interrupted: false });
            }
            Status::Running | Status::Failed | Status::Stopped | Status::Paused => {}
        }
        mirror::refuse(id, files)?;
        let world =
            match DiskWorld::open(Path::new(&run.scope_dir), &files.scope, self.agents.known()) {
                // A run can be cancelled although its archive is gone: the cancel reads no file of it.
                Err(_) if halt.is_some() => {
                    DiskWorld::open(&files.folder, &files.scope, self.agents.known())?
                }
                opened => opened?,
            };
        let (mut settings, mut limits) = (run.settings.clone(), run.limits.clone());
        change(&mut settings, &mut limits);
        if let Some(agent) = settings.agent.clone().filter(|name| !self.agents.has(name))
            && halt.is_none()
        {
            return Err(EngineError::NoAgent { id: id.clone(), agent });
        }
        let defies_limit = was_limited(run);
        ledger.tell_opened(false);
        if let Some(text) = left {
            ledger.trouble(text);
        }
        let inputs = [Some(Input::Resume { settings, limits }), halt.map(Input::Halt)];
        for input in inputs.into_iter().flatten() {
            // Its effects are among the pending ones.
            ledger.input(input)?;
        }
        let effects = pending(ledger.run());
        self.go(ledger, world, effects, defies_limit)
    }

    fn go(
        &self,
        ledger: Ledger<'_>,
        world: DiskWorld,
        effects: Vec<Effect>,
        defies_limit: bool,
    ) -> Result<RunEnd, EngineError> {
        let (run, files) = (ledger.run(), ledger.files().clone());
        let results = Results::of(&files);
        let inbox = Inbox::open(&files.folder);
        let inbox = inbox.map_err(|source| io_error("listen in", &files.folder, source))?;
        let door = Door::open(&files.folder, &run.identity);
        let door = door.map_err(|source| io_error("open the door of", &files.folder, source))?;
        let mut retention = Retention::new(self.kept_script_steps);
        retention.find(&files.steps, run);
        let means = self.means((&run.id, &run.identity), files, world, inbox.outbox())?;
        let performer = Performer::new(Means { retention, defies_limit, ..means });
        if let Some(interrupts) = &self.interrupts {
            interrupts.deliver_to(inbox.outbox());
        }
        let run = RunLoop::new(ledger, performer, inbox, door).run(effects);
        if let Some(interrupts) = &self.interrupts {
            interrupts.hold_back();
        }
        let mut run = run?;
        results.restore(&mut run);
        let is_interrupted = run.halt == Some(Halt::Interrupted);
        Ok(RunEnd { run, is_interrupted })
    }

    /// What a performer of the run with this id and identity needs: it keeps the files of no script step, and does
    /// not wait for usage limits.
    pub(crate) fn means(
        &self,
        (run, identity): (&RunId, &str),
        files: RunFiles,
        world: DiskWorld,
        outbox: Outbox,
    ) -> Result<Means<'_>, EngineError> {
        Ok(Means {
            run: run.clone(),
            identity: identity.to_owned(),
            world,
            agents: self.agents,
            steps: self.runner.steps(identity, &files, outbox.clone()),
            outbox,
            files,
            shell: programs::shell().ok_or(EngineError::NoShell)?,
            warm_limit: self.warm_limit,
            is_hurried: self.is_hurried,
            disk_reserve_bytes: self.disk_reserve_bytes,
            environment: self.environment.clone(),
            retention: Retention::new(0),
            reset_margin: self.reset_margin,
            shared_limits: SharedLimits::new(self.user_dir.clone()),
            defies_limit: true,
            answerer: self.answerer,
        })
    }
}

/// Whether a run rests because of a usage limit. The user who resumes it may know that the limit is lifted. One whose
/// orchestrator died is resumed by programs, too, and goes on waiting.
fn was_limited(run: &Run) -> bool {
    let is_halted = matches!(run.halt, Some(Halt::UsageLimit { .. }));
    run.status != Status::Running && (is_halted || run.usage_limit.is_some())
}

/// Continues the owner of a run if it is stopped, so that it can answer.
fn wake_owner(owner: Option<&Owner>, observer: &mut dyn Observer) {
    let pid = owner.and_then(|owner| sys::Pid::try_from(owner.pid).ok());
    if let Some(pid) = pid.filter(|pid| *pid > 0 && sys::is_stopped(*pid)) {
        sys::wake(pid);
        let text = format!("process {pid}, which runs it, was stopped; it was woken");
        observer.see(&Event::Trouble(text).now());
    }
}

/// Whether a run has begun in these files. A journal without a complete line contains nothing: the orchestrator that
/// created it died at once. It is moved aside.
pub(crate) fn has_begun(files: &RunFiles) -> Result<bool, EngineError> {
    if !files.journal.exists() {
        return Ok(false);
    }
    if Journal::read(&files.journal).map_or(true, |entries| !entries.is_empty()) {
        return Ok(true);
    }
    let moved = Journal::set_aside(&files.journal);
    moved.map_err(|source| io_error("replace", &files.journal, source))?;
    Ok(false)
}

pub(crate) fn lock(id: &RunId, files: &RunFiles) -> Result<RunLock, EngineError> {
    RunLock::take(&files.lock).map_err(|source| EngineError::Lock { id: id.clone(), source })
}

/// Makes sure that a new run can have the name `id`, whose lock is held.
pub(crate) fn make_way(id: &RunId, files: &RunFiles) -> Result<(), EngineError> {
    if has_begun(files)? { Err(EngineError::Exists { id: id.clone() }) } else { Ok(()) }
}

/// Refuses a foreign run, before anything is made for it. Whether its journal is intact is found out when it is read.
fn refuse_foreign(files: &RunFiles) -> Result<(), EngineError> {
    match Journal::ends(&files.journal) {
        Err(foreign @ JournalError::Foreign { .. }) => Err(foreign.into()),
        _ => Ok(()),
    }
}

/// Creates the directories of a run, durably: they will contain steps that are paid for.
pub(crate) fn create_folders(files: &RunFiles) -> Result<(), EngineError> {
    let create = || -> io::Result<()> {
        private::create_dir_all(&files.steps)?;
        sys::sync_folder(&files.folder)
    };
    create().map_err(|source| io_error("create", &files.steps, source))
}

#[cfg(test)]
mod tests;
