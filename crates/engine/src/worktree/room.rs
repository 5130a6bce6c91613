//! Whether git had enough space on the disks that it writes to.

use std::path::{Path, PathBuf};

use raymond_flow::{machine::Worktree, policy::WorktreePlan};

use super::git::Git;
use crate::sys;

/// What git says about a full disk. It often says only that it could not write a file.
const SIGNS: [&str; 3] = ["No space left on device", "Out of diskspace", "Disk quota exceeded"];
/// With less free space than this, a disk counts as full, whatever the reserve is.
const FULL_BYTES: u64 = 64 * 1024;
/// Files take up whole blocks; this is a common size.
const BLOCK_BYTES: u64 = 4096;

/// A disk without enough space.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NoRoom {
    /// A directory on it.
    pub(crate) disk: PathBuf,
    /// Its free space.
    pub(crate) free_bytes: u64,
}

/// The disks on which git makes and saves worktrees.
pub(super) struct Disks<'a> {
    places: [&'a Path; 2],
    reserve_bytes: u64,
}

impl<'a> Disks<'a> {
    /// Those of the directory of worktrees, and of the repository.
    pub(super) fn new(worktrees: &'a Path, repository: &'a str, reserve_bytes: u64) -> Self {
        Self { places: [worktrees, Path::new(repository)], reserve_bytes }
    }

    /// The first with less space than the reserve.
    pub(super) fn low(&self) -> Option<NoRoom> {
        self.below(self.reserve_bytes)
    }

    /// The disk for which git failed to make a worktree and said `why`. A checkout that does not fit is removed by git itself when it
    /// fails, so it is compared with the space that there is now.
    pub(super) fn full_for(&self, plan: &WorktreePlan, why: &str) -> Option<NoRoom> {
        self.full(why, checkout_bytes(plan))
    }

    /// The disk for which git failed to save work and said `why`.
    pub(super) fn full_after(&self, why: &str) -> Option<NoRoom> {
        self.full(why, 0)
    }

    fn full(&self, why: &str, bytes: u64) -> Option<NoRoom> {
        let reserve = self.reserve_bytes.max(FULL_BYTES);
        let said = || SIGNS.iter().any(|sign| why.contains(sign)).then(|| self.below(u64::MAX));
        self.below(reserve.saturating_add(bytes)).or_else(|| said().flatten())
    }

    fn below(&self, limit: u64) -> Option<NoRoom> {
        self.places.iter().find_map(|place| {
            let disk = place.ancestors().find(|folder| folder.exists())?;
            let free_bytes = sys::free_bytes(disk).ok()?;
            (free_bytes < limit).then(|| NoRoom { disk: disk.to_owned(), free_bytes })
        })
    }
}

/// Whether git failed at `place` and said `why` because its disk is full.
pub fn is_disk_full(place: &Path, why: &str) -> bool {
    Disks { places: [place, place], reserve_bytes: 0 }.full_after(why).is_some()
}

/// How much space the files of a checkout need, as far as git lists them.
fn checkout_bytes(plan: &WorktreePlan) -> u64 {
    let git = Git::at(Path::new(&plan.repository));
    let list = git.bytes(&["ls-tree", "-r", "-l", "--full-tree", &plan.commit]).unwrap_or_default();
    let sizes = list.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        std::str::from_utf8(words.nth(3)?).ok()?.parse::<u64>().ok()
    });
    sizes.fold(0, |sum, size| sum.saturating_add(size.next_multiple_of(BLOCK_BYTES)))
}

/// The disks of a worktree that was made.
pub(super) fn disks_of(worktree: &Worktree, reserve_bytes: u64) -> Disks<'_> {
    Disks::new(Path::new(&worktree.path), &worktree.repository, reserve_bytes)
}
