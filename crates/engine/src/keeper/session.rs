//! The child of a turn: its input, what its output says, the locks on its sessions.

use std::{
    fs::{self, File},
    io::{self, PipeWriter, Read, Write},
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::launch::SessionFiles;
use crate::{
    marks::{Progress, TurnMarks},
    private,
    sys::{self, Signals},
};

/// How often to try again to lock a session that another process uses.
const LOCK_INTERVAL: Duration = Duration::from_millis(5);

/// A turn's child whose output is followed.
pub(super) struct FollowedChild {
    /// Where its prompts go; `None` if it takes only one turn.
    stdin: Option<PipeWriter>,
    written: File,
    signals: OwnedFd,
    progress: Progress,
}

impl FollowedChild {
    /// For a child that prints to `stdout`, and that takes further turns from `stdin` if there is that.
    pub(super) fn new(
        marks: &TurnMarks,
        stdin: Option<PipeWriter>,
        stdout: &Path,
        signals: &Signals,
    ) -> io::Result<Self> {
        Ok(Self {
            stdin,
            // Watched before it is opened, so that no output is missed.
            written: sys::watch(stdout)?,
            progress: Progress::new(marks.clone(), stdout)?,
            signals: signals.descriptor()?,
        })
    }

    /// Whether it can be given further turns.
    pub(super) fn is_kept(&self) -> bool {
        self.stdin.is_some()
    }

    /// Becomes readable when a signal is pending, or when the child has printed something.
    pub(super) fn descriptors(&self) -> [RawFd; 2] {
        [self.signals.as_raw_fd(), self.written.as_raw_fd()]
    }

    /// Gives the child the turn with these marks, whose prompt is the file `stdin`.
    pub(super) fn give(&mut self, marks: &TurnMarks, stdin: &Path) -> io::Result<()> {
        let pipe = self.stdin.as_ref().ok_or(io::ErrorKind::Unsupported)?.try_clone()?;
        // Before the child can print more.
        self.progress.begin(marks.clone())?;
        write_prompt(stdin.to_owned(), pipe)
    }

    /// Reads the output since the last call.
    pub(super) fn look(&mut self) -> &Progress {
        let mut chunk = [0; 8 * 1024];
        while matches!(self.written.read(&mut chunk), Ok(length) if length > 0) {}
        self.progress.look(Instant::now());
        &self.progress
    }

    /// When to look again although nothing is printed.
    pub(super) fn look_again(&self) -> Option<Instant> {
        self.progress.look_again(self.is_kept(), Instant::now())
    }
}

/// Writes the file `prompt` to a child. In a thread, because the reaper must not block if the child does not
/// read. If the child ends meanwhile, the rest is dropped.
pub(super) fn write_prompt(prompt: PathBuf, mut pipe: PipeWriter) -> io::Result<()> {
    let spawned = std::thread::Builder::new().spawn(move || {
        let text = fs::read(prompt).unwrap_or_default();
        let _ = pipe.write_all(&text);
    });
    spawned.map(drop)
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
