//! Room on the disk that is kept for the journal.
//!
//! When a step fills the disk, what is decided about that must still fit: that the run is paused, and
//! what the step cost.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{private, sys};

/// Enough for some decisions and a small state file.
const ROOM_BYTES: u32 = 32 * 1024;

/// A file that takes room, and gives it up when it is needed or when nobody needs it any more.
#[derive(Debug)]
pub(crate) struct Room {
    path: PathBuf,
}

impl Room {
    /// Takes room in the run's folder, if there is any.
    pub(crate) fn take(folder: &Path) -> Self {
        let path = folder.join("room");
        let file = private::options().create(true).truncate(true).write(true).open(&path);
        let taken = file.and_then(|file| sys::reserve(&file, ROOM_BYTES));
        if taken.is_err() {
            let _ = fs::remove_file(&path);
        }
        Self { path }
    }

    /// Gives it up; tells whether there was any.
    pub(crate) fn give_up(&self) -> bool {
        fs::remove_file(&self.path).is_ok()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.give_up();
    }
}
