//! The keeper where there can be none: every step has a thread of this process as its guardian.
//!
//! It does what a reaper does, with the means of the standard library and a process tree (`sys::Tree`).
//! What it cannot do is live on when this process is killed, keep a child for another step and, except
//! on Windows, find processes that have left the group of their step.

use std::{
    collections::HashMap,
    ffi::OsString,
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::launch::Launch;
use crate::{
    inbox::{Message, Outbox},
    private,
    step::{Claim, ExitRecord, HowEnded},
    sys::{self, Pid, Tree},
};

/// Whether the keeper is a process of its own: it outlives us, and keeps children for further turns.
pub(crate) const IS_APART: bool = false;

/// What a child gets between the polite and the impolite end.
const GRACE: Duration = Duration::from_secs(5);
/// How often somebody is ended who did not hear it.
const KILL_INTERVAL: Duration = Duration::from_millis(100);
/// How often a conversation is asked for that somebody else has.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// There is no keeper to be.
pub fn serve(_folder: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// What a guardian hears.
enum Word {
    /// The step may start.
    Go,
    /// Nobody will say so any more.
    Closed,
    /// The step is to be ended.
    End,
    /// The child has ended by itself or by us.
    Ended(io::Result<ExitStatus>),
}

/// The guardians of a run.
#[derive(Debug)]
pub(crate) struct Keeper {
    outbox: Outbox,
    guardians: Arc<Guardians>,
}

#[derive(Debug, Default)]
struct Guardians {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The way to each guardian, by the name of its step.
    steps: HashMap<String, Sender<Word>>,
    is_leaving: bool,
}

impl Guardians {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, step: &str) {
        self.state().steps.remove(step);
        self.changed.notify_all();
    }
}

/// A step that is ready and waits for a word. Dropping it before means that it never starts.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Nothing if nobody took the step.
    guardian: Option<Sender<Word>>,
}

impl Gate {
    /// Lets the step start.
    pub(crate) fn open(&self) {
        self.say(Word::Go);
    }

    fn say(&self, word: Word) {
        if let Some(guardian) = &self.guardian {
            let _ = guardian.send(word);
        }
    }

    /// No child is kept, so none can be given anything.
    #[expect(clippy::unused_self, reason = "the other keeper needs it")]
    pub(crate) fn hand_over(&self, _launch: &Launch) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Says that nothing more will be handed over.
    pub(crate) fn hang_up(&self) {
        self.say(Word::Closed);
    }

    /// No child is kept, so there is nobody to wait for.
    #[expect(clippy::unused_self, reason = "the other keeper needs it")]
    pub(crate) fn wait_until_gone(&self) -> io::Result<fn()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.hang_up();
    }
}

impl Keeper {
    /// A keeper without steps. They tell by `outbox` when they end.
    #[expect(clippy::unnecessary_wraps, reason = "the other keeper needs it")]
    pub(crate) fn connect(
        _folder: &Path,
        _program: &[OsString],
        outbox: &Outbox,
    ) -> io::Result<Self> {
        Ok(Self { outbox: outbox.clone(), guardians: Arc::default() })
    }

    /// Claims a step and gives it a guardian, who starts it when the gate is opened.
    #[expect(clippy::unnecessary_wraps, reason = "the other keeper needs it")]
    pub(crate) fn launch(&mut self, launch: &Launch) -> io::Result<Gate> {
        // By this thread: nobody else claims or forbids a step meanwhile.
        let Ok((claim, outputs)) = launch.claim() else {
            self.outbox.send(&Message::ReaperGone);
            return Ok(Gate { guardian: None });
        };
        let (words, heard) = mpsc::channel();
        let name = launch.name();
        self.guardians.state().steps.insert(name.clone(), words.clone());
        let guardian = Guardian { launch: launch.clone(), outputs, words: words.clone(), heard };
        let (guardians, outbox) = (Arc::clone(&self.guardians), self.outbox.clone());
        let spawned = thread::Builder::new().spawn(move || {
            guardian.run(claim);
            let name = guardian.launch.name();
            guardians.forget(&name);
            outbox.send(&Message::Step(name));
        });
        if spawned.is_err() {
            // The claim is gone with it, and shows that the step was lost.
            self.guardians.forget(&name);
            self.outbox.send(&Message::Step(name));
        }
        Ok(Gate { guardian: Some(words) })
    }

