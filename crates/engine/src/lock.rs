//! One owner per run.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{clock, private, sys};

/// Held for as long as this process owns the run. The kernel gives it back however we end.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    /// What the file is, whose name anybody may give to another one.
    identity: (u64, u64),
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
    /// The lock file was removed or replaced, so that somebody else may own the run, too.
    #[error("the lock file {} was removed or replaced", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
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
        let mut tries = 0;
        loop {
            tries += 1;
            let lock = Self::take_file(path)?;
            // Whoever removed the file before it was locked has made room for another owner.
            match lock.check() {
                Ok(()) => return Ok(lock),
                Err(error) if tries == TAKE_TRIES => return Err(error),
                Err(_) => {}
            }
        }
    }

    fn take_file(path: &Path) -> Result<Self, LockError> {
        let mut options = private::options();
        let mut file = options.create(true).truncate(false).read(true).write(true).open(path)?;
        private::tighten(path)?;
        // Whoever asks for the holder takes the lock for a moment; an owner keeps it.
        let mut tries = 0;
        let taken = loop {
            tries += 1;
            match sys::try_lock(&file) {
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
        let identity = sys::identity(&file.metadata()?);
        Ok(Self { path: path.to_owned(), identity, _file: file })
    }

    /// Makes sure that nobody has removed or replaced the lock file: the next owner would lock
    /// another file, and be the second one. To be called before the run is changed.
    pub fn check(&self) -> Result<(), LockError> {
        match fs::metadata(&self.path) {
            Ok(metadata) if sys::identity(&metadata) == self.identity => Ok(()),
            _ => Err(LockError::Lost { path: self.path.clone() }),
        }
    }

    /// Who holds the lock at `path` now; `None` if nobody does.
    pub fn holder(path: &Path) -> Option<Owner> {
        let file = File::open(path).ok()?;
        match sys::try_lock_shared(&file) {
            Err(TryLockError::WouldBlock) => {
                let text = io::read_to_string(file).unwrap_or_default();
                Some(serde_json::from_str(&text).unwrap_or(Owner { pid: 0, since_ms: 0 }))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn lock_whose_file_is_removed_or_replaced_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.lock");
        let lock = RunLock::take(&path).unwrap();
        lock.check().unwrap();
        assert!(matches!(RunLock::take(&path), Err(LockError::Owned { owner: Some(_) })));
        let elsewhere = folder.path().join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        assert!(matches!(lock.check(), Err(LockError::Lost { .. })));
        fs::copy(&elsewhere, &path).unwrap();
        assert!(matches!(lock.check(), Err(LockError::Lost { .. })));
        let second = RunLock::take(&path).unwrap();
        second.check().unwrap();
        fs::rename(&elsewhere, &path).unwrap();
        lock.check().unwrap();
        assert!(matches!(second.check(), Err(LockError::Lost { .. })));
    }
}
