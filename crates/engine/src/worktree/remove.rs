//! Removes the worktree and the branch of a worker, unless work would be lost.

use std::{fs, path::Path};

use raymond_flow::machine::Worktree;

use super::{
    claim::Claim,
    git::{Git, GitError, NO_OPTION, common_dir},
    look::{WorktreeState, hidden, state},
    nested, record,
    save::unlock_branch,
};

/// What became of a worktree that should be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    /// It is gone, and so is its branch.
    Removed {
        /// Files and directories that were in it and that git was told not to look at.
        hidden: Vec<String>,
    },
    /// There was nothing left of it.
    WasGone,
    /// It stays, because something would be lost.
    Kept {
        /// Files in it with changes that are not committed.
        uncommitted: Vec<String>,
        /// Commits that are on no other branch.
        unmerged_commits: u64,
        /// Stashes that were made in it.
        stashes: u64,
    },
}

/// Removes a worktree in `folder`, its branch and what git remembers of it. If it has work that is nowhere else, it stays,
/// unless `with_work` says that the work may be lost. With `is_dry`, only tells what would happen.
pub fn remove(
    worktree: &Worktree,
    folder: &Path,
    with_work: bool,
    is_dry: bool,
) -> Result<Removal, GitError> {
    record::check(worktree)?;
    let path = Path::new(&worktree.path);
    if path.exists() && !record::is_in(worktree, folder) {
        return Err(GitError::NotOurs { path: path.to_owned() });
    }
    let claim = path.with_added_extension("claim");
    if !path.exists() && !Path::new(&worktree.repository).exists() {
        let _ = fs::remove_file(claim);
        return Ok(Removal::WasGone);
    }
    let mut state = state(worktree)?;
    let hidden = if state.has_directory { hidden(path)? } else { Vec::new() };
    state.uncommitted.extend(nested::inside(path, &hidden));
    let WorktreeState { uncommitted, unmerged_commits, stashes, .. } = &state;
    if !with_work && (!uncommitted.is_empty() || unmerged_commits + stashes > 0) {
        let (unmerged_commits, stashes) = (*unmerged_commits, *stashes);
        return Ok(Removal::Kept { uncommitted: state.uncommitted, unmerged_commits, stashes });
    }
    let removal = if state.has_directory || state.has_branch {
        Removal::Removed { hidden }
    } else {
        Removal::WasGone
    };
    if is_dry {
        return Ok(removal);
    }
    let place = if state.has_directory { path } else { Path::new(&worktree.repository) };
    let home = common_dir(place)?;
    let git = Git::at(&home).patient();
    // No git process of an earlier orchestrator is at work on it once the claim is held.
    let held = claim.exists().then(|| Claim::open(&claim, "")).and_then(Result::ok);
    if held.is_some() {
        unlock_branch(git, &worktree.branch)?;
    }
    if state.has_directory {
        // Twice: also one that is locked, or that ignored files are in.
        git.bytes(&["worktree", "remove", "--force", "--force", NO_OPTION, &worktree.path])?;
    }
    forget(git, path)?;
    if state.has_branch {
        git.bytes(&["branch", "-D", "--quiet", NO_OPTION, &worktree.branch])?;
    }
    drop(held);
    let _ = fs::remove_file(claim);
    Ok(removal)
}

/// Removes what git remembers of a worktree whose directory is gone. Not by `git worktree prune`, which also removes what another git
/// process is adding at that moment. Nor can git do it by itself: a `git worktree add` that was killed may leave an entry that git cannot
/// read, and then no command works that looks at all worktrees.
pub(super) fn forget(git: Git<'_>, path: &Path) -> Result<(), GitError> {
    let home = git.text(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?;
    // The directory is gone, so only the one around it can be looked at.
    let real = |path: &Path| {
        let around = path.parent().and_then(|around| fs::canonicalize(around).ok());
        around.zip(path.file_name()).map_or(path.to_owned(), |(around, name)| around.join(name))
    };
    let path = real(path);
    for entry in fs::read_dir(Path::new(&home).join("worktrees")).into_iter().flatten().flatten() {
        let link = fs::read_to_string(entry.path().join("gitdir")).unwrap_or_default();
        // Relative if git is configured so.
        let link = entry.path().join(link.trim_end());
        if link.parent().is_some_and(|known| real(known) == path) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    Ok(())
}