    /// A guardian has one step only.
    #[expect(clippy::unused_self, reason = "the other keeper needs it")]
    pub(crate) fn keep(&mut self, _step: String, _gate: Gate) {}

    /// Nobody waits for another step.
    #[expect(clippy::unused_self, reason = "the other keeper needs it")]
    pub(crate) fn step_is_over(&mut self, _step: &str, _is_told: bool) {}

    /// Ends every step.
    #[expect(clippy::unnecessary_wraps, reason = "the other keeper needs it")]
    pub(crate) fn shut_down(&mut self) -> io::Result<()> {
        let mut state = self.guardians.state();
        state.is_leaving = true;
        for guardian in state.steps.values() {
            let _ = guardian.send(Word::End);
        }
        self.guardians.changed.notify_all();
        Ok(())
    }

    /// There is no process to kill.
    #[expect(clippy::unused_self, reason = "the other keeper needs it")]
    pub(crate) fn kill(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    /// Blocks until it was shut down and the last step has ended.
    #[expect(clippy::unnecessary_wraps, reason = "the other keeper needs it")]
    pub(crate) fn wait_until_gone(&self) -> io::Result<impl FnOnce() + Send + use<>> {
        let guardians = Arc::clone(&self.guardians);
        Ok(move || {
            let is_here = |state: &mut State| !state.is_leaving || !state.steps.is_empty();
            drop(guardians.changed.wait_while(guardians.state(), is_here));
        })
    }
}

/// Asks the guardian of a step to end it, with everybody whom it started.
pub(crate) fn end(keeper: Option<&Keeper>, step: &str, _reaper: Option<Pid>) {
    let guardians = keeper.map(|keeper| keeper.guardians.state());
    if let Some(guardian) = guardians.as_ref().and_then(|state| state.steps.get(step)) {
        let _ = guardian.send(Word::End);
    }
}

/// The guardian is a thread of another program, which is not to be killed for it.
pub(crate) fn kill(_folder: &Path, program: Pid) -> io::Result<()> {
    Err(io::Error::other(format!("process {program} still runs it")))
}

/// Guardians are threads of this process: none is stopped while it looks.
pub(crate) fn stopped(_folder: &Path) -> Vec<Pid> {
    Vec::new()
}

/// Whoever looks after one step.
struct Guardian {
    launch: Launch,
    outputs: [File; 2],
    /// The way to ourselves.
    words: Sender<Word>,
    heard: Receiver<Word>,
}

impl Guardian {
    /// Sees the step through and writes down how it ended.
    fn run(&self, claim: Claim) {
        let begun = Instant::now();
        let how = self.start_and_guard().unwrap_or_else(|how| how);
        let is_durable = self.launch.is_durable;
        if is_durable {
            for output in &self.outputs {
                let _ = output.sync_all();
            }
        }
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let [stdout_bytes, _] = self.printed();
        // If it cannot be written, the step is lost; and nobody can read it while it is locked.
        let _ = claim.end(&ExitRecord { how, duration_ms, stdout_bytes }, is_durable);
        drop(claim);
    }

    fn start_and_guard(&self) -> Result<HowEnded, HowEnded> {
        match self.heard.recv() {
            Ok(Word::Go) => {}
            Ok(Word::End) => return Err(HowEnded::Interrupted),
            Ok(Word::Closed | Word::Ended(_)) | Err(_) => return Err(HowEnded::Forbidden),
        }
        let not_run = |error: io::Error| self.launch.not_run(&error);
        let _locks = self.lock().map_err(not_run)?.ok_or(HowEnded::Interrupted)?;
        let tree = self.start().map_err(not_run)?;
        Ok(self.guard(&tree))
    }

