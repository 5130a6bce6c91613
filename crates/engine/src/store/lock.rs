//! The lock that gives a run one owner.

use std::{
    fs::{self, File, TryLockError},
    io::{self, Read, Seek, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{sys, sys::clock, trust::private};

/// Held for as long as this process owns the run. The kernel releases it however the process ends.
#[derive(Debug)]
pub struct RunLock {
    path: PathBuf,
    /// Device and inode of the locked file: another process may put a different file under its name.
    identity: (u64, u64),
    _file: File,
}

/// The process that owns a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The pid of the orchestrator.
    pub pid: u32,
    /// When it took the lock, in milliseconds since 1970.
    pub since_ms: u64,
}

/// How often, and at what interval, the lock is tried before another process counts as its owner.
const TAKE_TRIES: u32 = 5;
const TAKE_INTERVAL: Duration = Duration::from_millis(10);

/// Why this process cannot own the run.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process owns it.
    #[error("{}", describe(owner.as_ref()))]
    Owned {
        /// That process, if it has already written its pid.
        owner: Option<Owner>,
    },
    /// The lock file was removed or replaced, so that another process may own the run, too.
    #[error("the lock file {} was removed or replaced", path.display())]
    Lost {
        /// The file.
        path: PathBuf,
    },
    /// The lock file cannot be used.
    #[error("cannot use the lock file")]
    Io(#[from] io::Error),
}

fn describe(owner: Option<&Owner>) -> String {
    match owner {
        Some(Owner { pid, .. }) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

impl RunLock {
    /// Takes the lock at `path`. Fails at once with the owner if another process holds it.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let mut tries = 0;
        loop {
            tries += 1;
            let lock = Self::take_file(path)?;
            // If the file was removed before it was locked, another process can lock a new one: try again.
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
        // A process that calls `holder` takes the lock for a moment; an owner keeps it. So try again.
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
        // The content is only informative: a full disk must not prevent a run from being resumed.
        let mut write = || -> io::Result<()> {
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&serde_json::to_vec(&owner)?)
        };
        let _ = write();
        let identity = sys::identity(&file.metadata()?);
        Ok(Self { path: path.to_owned(), identity, _file: file })
    }

    /// Checks that the lock file was not removed or replaced: the next process would lock another file,
    /// and the run would have two owners. Must be called before the run is changed.
    pub fn check(&self) -> Result<(), LockError> {
        match fs::metadata(&self.path) {
            Ok(metadata) if sys::identity(&metadata) == self.identity => Ok(()),
            _ => Err(LockError::Lost { path: self.path.clone() }),
        }
    }

    /// The process that holds the lock at `path` now; `None` if it is free.
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

    #[test]
    fn owner_is_told_for_as_long_as_it_holds_the_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.lock");
        assert_eq!(RunLock::holder(&path), None, "there is no file");
        let lock = RunLock::take(&path).unwrap();
        let owner = RunLock::holder(&path).unwrap();
        assert_eq!(owner.pid, std::process::id());
        assert!(owner.since_ms <= clock::now_ms());
        let refused = RunLock::take(&path).unwrap_err();
        assert_eq!(refused.to_string(), format!("process {}", std::process::id()));
        drop(lock);
        assert_eq!(RunLock::holder(&path), None);
        RunLock::take(&path).unwrap();
    }

    #[test]
    fn lock_is_held_whatever_its_file_says() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.lock");
        // Longer than what is written over it.
        fs::write(&path, "x".repeat(1000)).unwrap();
        let _lock = RunLock::take(&path).unwrap();
        assert_eq!(RunLock::holder(&path).unwrap().pid, std::process::id());
        for text in ["", "{\"pid\":", "nonsense", "{\"pid\":-1,\"since_ms\":0}"] {
            fs::write(&path, text).unwrap();
            assert_eq!(RunLock::holder(&path), Some(Owner { pid: 0, since_ms: 0 }), "{text}");
            let refused = RunLock::take(&path).unwrap_err();
            assert_eq!(refused.to_string(), "another process", "{text}");
        }
    }

    #[test]
    fn lock_that_cannot_be_created_is_an_error_of_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("gone/r.lock");
        assert!(matches!(RunLock::take(&path), Err(LockError::Io(_))));
        assert!(matches!(RunLock::take(folder.path()), Err(LockError::Io(_))));
    }
}
