//! Commits what a worker leaves in its worktree.

use std::{fs, path::Path, sync::atomic::AtomicBool};

use raymond_flow::{
    id::{AgentId, RunId},
    machine::{SavedWork, Worktree},
};

use super::{
    claim::Claim,
    git::{Git, GitError},
    record,
};

/// Commits everything that is not ignored to the branch of the worktree, if something is left. Says why if that cannot be done;
/// nothing is lost then, because the worktree stays.
pub(super) fn save(
    run: &RunId,
    agent: &AgentId,
    worktree: &Worktree,
    stop: &AtomicBool,
) -> Result<SavedWork, GitError> {
    record::check(worktree)?;
    let path = Path::new(&worktree.path);
    let reference = format!("refs/heads/{}", worktree.branch);
    if !path.join(".git").exists() {
        let head =
            Git::at(Path::new(&worktree.repository)).text(&["rev-parse", "--verify", &reference]);
        let problem = Some(format!("the worktree {} is gone", worktree.path));
        return Ok(SavedWork { head: head.ok(), problem });
    }
    // A git process that a killed orchestrator left behind may still be committing, and holds the claim.
    let claim = path.with_added_extension("claim");
    let claim = claim.exists().then(|| Claim::open(&claim, "")).and_then(Result::ok);
    let git = Git::at(path).until(stop);
    let git = claim.as_ref().map_or(git, |claim| git.holding(&claim.file));
    let problem = match commit(run, agent, worktree, git) {
        Ok(problem) => problem,
        Err(error @ GitError::Interrupted { .. }) => return Err(error),
        Err(error) => Some(error.to_string()),
    };
    let head = git.text(&["rev-parse", "--verify", "--quiet", &reference]).ok();
    Ok(SavedWork { head, problem })
}

/// Returns why nothing was committed although something is left.
fn commit(
    run: &RunId,
    agent: &AgentId,
    worktree: &Worktree,
    git: Git<'_>,
) -> Result<Option<String>, GitError> {
    // All processes of the worker's steps are gone: a lock of the index is what a killed git left.
    let lock = git.text(&["rev-parse", "--path-format=absolute", "--git-path", "index.lock"])?;
    let _ = fs::remove_file(lock);
    let status = git.bytes(&["status", "--porcelain=v1", "--no-renames", "-z"])?;
    if status.is_empty() {
        return Ok(None);
    }
    let is_unmerged = |entry: &[u8]| {
        matches!(entry.get(..2), Some(b"DD" | b"AU" | b"UD" | b"UA" | b"DU" | b"AA" | b"UU"))
    };
    if status.split(|byte| *byte == 0).any(is_unmerged) {
        return Ok(Some("a merge in it has conflicts that are not resolved".to_owned()));
    }
    let branch = git.text(&["symbolic-ref", "--quiet", "--short", "HEAD"]).unwrap_or_default();
    if branch != worktree.branch {
        let on =
            if branch.is_empty() { "no branch".to_owned() } else { format!("branch {branch}") };
        return Ok(Some(format!("it is on {on} instead of {}", worktree.branch)));
    }
    commit_all(git, run, agent).map(|()| None)
}

/// Commits everything that is not ignored.
pub(super) fn commit_all(git: Git<'_>, run: &RunId, agent: &AgentId) -> Result<(), GitError> {
    let git = git.patient();
    git.bytes(&["add", "--all"])?;
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
