//! Disk space that is reserved for the journal.
//!
//! When a step fills the disk, the decisions about that must still fit: that the run is paused, and the cost of
//! the step.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{private, sys};

/// Enough for some decisions and a small state file.
const ROOM_BYTES: u32 = 32 * 1024;

/// A file that reserves disk space. It is removed when the space is needed, or when it is dropped.
#[derive(Debug)]
pub(crate) struct Room {
    path: PathBuf,
}

impl Room {
    /// Reserves space in the run's directory, if there is any.
    pub(crate) fn take(folder: &Path) -> Self {
        let path = folder.join("room");
        let file = private::options().create(true).truncate(true).write(true).open(&path);
        let taken = file.and_then(|file| sys::reserve(&file, ROOM_BYTES));
        if taken.is_err() {
            let _ = fs::remove_file(&path);
        }
        Self { path }
    }

    /// Releases the space; returns whether any was reserved.
    pub(crate) fn give_up(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.give_up();
    }
}
