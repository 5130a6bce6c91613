//! Runs steps without a keeper: a thread of the orchestrator guards each step.
//!
//! A guardian thread does the work of a reaper, with the standard library and a process tree ([`sys::Tree`]).
//! It dies with this process, cannot keep a child for another step and, except on Windows, cannot find
//! processes that have left the process group of their step.

use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Write as _},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        mpsc::{self, Receiver, RecvTimeoutError, Sender},
    },
    thread,
    time::{Duration, Instant},
};

use super::{ProcessNumber, RunPlace, Steps};
use crate::{
    agent::marks::Progress,
    exec::step::{Claim, ExitRecord, HowEnded, StepFolder, StepState},
    keeper::{ChildAction, LaunchKind, Patience, StepLaunch},
    run::inbox::{Inbox, Message, Outbox},
    sys::{self, Pid, Tree},
    trust::private,
};

/// How long guardians may take to end their steps: the grace period, and a busy machine.
const CLOSE_PATIENCE: Duration = Duration::from_secs(15);
/// How often to try again to lock a session that another process uses.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);
/// How often to read what a turn has printed: whether it is over is told by its process first.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A message to a guardian.
enum Word {
    /// End the step.
    End,
    /// The child has ended.
    Ended(io::Result<ExitStatus>),
}

/// The guardians of a run.
pub(super) struct ThreadSteps {
    place: RunPlace,
    outbox: Outbox,
    guardians: Arc<Guardians>,
    remarks: Vec<String>,
}

#[derive(Debug, Default)]
struct Guardians {
    /// The channel to each guardian, by the name of its step.
    steps: Mutex<HashMap<String, Sender<Word>>>,
    changed: Condvar,
}

impl Guardians {
    fn steps(&self) -> MutexGuard<'_, HashMap<String, Sender<Word>>> {
        self.steps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, step: &str) {
        self.steps().remove(step);
        self.changed.notify_all();
    }
}

impl ThreadSteps {
    pub(super) fn new(place: RunPlace, outbox: Outbox) -> Self {
        Self { place, outbox, guardians: Arc::default(), remarks: Vec::new() }
    }
}

impl Steps for ThreadSteps {
    fn standing(&mut self, step: &StepFolder) -> io::Result<StepState> {
        // The guardian is a thread of another orchestrator, which must not be killed for it.
        let kill = |program| Err(io::Error::other(format!("process {program} still runs it")));
        self.place.standing(step, kill, &mut self.remarks)
    }

    fn forbid(&mut self, step: &StepFolder) -> io::Result<bool> {
        step.forbid()
    }

    /// Claims a step and starts a guardian, which starts the child. No child is kept for another turn.
    fn launch(&mut self, launch: &StepLaunch) -> io::Result<Option<ProcessNumber>> {
        // In this thread, so that no other one claims or forbids the step meanwhile.
        let Ok((claim, outputs)) = launch.claim() else {
            self.outbox.send(&Message::ReaperGone);
            return Ok(None);
        };
        let (words, heard) = mpsc::channel();
        let name = launch.name();
        self.guardians.steps().insert(name.clone(), words.clone());
        let guardian = Guardian { launch: launch.clone(), outputs, words, heard };
        let (guardians, outbox) = (Arc::clone(&self.guardians), self.outbox.clone());
        let spawned = thread::Builder::new().spawn(move || {
            guardian.run(claim);
            let name = guardian.launch.name();
            guardians.forget(&name);
            outbox.send(&Message::Step(name));
        });
        if spawned.is_err() {
            // The claim is dropped with the guardian, so the step counts as lost.
            self.guardians.forget(&name);
            self.outbox.send(&Message::Step(name));
        }
        Ok(None)
    }

    fn give(&mut self, _process: ProcessNumber, _launch: &StepLaunch) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn let_go(&mut self, _process: ProcessNumber) {}

    fn end(&mut self, step: &StepFolder, _reaper: Option<Pid>, _by_force: bool) {
        if let Some(guardian) = self.guardians.steps().get(&step.name()) {
            let _ = guardian.send(Word::End);
        }
    }

    fn sweep(&mut self, step: &StepFolder) -> io::Result<usize> {
        self.place.sweep(step)
    }

    fn remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    fn outlive_us(&self) -> bool {
        false
    }

    /// Ends all steps.
    fn close(&mut self, _inbox: &Inbox) {
        let steps = self.guardians.steps();
        for guardian in steps.values() {
            let _ = guardian.send(Word::End);
        }
        let is_busy = |steps: &mut HashMap<String, Sender<Word>>| !steps.is_empty();
        drop(self.guardians.changed.wait_timeout_while(steps, CLOSE_PATIENCE, is_busy));
    }
}

