//! Makes the worktree of a worker, once.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::AtomicBool,
};

use raymond_flow::{
    id::{AgentId, RunId},
    machine::Worktree,
    policy::WorktreePlan,
};

use super::{
    claim::{Claim, Claimed},
    git::{Git, GitError, NO_OPTION},
    remove::forget,
    save::unlock_branch,
};
use crate::{store::layout::RunFiles, sys, trust::private};

/// Where the worktrees of one run are.
#[derive(Clone, Debug)]
pub(crate) struct RunWorktrees {
    folder: PathBuf,
    run: RunId,
    /// Tells the run from any other with the same id.
    identity: String,
}

/// One worktree of the run.
struct NewWorktree<'a> {
    path: &'a Path,
    branch: &'a str,
    plan: &'a WorktreePlan,
    repository: Git<'a>,
}

impl RunWorktrees {
    pub(crate) fn new(files: &RunFiles, run: &RunId, identity: &str) -> Self {
        let (folder, identity) = (files.worktrees.clone(), identity.to_owned());
        Self { folder, run: run.clone(), identity }
    }

    /// Makes the worktree of `agent`, or finds the one that was made before. Returns it with the directory in which the
    /// worker starts.
    pub(crate) fn make(
        &self,
        agent: &AgentId,
        plan: &WorktreePlan,
        stop: &AtomicBool,
    ) -> Result<(Worktree, String), String> {
        let name = plan.name_for(agent.as_str());
        let branch = format!("raymond/{}/{name}", self.run);
        let path = self.folder.join(&name);
        let failed = |what: &str, error: io::Error| format!("{what} {}: {error}", path.display());
        self.create_folder().map_err(|error| failed("cannot make the directory of", error))?;
        let claim_path = self.claim_path(&name);
        let claim = Claim::open(&claim_path, &self.identity);
        let mut claim = claim.map_err(|error| failed("cannot claim the worktree", error))?;
        let repository = Git::at(Path::new(&plan.repository));
        let new = NewWorktree { path: &path, branch: &branch, plan, repository };
        let is_there = path.join(".git").exists();
        match claim.state {
            Claimed::Made if is_there => {}
            Claimed::Foreign => return Err(new.foreign()),
            state => {
                let file = claim.file.try_clone().map_err(|error| failed("cannot claim", error))?;
                let git = repository.patient().holding(&file).until(stop);
                if state == Claimed::New {
                    new.check_free()?;
                    let taken = claim.take(&claim_path);
                    taken.map_err(|error| failed("cannot claim the worktree", error))?;
                } else {
                    new.discard(git)?;
                }
                new.add(git)?;
                let made = sys::sync_disk(&path).and_then(|()| claim.made());
                made.map_err(|error| failed("cannot make durable the worktree", error))?;
            }
        }
        new.found()
    }

    /// The directory of the worktrees.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn claim_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.claim"))
    }

    /// Creates the directory. In a state directory without a `.gitignore`, the checkout around it must not see the worktrees.
    fn create_folder(&self) -> io::Result<()> {
        private::create_dir_all(&self.folder)?;
        let Some(root) = self.folder.parent() else { return Ok(()) };
        let ignore = root.join(".gitignore");
        if ignore.exists() { Ok(()) } else { private::write(&ignore, "*\n") }
    }
}

