//! One owner per run.

use std::{
    fs::{File, TryLockError},
    io::{self, Read, Seek, Write},
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::clock;

/// Held for as long as this process owns the run. The kernel gives it back however we end.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

/// Who owns a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Its process.
    pub pid: u32,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
}

/// How often, and how far apart, the lock is tried before somebody else counts as its owner.
const TAKE_TRIES: u32 = 5;
const TAKE_INTERVAL: Duration = Duration::from_millis(10);

/// Why the run cannot be owned.
#[derive(Debug, Error)]
pub enum LockError {
    /// Somebody else does.
    #[error("{}", describe(owner.as_ref()))]
    Owned {
        /// Who, if they have said so already.
        owner: Option<Owner>,
    },
    /// The lock file cannot be used.
    #[error("the lock file cannot be used")]
    Io(#[from] io::Error),
}

fn describe(owner: Option<&Owner>) -> String {
    match owner {
        Some(Owner { pid, .. }) => format!("process {pid} is running it"),
        None => "another process is running it".to_owned(),
    }
}

impl RunLock {
    /// Takes the lock at `path`, or tells at once who has it.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let mut file =
            File::options().create(true).truncate(false).read(true).write(true).open(path)?;
        // Whoever asks for the holder takes the lock for a moment; an owner keeps it.
        let mut tries = 0;
        let taken = loop {
            tries += 1;
            match file.try_lock() {
                Err(TryLockError::WouldBlock) if tries < TAKE_TRIES => {
                    std::thread::sleep(TAKE_INTERVAL);
                }
                outcome => break outcome,
            }
        };
        match taken {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Err(LockError::Owned { owner: serde_json::from_str(&text).ok() });
            }
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let owner = Owner { pid: std::process::id(), since_ms: clock::now_ms() };
        // Only for people: a full disk must not keep anybody from continuing a run.
        let mut write = || -> io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&serde_json::to_vec(&owner)?)
        };
        let _ = write();
        Ok(Self { _file: file })
    }

    /// Who holds the lock at `path` now; `None` if nobody does.
    pub fn holder(path: &Path) -> Option<Owner> {
        let file = File::open(path).ok()?;
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => {
                let text = io::read_to_string(file).unwrap_or_default();
                Some(serde_json::from_str(&text).unwrap_or(Owner { pid: 0, since_ms: 0 }))
            }
            _ => None,
        }
    }
}
