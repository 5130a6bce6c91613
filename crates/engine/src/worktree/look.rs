//! Looks at the worktree and the branch of a worker.

use std::path::Path;

use raymond_flow::machine::Worktree;

use super::{
    checkout::paths,
    git::{Git, GitError, NO_OPTION, common_dir},
    left, nested, record,
};

/// How a worktree and its branch stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorktreeState {
    /// Whether the directory is there.
    pub has_directory: bool,
    /// Whether the branch is there.
    pub has_branch: bool,
    /// Files in it with changes that are not committed, untracked ones included.
    pub uncommitted: Vec<String>,
    /// How many commits of the branch, of HEAD in it and of where HEAD was before no other branch, tag or HEAD contains. Branches of
    /// other workers do not count.
    pub unmerged_commits: u64,
    /// How many of them, but for the branch, neither its branch nor HEAD of the repository contains: the worker has left its branch.
    pub astray_commits: u64,
    /// How many stashes were made on the branch.
    pub stashes: u64,
}

/// Looks at a worktree. Fails if git does, also if the repository is gone.
pub fn state(worktree: &Worktree) -> Result<WorktreeState, GitError> {
    record::check(worktree)?;
    let path = Path::new(&worktree.path);
    let mut state =
        WorktreeState { has_directory: path.join(".git").exists(), ..WorktreeState::default() };
    let place = if state.has_directory { path } else { Path::new(&worktree.repository) };
    let home = common_dir(place)?;
    let git = Git::at(&home);
    let reference = format!("refs/heads/{}", worktree.branch);
    state.has_branch = git.says_yes(&["show-ref", "--verify", "--quiet", &reference])?;
    if state.has_directory {
        let arguments = ["status", "--porcelain=v1", "--untracked-files=all", "--no-renames", "-z"];
        state.uncommitted = paths(&Git::at(path).bytes(&arguments)?);
        state.uncommitted.extend(nested::committed(path)?);
    }
    let count = |tips: &[&str], others: &[&str]| -> Result<u64, GitError> {
        if tips.is_empty() {
            return Ok(0);
        }
        let not = ["--not", &worktree.base, "HEAD"];
        let arguments = [&["rev-list", "--count"], tips, &not, others].concat();
        Ok(git.text(&arguments)?.parse().unwrap_or(u64::MAX))
    };
    state.stashes = left::stashes(git, &worktree.branch)?;
    // A worker may have left its branch; what its HEAD has is its work, too, and what it had.
    let mut heads = Vec::new();
    if state.has_directory {
        heads = left::tips(Git::at(path))?;
        heads.extend(Git::at(path).text(&["rev-parse", "HEAD"]));
    }
    let heads: Vec<_> = heads.iter().map(String::as_str).collect();
    let branch: Vec<_> = state.has_branch.then_some(&*reference).into_iter().collect();
    let elsewhere = ["--exclude=raymond/*", "--branches", "--remotes", "--tags"];
    state.unmerged_commits = count(&[&*heads, &*branch].concat(), &elsewhere)?;
    state.astray_commits = count(&heads, &branch)?;
    Ok(state)
}

/// Files and directories in a worktree that no look at its changes finds: ignored ones, and those that the index says to
/// pass over (`skip-worktree`, `assume-unchanged`).
pub(super) fn hidden(path: &Path) -> Result<Vec<String>, GitError> {
    let git = Git::at(path);
    let ignored = ["ls-files", "--others", "--ignored", "--exclude-standard", "--directory", "-z"];
    let mut hidden: Vec<_> = nested::names(&git.bytes(&ignored)?).collect();
    for entry in nested::names(&git.bytes(&["ls-files", "-v", "-z"])?) {
        let passed_over = entry.split_once(' ').filter(|(tag, _)| *tag != "H");
        // A sparse checkout passes over what is not there.
        hidden.extend(
            passed_over.filter(|(_, name)| path.join(name).exists()).map(|(_, name)| name.into()),
        );
    }
    Ok(hidden)
}

/// What a worker has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diff {
    /// The diff as git prints it, from the commit from which the worktree was made.
    pub text: String,
    /// Whether it is only the beginning.
    pub is_cut: bool,
}

/// What the worker of `worktree` has changed since it was forked: in its directory, with what is not committed, or if that is gone,
/// on its branch. At most `bytes_max` of it.
pub fn diff(worktree: &Worktree, bytes_max: usize) -> Result<Diff, GitError> {
    record::check(worktree)?;
    let path = Path::new(&worktree.path);
    let is_there = path.join(".git").exists();
    let place = if is_there { path } else { Path::new(&worktree.repository) };
    // No program of the user: the output is for any reader.
    let mut arguments = vec!["diff", "--no-color", "--no-ext-diff", "--no-textconv", NO_OPTION];
    arguments.push(&worktree.base);
    let branch = format!("refs/heads/{}", worktree.branch);
    if !is_there {
        arguments.push(&branch);
    }
    arguments.push("--");
    let mut bytes = Git::at(place).bytes(&arguments)?;
    let is_cut = bytes.len() > bytes_max;
    bytes.truncate(bytes_max);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if is_cut {
        // Whole lines only.
        text.truncate(text.rfind('\n').map_or(0, |at| at + 1));
    }
    Ok(Diff { text, is_cut })
}
