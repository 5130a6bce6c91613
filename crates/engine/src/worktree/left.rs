//! What a worker has left beside its branch: commits that it checked out, continued and left again, and stashes. Where a worktree has
//! been is in the log of its HEAD.

use std::path::Path;

use super::{
    git::{Git, GitError},
    nested, record,
};

/// The commits in which the stays of a worktree's HEAD ended, but for the current one. What a worker only looked at is not among them,
/// nor what it replaced: a stay turns the commit with which it began into the one with which it ended.
pub(super) fn tips(git: Git<'_>) -> Result<Vec<String>, GitError> {
    let log =
        ["log", "--walk-reflogs", "-z", "--no-show-signature", "--format=%H %gs", "HEAD", "--"];
    let log: Vec<_> = nested::names(&git.bytes(&log)?).collect();
    // The newest is the first. More than git may print is cut off in the middle of an entry.
    let entries = log.iter().rev().filter_map(|entry| entry.split_once(' '));
    let mut tips: Vec<&str> = Vec::new();
    let mut stay: Option<(&str, &str)> = None;
    for (commit, what) in entries.filter(|(commit, _)| record::is_hash(commit)) {
        let is_new = what.starts_with("checkout: moving from ");
        if let Some((began, ended)) = stay.filter(|(began, ended)| is_new && began != ended) {
            tips.retain(|tip| *tip != began);
            tips.push(ended);
        }
        let began = stay.map_or(commit, |(began, _)| if is_new { commit } else { began });
        stay = Some((began, commit));
    }
    if let Some((began, _)) = stay.filter(|(began, ended)| began != ended) {
        tips.retain(|tip| *tip != began);
    }
    Ok(tips.into_iter().map(str::to_owned).collect())
}

/// Why `branch`, which began at `base`, does not have all that was left in the worktree at `path`; `untracked` are the repositories in it
/// that git does not know.
pub(super) fn problem(
    git: Git<'_>,
    path: &Path,
    untracked: Vec<String>,
    (branch, base): (&str, &str),
) -> Result<Option<String>, GitError> {
    let nested: Vec<_> = untracked.into_iter().chain(nested::committed(path)?).collect();
    let stash = "it has left a stash (git stash list), which is on no branch";
    let problems = [
        nested::problem(&nested),
        commits(git, branch, base)?,
        (stashes(git, branch)? > 0).then(|| stash.to_owned()),
    ];
    let problems: Vec<_> = problems.into_iter().flatten().collect();
    Ok((!problems.is_empty()).then(|| problems.join("; ")))
}

/// Why not all that a worker has committed is on its branch.
fn commits(git: Git<'_>, branch: &str, base: &str) -> Result<Option<String>, GitError> {
    let tips = tips(git)?;
    if tips.is_empty() {
        return Ok(None);
    }
    let without = ["--not", &format!("refs/heads/{branch}"), base];
    let tips: Vec<_> = tips.iter().map(String::as_str).collect();
    let missing = git.text(&[&["rev-list"], &*tips, &without].concat())?;
    let mut missing = tips.iter().filter(|tip| missing.lines().any(|line| line == **tip));
    let first = missing.next().and_then(|first| first.get(..12));
    let more = match missing.count() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Ok(first
        .map(|first| format!("it has left commit {first}{more}, which {branch} does not contain")))
}

/// How many stashes were made on `branch`. All worktrees of a repository share them.
pub(super) fn stashes(git: Git<'_>, branch: &str) -> Result<u64, GitError> {
    // Not `git stash list`, which works only where a worktree is.
    if !git.says_yes(&["show-ref", "--verify", "--quiet", "refs/stash"])? {
        return Ok(0);
    }
    let log =
        ["log", "--walk-reflogs", "-z", "--no-show-signature", "--format=%s", "refs/stash", "--"];
    let listed = git.bytes(&log)?;
    let begins = [format!("WIP on {branch}: "), format!("On {branch}: ")];
    let is_own = |subject: &String| begins.iter().any(|begin| subject.starts_with(begin));
    Ok(nested::names(&listed).filter(is_own).count() as u64)
}