impl NewWorktree<'_> {
    fn foreign(&self) -> String {
        format!(
            "the worktree {} belongs to an earlier run of the same id: land or remove its branch {}, remove the worktree (git worktree remove) and its .claim file, or start the run under another id",
            self.path.display(),
            self.branch
        )
    }

    fn has_branch(&self, branch: &str) -> Result<bool, String> {
        let reference = format!("refs/heads/{branch}");
        let asked = self.repository.says_yes(&["show-ref", "--verify", "--quiet", &reference]);
        asked.map_err(|error| error.to_string())
    }

    /// Nothing of the same name may be there before: it is not ours.
    fn check_free(&self) -> Result<(), String> {
        if self.path.symlink_metadata().is_ok() {
            let path = self.path.display();
            return Err(format!(
                "{path}, where the worker's worktree belongs, exists already: move it away"
            ));
        }
        let (branch, repository) = (self.branch, &self.plan.repository);
        if self.has_branch(branch)? {
            return Err(format!(
                "the branch {branch}, which the worker should have, exists already in {repository}: rename it (git branch -m), or delete it (git branch -D)"
            ));
        }
        Ok(())
    }

    /// A branch whose name is the beginning of the worker's. Git keeps branches as files, so none can have the name of a directory.
    fn in_the_way(&self) -> Option<&str> {
        let shorter = self.branch.match_indices('/').filter_map(|(at, _)| self.branch.get(..at));
        shorter.into_iter().find(|short| self.has_branch(short) == Ok(true))
    }

    /// Removes what an attempt that was cut off has left. No step has started in it, so no work is lost.
    fn discard(&self, git: Git<'_>) -> Result<(), String> {
        let path = self.path.to_string_lossy();
        match fs::remove_dir_all(self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(format!("cannot remove the half-made worktree {path}: {error}"));
            }
            _ => {}
        }
        forget(git, self.path).map_err(|error| error.to_string())?;
        unlock_branch(git, self.branch).map_err(|error| error.to_string())?;
        if !self.has_branch(self.branch)? {
            return Ok(());
        }
        let tip = self.repository.text(&["rev-parse", &format!("refs/heads/{}", self.branch)]);
        if tip.map_err(|error| error.to_string())? != self.plan.commit {
            let branch = self.branch;
            return Err(format!(
                "the branch {branch} was made for the worker, but has other commits: rename it (git branch -m)"
            ));
        }
        let deleted = git.bytes(&["branch", "-D", NO_OPTION, self.branch]);
        deleted.map(drop).map_err(|error| error.to_string())
    }

    /// Hooks of the user run: `post-checkout` may install what the worker needs.
    fn add(&self, git: Git<'_>) -> Result<(), String> {
        let path = self.path.to_string_lossy();
        let commit = &self.plan.commit;
        // The log of HEAD, which git continues where it is, names what the worker leaves beside its branch.
        let words =
            ["-c", "core.logAllRefUpdates=true", "worktree", "add", "--quiet", "--no-track"];
        let words = [&words[..], &["-b", self.branch, &path, commit]].concat();
        let mut is_first = true;
        let added = git.repeated(|| {
            // The attempt before may have made the branch.
            if !std::mem::take(&mut is_first)
                && let Err(said) = self.discard(git)
            {
                let command = "worktree".to_owned();
                return Err(GitError::Refused { command, code: None, said });
            }
            git.once(&words)
        });
        added.map(drop).map_err(|error| match error {
            // Git removes what it could not complete.
            GitError::Refused { said, code, .. } if self.path.join(".git").exists() => {
                let code = code.map_or_else(|| "a signal".to_owned(), |code| format!("code {code}"));
                format!(
                    "the hook post-checkout of the repository ended with {code} in the worktree {path}: fix it, then resume the run: {said}"
                )
            }
            GitError::Refused { said, .. } => match self.in_the_way() {
                Some(short) => format!(
                    "the branch {short} in {} is in the way of {}, which the worker should have: rename it (git branch -m {short} NAME)",
                    self.plan.repository, self.branch
                ),
                None => format!("git cannot make the worktree {path}: {said}"),
            },
            error => format!("git cannot make the worktree {path}: {error}"),
        })
    }

    fn found(&self) -> Result<(Worktree, String), String> {
        let failed = |error: io::Error| {
            format!("cannot find the worker's directory in {}: {error}", self.path.display())
        };
        let path = fs::canonicalize(self.path).map_err(failed)?;
        let inside = path.join(&self.plan.inside);
        // A directory without tracked files is not part of the commit.
        fs::create_dir_all(&inside).map_err(failed)?;
        let text = |path: PathBuf| path.to_string_lossy().into_owned();
        let cwd = if self.plan.inside.is_empty() { path.clone() } else { inside };
        let worktree = Worktree {
            path: text(path),
            branch: self.branch.to_owned(),
            repository: self.plan.repository.clone(),
            base: self.plan.commit.clone(),
            head: None,
            problem: None,
        };
        Ok((worktree, text(cwd)))
    }
}
