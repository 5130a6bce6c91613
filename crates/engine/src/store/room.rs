//! Disk space that is reserved for the journal.
//!
//! When a step fills the disk, the decisions about that must still fit: that the run is paused, and the cost of
//! the step.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{sys, trust::private};

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn room_is_taken_on_the_disk_and_given_up_once() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::take(folder.path());
        let metadata = fs::metadata(folder.path().join("room")).unwrap();
        assert_eq!(metadata.len(), u64::from(ROOM_BYTES));
        #[cfg(target_os = "linux")]
        assert!(
            std::os::unix::fs::MetadataExt::blocks(&metadata) * 512 >= u64::from(ROOM_BYTES),
            "a hole takes no room"
        );
        assert!(room.give_up());
        assert!(!room.give_up(), "a second full disk finds none");
    }

    #[test]
    fn room_that_a_killed_orchestrator_left_is_taken_over_and_none_is_left_in_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("room");
        fs::write(&path, "much longer than it should be".repeat(10_000)).unwrap();
        let room = Room::take(folder.path());
        assert_eq!(fs::metadata(&path).unwrap().len(), u64::from(ROOM_BYTES));
        drop(room);
        assert!(!path.exists());
    }

    #[test]
    fn run_goes_on_without_room() {
        let folder = tempfile::tempdir().unwrap();
        let room = Room::take(&folder.path().join("gone"));
        assert!(!room.give_up());
    }
}
