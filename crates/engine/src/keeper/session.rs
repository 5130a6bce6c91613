//! The child of a turn: its input, what its output says, the locks on its sessions.

use std::{
    fs::{self, File},
    io::{self, PipeWriter, Write},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    sync::mpsc::{self, Sender},
    time::{Duration, Instant},
};

use super::launch::{SessionFiles, StepLaunch};
use crate::{
    agent::marks::{Progress, TurnMarks},
    exec::step::{messages, run_of},
    sys::{Signals, Watch},
    trust::private,
};

/// How often to try again to lock a session that another process uses.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// A turn's child whose output is followed.
pub(super) struct FollowedChild {
    /// Where its prompts and messages go; `None` if it takes only one prompt.
    stdin: Option<ChildInput>,
    /// Tells of output, and of messages in the directory of the step.
    watch: Watch,
    signals: OwnedFd,
    progress: Progress,
    /// The messages of the present turn that it was given, by their ids.
    told: Vec<String>,
}

impl FollowedChild {
    /// For a child that prints to `stdout`, and that takes further turns from `stdin` if there is that.
    pub(super) fn new(
        marks: &TurnMarks,
        stdin: Option<ChildInput>,
        stdout: &Path,
        signals: &Signals,
    ) -> io::Result<Self> {
        Ok(Self {
            stdin,
            // Watched before it is opened, so that no output is missed.
            watch: Watch::new(stdout)?,
            progress: Progress::new(marks.clone(), stdout)?,
            signals: signals.descriptor()?,
            told: Vec::new(),
        })
    }

    /// Whether it can be given further turns.
    pub(super) fn is_kept(&self) -> bool {
        self.stdin.is_some()
    }

    /// Becomes readable when a signal is pending, or when the child has printed something.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.signals.as_raw_fd(), self.watch.fd()]
    }

    /// Gives the child the turn with these marks, whose prompt is the file `stdin`.
    pub(super) fn give(&mut self, marks: &TurnMarks, stdin: &Path) -> io::Result<()> {
        let input = self.stdin.as_ref().ok_or(io::ErrorKind::Unsupported)?;
        // Before the child can print more.
        self.progress.begin(marks.clone())?;
        self.told.clear();
        input.write(Words::Of(stdin.to_owned()))
    }

    /// Watches for messages in the directory of the present step.
    pub(super) fn listen(&mut self, step: &StepLaunch) {
        // If it cannot be watched, they are given to the next turn.
        if self.is_kept() && self.watch.watch_names(&step.folder).is_ok() {
            self.pass_on(step);
        }
    }

    /// Gives the child the messages that are in the directory of the present step.
    fn pass_on(&mut self, step: &StepLaunch) {
        let Some(input) = &self.stdin else { return };
        for (id, message) in messages(&step.folder, run_of(&step.claim), &self.told) {
            self.progress.expect(message.taken);
            self.told.push(id);
            let _ = input.write(Words::These(message.line));
        }
    }

    /// Passes messages for `step` on, then reads the output since the last call. In this order: once the step counts as
    /// finished, its messages are not passed on any more.
    pub(super) fn look(&mut self, step: &StepLaunch) -> &Progress {
        if self.watch.clear() {
            self.pass_on(step);
        }
        self.progress.look(Instant::now());
        &self.progress
    }

    /// When to look again although nothing is printed.
    pub(super) fn look_again(&self) -> Option<Instant> {
        self.progress.look_again(self.is_kept(), Instant::now())
    }
}

/// Something to write to a child.
pub(super) enum Words {
    /// What is in this file.
    Of(PathBuf),
    /// This text.
    These(String),
}

/// The standard input of a child. A thread writes to it, one thing after another, because the reaper must not block if
/// the child does not read. It is closed after the last one when this is dropped.
pub(super) struct ChildInput(Sender<Words>);

impl ChildInput {
    pub(super) fn new(mut pipe: PipeWriter) -> io::Result<Self> {
        let (sender, words) = mpsc::channel();
        std::thread::Builder::new().spawn(move || {
            for words in words {
                let text = match words {
                    Words::Of(file) => fs::read(file).unwrap_or_default(),
                    Words::These(text) => text.into_bytes(),
                };
                // If the child has ended, the rest is dropped.
                let _ = pipe.write_all(&text);
            }
        })?;
        Ok(Self(sender))
    }

    pub(super) fn write(&self, words: Words) -> io::Result<()> {
        self.0.send(words).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// Locks on the sessions of a child: if two processes used a session at once, the additions of one of them
/// would be lost.
pub(super) struct SessionLocks {
    _own: File,
    source: Option<File>,
}

impl SessionLocks {
    /// Waits until no other process uses the sessions. `None` if a signal asks the reaper to give up.
    pub(super) fn take(files: &SessionFiles, signals: &Signals) -> io::Result<Option<Self>> {
        let Some(own) = lock(&files.own, signals)? else {
            return Ok(None);
        };
        let source = match &files.source {
            None => None,
            Some(path) => match lock(path, signals)? {
                None => return Ok(None),
                locked => locked,
            },
        };
        Ok(Some(Self { _own: own, source }))
    }

    /// The child has read the session that its own branches off.
    pub(super) fn release_source(&mut self) {
        self.source = None;
    }
}

fn lock(path: &Path, signals: &Signals) -> io::Result<Option<File>> {
    if let Some(folder) = path.parent() {
        private::create_dir_all(folder)?;
    }
    let file = private::options().create(true).append(true).open(path)?;
    while file.try_lock().is_err() {
        if signals.wait(LOCK_INTERVAL).is_some_and(|signal| signal != libc::SIGCHLD) {
            return Ok(None);
        }
    }
    Ok(Some(file))
}
