//! Checkouts that move from machine to machine: each agent of a run has a repository of its own on the machine of its step,
//! and its commits travel as git bundles.
//!
//! | in the directory of the run | what it is |
//! |---|---|
//! | `base.git` | the repository as it was when the run started; it never changes |
//! | `AGENT` | the checkout of an agent, a repository that has the objects of `base.git`, too |
//! | `AGENT.kept` | the git repositories that its last step has left in its checkout, which no commit contains |
//! | `NAME.claim` | locked while git works on NAME; git inherits the lock, so a killed worker's git is waited for |
//!
//! A checkout is a function of its commit: before a step everything else in it is removed, except ignored files and what no commit
//! can contain, and after a step everything is committed. So it does not matter which machine has it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    id::{AgentId, RunId},
    world::Checkout,
};
use thiserror::Error;

use super::{
    checkout::checkout_or,
    claim::Claim,
    git::{Git, GitError},
    left, nested,
    save::commit_but,
};
use crate::trust::{private, regular};

/// More than the names of all repositories in a checkout.
const KEPT_BYTES_MAX: u64 = 1024 * 1024;
/// The name of the repository at the start of the run. No agent has a dot in its name.
const BASE: &str = "base.git";
/// What git is in the middle of, and what a killed git leaves. A commit has nothing of it.
const UNFINISHED: [&str; 8] = [
    "index.lock",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "BISECT_LOG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// Why a checkout cannot be made or saved.
#[derive(Debug, Error)]
pub enum MovingError {
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// A file or directory cannot be made or removed.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Writes everything that the commit of the checkout at `directory` needs to the file `bundle`. The checkout must be one from
/// which a worktree could be made; the error says what to do.
pub fn pack(directory: &str, bundle: &Path) -> Result<Checkout, String> {
    let checkout = checkout_or(directory, "start the run without --place git")?;
    let git = Git::at(Path::new(&checkout.repository));
    let text = |error: GitError| error.to_string();
    if git.text(&["rev-parse", "--is-shallow-repository"]).map_err(text)? == "true" {
        let repository = &checkout.repository;
        return Err(format!(
            "the repository {repository} has only a part of its history, which cannot travel: fetch the rest (git fetch --unshallow)"
        ));
    }
    let file = bundle.to_string_lossy();
    git.patient().bytes(&["bundle", "create", "--quiet", &file, "HEAD"]).map_err(text)?;
    Ok(checkout)
}

/// The checkouts of one run on this machine.
#[derive(Clone, Debug)]
pub struct Checkouts {
    folder: PathBuf,
    run: RunId,
}

impl Checkouts {
    /// Those in this directory.
    pub fn new(folder: PathBuf, run: RunId) -> Self {
        Self { folder, run }
    }

    /// Whether [`make_base`](Self::make_base) was called before.
    pub fn has_base(&self) -> bool {
        self.folder.join(BASE).exists()
    }

    /// Makes the repository as it was when the run started, if there is none.
    pub fn make_base(&self, bundle: &Path) -> Result<(), MovingError> {
        make_folder(&self.folder)?;
        let claim = self.claim(BASE)?;
        if self.has_base() {
            return Ok(());
        }
        let part = self.folder.join(format!("{BASE}.part"));
        remove(&part)?;
        let git = Git::at(&self.folder).patient().holding(&claim.file);
        git.bytes(&["init", "--quiet", "--bare", &part.to_string_lossy()])?;
        unbundle(&part, bundle)?;
        rename(&part, &self.folder.join(BASE))
    }

    fn claim(&self, name: &str) -> Result<Claim, MovingError> {
        let path = self.folder.join(format!("{name}.claim"));
        Claim::open(&path, "").map_err(|source| MovingError::Io { path, source })
    }

    /// The checkout of an agent.
    pub fn path(&self, agent: &AgentId) -> PathBuf {
        self.folder.join(agent.as_str())
    }

    /// Makes the repository of an agent, without files, if there is none.
    pub fn make(&self, agent: &AgentId) -> Result<(), MovingError> {
        let path = self.path(agent);
        let claim = self.claim(agent.as_str())?;
        if path.join(".git").exists() {
            return Ok(());
        }
        let part = self.folder.join(format!("{agent}.part"));
        remove(&part)?;
        remove(&path)?;
        let git = Git::at(&self.folder).patient().holding(&claim.file);
        git.bytes(&["init", "--quiet", &part.to_string_lossy()])?;
        let objects = self.folder.join(BASE).join("objects");
        let alternates = part.join(".git/objects/info/alternates");
        let written = fs::write(&alternates, format!("{}\n", objects.display()));
        written.map_err(|source| MovingError::Io { path: alternates, source })?;
        if Git::at(&part).text(&["var", "GIT_COMMITTER_IDENT"]).is_err() {
            let own = [("user.name", "raymond"), ("user.email", "raymond@localhost")];
            for (key, value) in own {
                Git::at(&part).bytes(&["config", key, value])?;
            }
        }
        rename(&part, &path)
    }

    /// Checks out `commit` as `branch`. Whatever else was there is gone, except ignored files and what [`save`](Self::save) has named:
    /// no step may be running in it.
    pub fn check_out(
        &self,
        agent: &AgentId,
        branch: &str,
        commit: &str,
    ) -> Result<(), MovingError> {
        let path = self.path(agent);
        let claim = self.claim(agent.as_str())?;
        finish(&path)?;
        let git = Git::at(&path).patient().holding(&claim.file);
        git.bytes(&["checkout", "--quiet", "--force", "-B", branch, commit, "--"])?;
        let kept = regular::read_text(&self.kept(agent), KEPT_BYTES_MAX).unwrap_or_default();
        let kept =
            nested::names(kept.as_bytes()).map(|name| format!("--exclude={}", pattern(&name)));
        let kept: Vec<_> = kept.collect();
        // Twice `--force`: also repositories that a step made which was lost.
        let clean = ["clean", "--quiet", "--force", "--force", "-d"];
        git.bytes(&clean.into_iter().chain(kept.iter().map(String::as_str)).collect::<Vec<_>>())?;
        Ok(())
    }

    /// Where the repositories in the checkout of an agent are listed that stay.
    fn kept(&self, agent: &AgentId) -> PathBuf {
        self.folder.join(format!("{agent}.kept"))
    }

    /// Commits everything in the checkout of an agent, whichever branch is checked out, and sets `branch` to that. Returns the
    /// commit, and why it does not have all that was left. A merge with conflicts is committed as it is, with its marks: no step
    /// may be running in it.
    pub fn save(
        &self,
        agent: &AgentId,
        branch: &str,
    ) -> Result<(String, Option<String>), MovingError> {
        let path = self.path(agent);
        let claim = self.claim(agent.as_str())?;
        let git = Git::at(&path).holding(&claim.file);
        let lock = path.join(".git/index.lock");
        remove(&lock)?;
        let untracked = nested::untracked(git)?;
        let kept = self.kept(agent);
        let written = private::write(&kept, untracked.join("\0"));
        written.map_err(|source| MovingError::Io { path: kept, source })?;
        // Whatever the settings of the user say about untracked files.
        let status = ["status", "--porcelain=v1", "--untracked-files=normal", "--no-renames", "-z"];
        if !git.bytes(&status)?.is_empty() || path.join(".git/MERGE_HEAD").exists() {
            commit_but(git, &self.run, agent, &untracked)?;
        }
        let head = git.text(&["rev-parse", "--verify", "HEAD^{commit}"])?;
        set_branch(&path, branch, &head)?;
        let problem = left::problem(git, &path, untracked, (branch, &head))?;
        Ok((head, problem))
    }

    /// Writes what `branch` has and the commit `since` has not to `bundle`. Returns whether there is anything.
    pub fn bundle(
        &self,
        agent: &AgentId,
        (branch, since): (&str, &str),
        bundle: &Path,
    ) -> Result<bool, MovingError> {
        let path = self.path(agent);
        let git = Git::at(&path).patient();
        let (branch, without) = (format!("refs/heads/{branch}"), format!("^{since}"));
        if git.text(&["rev-list", "--count", &branch, &without])? == "0" {
            return Ok(false);
        }
        let file = bundle.to_string_lossy();
        git.bytes(&["bundle", "create", "--quiet", &file, &branch, &without])?;
        Ok(true)
    }
}

/// Whether the repository at `path` has a commit.
pub fn has_commit(path: &Path, commit: &str) -> bool {
    Git::at(path).bytes(&["cat-file", "-e", &format!("{commit}^{{commit}}")]).is_ok()
}

/// Adds the commits of a bundle to the repository at `path`. No branch changes.
pub fn unbundle(path: &Path, bundle: &Path) -> Result<(), GitError> {
    Git::at(path).patient().bytes(&["bundle", "unbundle", &bundle.to_string_lossy()]).map(drop)
}

/// The branches of the repository at `path`, and their commits.
pub fn branches(path: &Path) -> Result<BTreeMap<String, String>, GitError> {
    let format = "--format=%(refname:lstrip=2) %(objectname)";
    let listed = Git::at(path).text(&["for-each-ref", format, "refs/heads"])?;
    let pair = |line: &str| line.split_once(' ').map(|(name, commit)| (name.into(), commit.into()));
    Ok(listed.lines().filter_map(pair).collect())
}

/// Sets a branch, which must not be checked out in another place.
pub fn set_branch(path: &Path, branch: &str, commit: &str) -> Result<(), GitError> {
    Git::at(path).bytes(&["update-ref", &format!("refs/heads/{branch}"), commit]).map(drop)
}

/// What became of a branch that was brought to a repository of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// It is new, or has new commits.
    New,
    /// It was there.
    Same,
    /// A branch of this name with other commits is there, and stays as it is.
    Different,
}

/// Sets the branch of an agent in a repository of the user, which has its commit by now. Nothing of the user is
/// overwritten.
pub fn deliver(path: &Path, branch: &str, commit: &str) -> Result<Delivered, GitError> {
    let git = Git::at(path);
    let reference = format!("refs/heads/{branch}");
    let Ok(before) = git.text(&["rev-parse", "--verify", "--quiet", &reference]) else {
        git.bytes(&["update-ref", &reference, commit, ""])?;
        return Ok(Delivered::New);
    };
    if before == commit {
        return Ok(Delivered::Same);
    }
    let is_checked_out =
        git.text(&["symbolic-ref", "--quiet", "HEAD"]).is_ok_and(|own| own == reference);
    if is_checked_out || !git.says_yes(&["merge-base", "--is-ancestor", &before, commit])? {
        return Ok(Delivered::Different);
    }
    git.bytes(&["update-ref", &reference, commit, &before])?;
    Ok(Delivered::New)
}

/// A pattern of git for the file or directory `name` alone.
fn pattern(name: &str) -> String {
    let escaped = name.chars().map(|it| {
        if it.is_ascii_punctuation() && it != '/' { format!("\\{it}") } else { it.to_string() }
    });
    format!("/{}", escaped.collect::<String>())
}

/// Forgets what git was in the middle of.
fn finish(path: &Path) -> Result<(), MovingError> {
    let git = path.join(".git");
    UNFINISHED.iter().try_for_each(|name| remove(&git.join(name)))
}

/// Removes a file or a directory, if it is there.
fn remove(path: &Path) -> Result<(), MovingError> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(MovingError::Io { path: path.to_owned(), source: error })
        }
        _ => Ok(()),
    }
}

fn make_folder(path: &Path) -> Result<(), MovingError> {
    let made = private::create_dir_all(path);
    made.map_err(|source| MovingError::Io { path: path.to_owned(), source })
}

fn rename(from: &Path, to: &Path) -> Result<(), MovingError> {
    fs::rename(from, to).map_err(|source| MovingError::Io { path: to.to_owned(), source })
}

#[cfg(test)]
mod tests;
