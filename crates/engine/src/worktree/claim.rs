//! The claim of a run on a worktree: see the module above.

use std::{
    fs::{File, TryLockError},
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
    time::{Duration, Instant},
};

use crate::{
    sys,
    trust::{private, seal},
};

/// How long a git process that a killed orchestrator left behind is waited for.
const PATIENCE: Duration = Duration::from_mins(2);
/// How often its lock is tried.
const INTERVAL: Duration = Duration::from_millis(20);
/// More than an identity, a seal and a word.
const BYTES_MAX: u64 = 1_000;
/// What the seals of claims are for: a model that may write here must not pass off a directory of its own as a worktree.
const SEAL: &str = "worktree";

/// What a claim says about its worktree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Claimed {
    /// Nobody has claimed it.
    New,
    /// This run has, and did not complete it.
    HalfMade,
    /// This run has, and it is complete.
    Made,
    /// Another run of the same id has.
    Foreign,
}

/// A locked claim.
pub(super) struct Claim {
    pub(super) file: File,
    pub(super) state: Claimed,
    /// Its first line: the identity of the run, and a seal.
    owner: String,
}

impl Claim {
    /// Opens and locks the claim of run `identity` at `path`.
    pub(super) fn open(path: &Path, identity: &str) -> io::Result<Self> {
        let mut options = private::options();
        let mut file = options.create(true).truncate(false).read(true).write(true).open(path)?;
        let begun = Instant::now();
        loop {
            match sys::try_lock(&file) {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if begun.elapsed() < PATIENCE => {
                    std::thread::sleep(INTERVAL);
                }
                Err(TryLockError::WouldBlock) => {
                    let text = "a git process of an earlier orchestrator still works on it";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, text));
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let own = format!("{identity} {}", seal::seal(SEAL, &[identity.as_bytes(), name]));
        let mut text = String::new();
        (&mut file).take(BYTES_MAX).read_to_string(&mut text)?;
        let state = match text.split_once('\n') {
            // Nothing was made before the first line was complete.
            None => Claimed::New,
            Some((owner, _)) if owner != own => Claimed::Foreign,
            Some((_, "made\n")) => Claimed::Made,
            Some(_) => Claimed::HalfMade,
        };
        Ok(Self { file, state, owner: own })
    }

    /// Claims the worktree, durably.
    pub(super) fn take(&mut self, path: &Path) -> io::Result<()> {
        self.write("")?;
        path.parent().map_or(Ok(()), sys::sync_folder)
    }

    /// Says that the worktree is complete, durably.
    pub(super) fn made(&mut self) -> io::Result<()> {
        self.write("made\n")
    }

    fn write(&mut self, state: &str) -> io::Result<()> {
        let text = format!("{}\n{state}", self.owner);
        self.file.rewind()?;
        self.file.write_all(text.as_bytes())?;
        self.file.set_len(text.len() as u64)?;
        self.file.sync_all()
    }
}
