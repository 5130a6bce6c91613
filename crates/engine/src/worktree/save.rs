//! Commits what a worker leaves in its worktree, and names what cannot be committed.

use std::{fs, path::Path, sync::atomic::AtomicBool};

use raymond_flow::{
    id::{AgentId, RunId},
    machine::{SavedWork, Worktree},
};

use super::{
    claim::Claim,
    git::{Git, GitError},
    left, nested, record,
};

/// How often a commit is tried if git is killed.
const TRIES: usize = 3;

/// Commits everything that is not ignored to the branch of the worktree, if something is left. Says why if that cannot be done;
/// nothing is lost then, because the worktree stays.
pub(super) fn save(
    run: &RunId,
    agent: &AgentId,
    worktree: &Worktree,
    stop: &AtomicBool,
) -> Result<SavedWork, GitError> {
    let path = Path::new(&worktree.path);
    let reference = format!("refs/heads/{}", worktree.branch);
    let problem = match record::check(worktree) {
        Err(error @ GitError::NotOurs { .. }) => {
            return Ok(SavedWork { head: None, problem: Some(error.to_string()) });
        }
        Err(error) => Some(error.to_string()),
        Ok(()) if path.join(".git").exists() => None,
        Ok(()) => Some(format!("the worktree {} is gone", worktree.path)),
    };
    if problem.is_some() {
        let repository = Git::at(Path::new(&worktree.repository));
        let head = repository.text(&["rev-parse", "--verify", &reference]);
        return Ok(SavedWork { head: head.ok(), problem });
    }
    // A git process that a killed orchestrator left behind may still be committing, and holds the claim.
    let claim = path.with_added_extension("claim");
    let claim = claim.exists().then(|| Claim::open(&claim, "")).and_then(Result::ok);
    let git = Git::at(path).until(stop);
    let git = claim.as_ref().map_or(git, |claim| git.holding(&claim.file));
    let mut saved = commit_and_look(run, agent, worktree, git);
    // A git that something killed has done a part of it, or nothing; the next one does the rest.
    for _ in 1..TRIES {
        if saved.as_ref().is_err_and(GitError::is_killed) {
            saved = commit_and_look(run, agent, worktree, git);
        }
    }
    saved.or_else(|error| match error {
        GitError::Interrupted { .. } => Err(error),
        error => {
            let head = git.text(&["rev-parse", "--verify", "--quiet", &reference]).ok();
            Ok(SavedWork { head, problem: Some(error.to_string()) })
        }
    })
}

fn commit_and_look(
    run: &RunId,
    agent: &AgentId,
    worktree: &Worktree,
    git: Git<'_>,
) -> Result<SavedWork, GitError> {
    let problem = commit(run, agent, worktree, git)?;
    let reference = format!("refs/heads/{}", worktree.branch);
    let head = git.text(&["rev-parse", "--verify", &reference])?;
    Ok(SavedWork { head: Some(head), problem })
}

/// Returns why nothing was committed although something is left.
fn commit(
    run: &RunId,
    agent: &AgentId,
    worktree: &Worktree,
    git: Git<'_>,
) -> Result<Option<String>, GitError> {
    // All processes of the worker's steps are gone: what is locked, a killed git has left so.
    unlock(git, &worktree.branch)?;
    // Whatever the user's settings say about untracked files.
    let status =
        git.bytes(&["status", "--porcelain=v1", "--untracked-files=normal", "--no-renames", "-z"])?;
    let is_unmerged = |entry: &[u8]| {
        matches!(entry.get(..2), Some(b"DD" | b"AU" | b"UD" | b"UA" | b"DU" | b"AA" | b"UU"))
    };
    if status.split(|byte| *byte == 0).any(is_unmerged) {
        return Ok(Some("a merge in it has conflicts that are not resolved".to_owned()));
    }
    if let Some(problem) = return_to_branch(git, &worktree.branch)? {
        return Ok(Some(problem));
    }
    let path = Path::new(&worktree.path);
    let untracked = nested::untracked(git)?;
    if !status.is_empty() {
        commit_but(git, run, agent, &untracked)?;
    }
    left::problem(git, path, untracked, (&worktree.branch, &worktree.base))
}

/// Brings the branch of the worktree to where the worker is, if it went on from there on another branch or on none. Returns why
/// that cannot be done.
fn return_to_branch(git: Git<'_>, own: &str) -> Result<Option<String>, GitError> {
    let branch = git.text(&["symbolic-ref", "--quiet", "--short", "HEAD"]).unwrap_or_default();
    if branch == own {
        return Ok(None);
    }
    if !git.says_yes(&["merge-base", "--is-ancestor", &format!("refs/heads/{own}"), "HEAD"])? {
        let on =
            if branch.is_empty() { "no branch".to_owned() } else { format!("branch {branch}") };
        return Ok(Some(format!("it is on {on}, which does not contain {own}")));
    }
    // Files and index stay as they are. No hook may keep work from being saved.
    git.bytes(&["-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "-B", own])?;
    Ok(None)
}

/// Removes the locks that a killed git has left on the index, HEAD and branch of a worktree.
fn unlock(git: Git<'_>, branch: &str) -> Result<(), GitError> {
    unlock_branch(git, branch)?;
    ["index", "HEAD"].into_iter().try_for_each(|name| remove_lock(git, name))
}

/// The same of a branch only. The claim on its worktree must be held: then no git of ours is at work on it.
pub(super) fn unlock_branch(git: Git<'_>, branch: &str) -> Result<(), GitError> {
    remove_lock(git, &format!("refs/heads/{branch}"))
}

fn remove_lock(git: Git<'_>, name: &str) -> Result<(), GitError> {
    let name = format!("{name}.lock");
    let path = git.text(&["rev-parse", "--path-format=absolute", "--git-path", &name])?;
    let _ = fs::remove_file(path);
    Ok(())
}

/// Whether a merge is not concluded, which a commit does even if no file differs.
fn has_merge(git: Git<'_>) -> Result<bool, GitError> {
    git.says_yes(&["rev-parse", "--verify", "--quiet", "MERGE_HEAD"])
}

/// Commits everything that is not ignored, without some files and directories.
pub(super) fn commit_but(
    git: Git<'_>,
    run: &RunId,
    agent: &AgentId,
    but: &[String],
) -> Result<(), GitError> {
    let git = git.patient();
    let but: Vec<_> = but.iter().map(|path| format!(":(top,exclude,literal){path}")).collect();
    let all = ["add", "--all", "--", ":(top)"];
    git.bytes(&all.into_iter().chain(but.iter().map(String::as_str)).collect::<Vec<_>>())?;
    if git.says_yes(&["diff", "--cached", "--quiet"])? && !has_merge(git)? {
        return Ok(());
    }
    let message = format!("{agent}: what it left uncommitted\n\nRun: {run}");
    let mut arguments = Vec::new();
    if git.text(&["var", "GIT_COMMITTER_IDENT"]).is_err() {
        arguments.extend(["-c", "user.name=raymond", "-c", "user.email=raymond@localhost"]);
    }
    // No hook and no passphrase may keep work from being saved.
    let rest = [
        "-c",
        "core.fsync=committed,reference",
        // `--no-verify` leaves `prepare-commit-msg`.
        "-c",
        "core.hooksPath=/dev/null",
        "commit",
        "--quiet",
        "--no-verify",
        "--no-gpg-sign",
        "-m",
    ];
    arguments.extend(rest);
    arguments.push(&message);
    git.bytes(&arguments).map(drop)
}