/// The thread that guards one step.
struct Guardian {
    launch: StepLaunch,
    outputs: [File; 2],
    /// A sender for the thread that waits for the child.
    words: Sender<Word>,
    heard: Receiver<Word>,
}

impl Guardian {
    /// Runs the step and records how it ended.
    fn run(&self, claim: Claim) {
        let begun = Instant::now();
        let how = self.start_and_guard().unwrap_or_else(|how| how);
        let is_durable = self.launch.is_durable();
        if is_durable {
            for output in &self.outputs {
                let _ = output.sync_all();
            }
        }
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let [stdout_bytes, _] = self.printed();
        // If the record cannot be written, the step is lost. On Windows it cannot be read while it is locked.
        let _ = claim.end(&ExitRecord { how, duration_ms, stdout_bytes }, is_durable);
        drop(claim);
    }

    fn start_and_guard(&self) -> Result<HowEnded, HowEnded> {
        let not_run = |error: io::Error| self.launch.not_run(&error);
        let _locks = self.lock().map_err(not_run)?.ok_or(HowEnded::Interrupted)?;
        let tree = self.start().map_err(not_run)?;
        Ok(self.guard(&tree))
    }

    /// Waits until no other process uses the sessions. `None` if the orchestrator asks to end the step.
    fn lock(&self) -> io::Result<Option<Vec<File>>> {
        let mut locks = Vec::new();
        let LaunchKind::Turn { sessions, .. } = &self.launch.kind else {
            return Ok(Some(locks));
        };
        for path in [Some(&sessions.own), sessions.source.as_ref()].into_iter().flatten() {
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

    /// Starts the child. Everything that may fail comes before it exists.
    fn start(&self) -> io::Result<Tree> {
        let StepLaunch { program, environment, without, cwd, .. } = &self.launch;
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

    /// The child's standard input. Not the file itself: some programs accept a prompt only from a pipe.
    fn stdin(&self) -> io::Result<Stdio> {
        let LaunchKind::Turn { stdin: path, .. } = &self.launch.kind else {
            return Ok(Stdio::null());
        };
        let words = fs::read(path)?;
        let (theirs, mut ours) = io::pipe()?;
        // A child need not read its input. If it ends, the rest is dropped.
        thread::Builder::new().spawn(move || drop(ours.write_all(&words)))?;
        Ok(theirs.into())
    }

    /// Waits for the child, however long that takes.
    fn guard(&self, tree: &Tree) -> HowEnded {
        let mut patience = Patience::of_step(self.launch.idle_seconds, Instant::now());
        let mut progress = self.progress();
        loop {
            if let Some(progress) = &mut progress {
                let now = Instant::now();
                progress.look(now);
                if let Some(why) = progress.must_end(false, now) {
                    patience.end(why);
                }
            }
            if patience.is_limited() {
                patience.see_output(self.printed(), Instant::now());
            }
            let until = match patience.next(Instant::now()) {
                ChildAction::Wait(until) => until,
                ChildAction::AskToEnd => {
                    tree.end(true);
                    continue;
                }
                ChildAction::Kill => {
                    tree.end(false);
                    continue;
                }
            };
            let again = progress.as_ref().map(|_| Instant::now() + LOOK_INTERVAL);
            let until = again.map_or(until, |again| again.min(until));
            let left = until.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok(Word::Ended(status)) => {
                    // Kill processes that outlived the child.
                    tree.end(false);
                    let how = self.how_ended(status);
                    return patience.verdict(how, self.launch.is_durable());
                }
                Ok(Word::End) => patience.end(HowEnded::Interrupted),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => unreachable!("we hold a sender ourselves"),
            }
        }
    }

    /// What the child of a turn says of its progress, if it says that.
    fn progress(&self) -> Option<Progress> {
        let LaunchKind::Turn { marks, .. } = &self.launch.kind else {
            return None;
        };
        let stdout = self.launch.folder.join("stdout");
        (!marks.is_none()).then(|| Progress::new(marks.clone(), &stdout).ok()).flatten()
    }

    fn how_ended(&self, status: io::Result<ExitStatus>) -> HowEnded {
        match status.map(|status| (status.code(), status)) {
            Ok((Some(code), _)) => HowEnded::Code(code),
            Ok((None, status)) => HowEnded::Signal(sys::signal_of(status)),
            Err(error) => self.launch.not_run(&error),
        }
    }

    fn printed(&self) -> [u64; 2] {
        self.outputs.each_ref().map(|file| file.metadata().map_or(0, |metadata| metadata.len()))
    }
}

#[cfg(all(test, unix))]
mod tests;