    /// Waits until the conversations are free. `None` if somebody asks to give up.
    fn lock(&self) -> io::Result<Option<Vec<File>>> {
        let mut locks = Vec::new();
        let conversations = &self.launch.conversations;
        for path in [&conversations.own, &conversations.source].into_iter().flatten() {
            if let Some(folder) = path.parent() {
                private::create_dir_all(folder)?;
            }
            let file = private::options().create(true).read(true).append(true).open(path)?;
            while file.try_lock().is_err() {
                if matches!(self.heard.recv_timeout(LOCK_INTERVAL), Ok(Word::End)) {
                    return Ok(None);
                }
            }
            locks.push(file);
        }
        Ok(Some(locks))
    }

    /// Starts the child. All that may fail is done before it lives.
    fn start(&self) -> io::Result<Tree> {
        let Launch { program, environment, without, cwd, .. } = &self.launch;
        let (name, arguments) = program.split_first().ok_or(io::ErrorKind::NotFound)?;
        let [stdout, stderr] = &self.outputs;
        let mut command = Command::new(name);
        command.args(arguments).current_dir(cwd).stdin(self.stdin()?);
        command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        for variable in without {
            command.env_remove(variable);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let (hand, taken) = mpsc::channel::<Child>();
        let words = self.words.clone();
        thread::Builder::new().spawn(move || {
            if let Ok(mut child) = taken.recv() {
                let _ = words.send(Word::Ended(child.wait()));
            }
        })?;
        let (child, tree) = Tree::spawn(&mut command)?;
        let _ = hand.send(child);
        Ok(tree)
    }

    /// What the child reads. Not the file itself: some programs take their orders from a pipe only.
    fn stdin(&self) -> io::Result<Stdio> {
        let Some(path) = &self.launch.stdin else {
            return Ok(Stdio::null());
        };
        let words = fs::read(path)?;
        let (theirs, mut ours) = io::pipe()?;
        // A child need not listen, and one that has ended is told nothing more.
        thread::Builder::new().spawn(move || drop(ours.write_all(&words)))?;
        Ok(theirs.into())
    }

    /// Waits for the child, whatever it takes.
    fn guard(&self, tree: &Tree) -> HowEnded {
        let idle_seconds = self.launch.idle_seconds;
        let idle_limit = Duration::from_secs(idle_seconds);
        let interval = self.launch.look_interval();
        let mut printed = self.printed();
        let mut changed = Instant::now();
        // Why the child is being ended, and when that turns impolite.
        let mut ending: Option<(HowEnded, Instant)> = None;
        loop {
            let patience = ending.as_ref().map_or(interval, |(_, deadline)| {
                deadline.saturating_duration_since(Instant::now()).max(KILL_INTERVAL)
            });
            let mut why = None;
            match self.heard.recv_timeout(patience) {
                Ok(Word::Ended(status)) => {
                    // Whoever outlived it.
                    tree.end(false);
                    return self.verdict(ending.map(|(why, _)| why), status);
                }
                Ok(Word::End) => why = Some(HowEnded::Interrupted),
                Ok(Word::Go | Word::Closed) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("we hold an end ourselves"),
            }
            if let Some((_, deadline)) = &ending {
                if *deadline <= Instant::now() {
                    tree.end(false);
                }
                continue;
            }
            let now_printed = self.printed();
            if now_printed != printed {
                (printed, changed) = (now_printed, Instant::now());
            } else if !idle_limit.is_zero() && changed.elapsed() >= idle_limit {
                why = why.or(Some(HowEnded::TimedOut(idle_seconds)));
            }
            if let Some(why) = why {
                tree.end(true);
                ending = Some((why, Instant::now() + GRACE));
            }
        }
    }

    /// How the child ended counts as what we did to it, if we did; but a coding agent that used its
    /// grace to finish has an answer that is paid for.
    fn verdict(&self, ending: Option<HowEnded>, status: io::Result<ExitStatus>) -> HowEnded {
        let status = match status {
            Ok(status) => status,
            Err(error) => return self.launch.not_run(&error),
        };
        match (ending, status.code()) {
            (Some(_), Some(0)) if self.launch.is_durable => HowEnded::Code(0),
            (Some(why), _) => why,
            (None, Some(code)) => HowEnded::Code(code),
            (None, None) => HowEnded::Signal(sys::signal_of(status)),
        }
    }

    fn printed(&self) -> [u64; 2] {
        self.outputs.each_ref().map(|file| file.metadata().map_or(0, |metadata| metadata.len()))
    }
}
