//! Lands the branches of workers by hand: merges them into the branch that is checked out, one by one.

use std::path::{Path, PathBuf};

use raymond_flow::machine::Worktree;
use thiserror::Error;

use super::{
    checkout::changed_files,
    git::{Git, GitError, NO_OPTION, common_dir},
    record,
};

/// Why nothing can be landed.
#[derive(Debug, Error)]
pub enum LandError {
    /// Not in a checkout.
    #[error("{} is not in a checkout of a git repository", .directory.display())]
    NoCheckout {
        /// The directory.
        directory: PathBuf,
    },
    /// The checkout has changes that a merge would mix up with its own.
    #[error("`{file}` in {} has changes that are not committed", .repository.display())]
    Dirty {
        /// The checkout.
        repository: PathBuf,
        /// The first of them.
        file: String,
    },
    /// A merge is not concluded: it would be aborted together with one that fails.
    #[error("a merge is under way in {}", .repository.display())]
    Merging {
        /// The checkout.
        repository: PathBuf,
    },
    /// No branch is checked out.
    #[error("no branch is checked out in {}", .repository.display())]
    Detached {
        /// The checkout.
        repository: PathBuf,
    },
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// What became of one branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Landed {
    /// It was merged, or with a dry run could be.
    Merged {
        /// How many commits it brought.
        commits: u64,
    },
    /// The branch that is checked out has all its commits.
    Already,
    /// The branch is gone.
    Gone,
    /// It belongs to another repository.
    Elsewhere,
    /// It does not fit, and nothing was changed.
    Conflicts {
        /// The files that both sides have changed.
        files: Vec<String>,
    },
    /// Git refused for another reason: a hook, for example. Nothing was changed.
    Refused {
        /// What git said.
        why: String,
    },
}

/// A clean checkout into which branches can be merged.
#[derive(Debug)]
pub struct Landing {
    repository: PathBuf,
    home: PathBuf,
    branch: String,
}

impl Landing {
    /// The checkout that contains `directory`.
    pub fn at(directory: &Path) -> Result<Self, LandError> {
        let top = Git::at(directory).text(&["rev-parse", "--show-toplevel"]);
        let repository = match top {
            Ok(top) => PathBuf::from(top),
            Err(GitError::Refused { .. }) => {
                return Err(LandError::NoCheckout { directory: directory.to_owned() });
            }
            Err(error) => return Err(error.into()),
        };
        let git = Git::at(&repository);
        if git.says_yes(&["rev-parse", "--verify", "--quiet", "MERGE_HEAD"])? {
            return Err(LandError::Merging { repository });
        }
        if let Some(file) = changed_files(git)?.into_iter().next() {
            return Err(LandError::Dirty { repository, file });
        }
        let branch = git.text(&["symbolic-ref", "--quiet", "--short", "HEAD"]);
        let Ok(branch) = branch else { return Err(LandError::Detached { repository }) };
        let home = common_dir(&repository)?;
        Ok(Self { repository, home, branch })
    }

    /// The branch into which others are merged.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Whether the worktree belongs to this repository, which may have been moved since.
    fn is_home_of(&self, worktree: &Worktree) -> bool {
        let places = [Path::new(&worktree.repository), Path::new(&worktree.path)];
        // Git reads the settings of the place where it starts.
        let places = if record::is_led_home(places[1]) { &places[..] } else { &places[..1] };
        if places.iter().all(|place| !place.exists()) {
            let base = format!("{}^{{commit}}", worktree.base);
            return Git::at(&self.repository).bytes(&["cat-file", "-e", NO_OPTION, &base]).is_ok();
        }
        places.iter().any(|place| common_dir(place).is_ok_and(|home| home == self.home))
    }

    /// Merges the branch of a worker, with `message`. After a conflict, everything is as it was before.
    pub fn land(
        &self,
        worktree: &Worktree,
        message: &str,
        is_dry: bool,
    ) -> Result<Landed, GitError> {
        record::check_sound(worktree)?;
        let git = Git::at(&self.repository);
        let reference = format!("refs/heads/{}", worktree.branch);
        if !self.is_home_of(worktree) {
            return Ok(Landed::Elsewhere);
        }
        if !git.says_yes(&["show-ref", "--verify", "--quiet", &reference])? {
            // Removed by `raymond prune`, for example, when it was landed.
            let head = worktree.head.as_deref().unwrap_or(&worktree.base);
            let is_landed = git.says_yes(&["merge-base", "--is-ancestor", NO_OPTION, head, "HEAD"]);
            return Ok(if is_landed.unwrap_or(false) { Landed::Already } else { Landed::Gone });
        }
        let count = git.text(&["rev-list", "--count", &format!("HEAD..{reference}")])?;
        let commits = count.parse().unwrap_or(u64::MAX);
        if commits == 0 {
            return Ok(Landed::Already);
        }
        if is_dry {
            let merged =
                git.says_yes(&["merge-tree", "--write-tree", "--name-only", "HEAD", &reference])?;
            let files = Vec::new();
            return Ok(if merged {
                Landed::Merged { commits }
            } else {
                Landed::Conflicts { files }
            });
        }
        let patient = git.patient();
        match patient.bytes(&["merge", "--quiet", "--no-ff", "-m", message, &reference]) {
            Ok(_) => Ok(Landed::Merged { commits }),
            Err(GitError::Refused { said, .. }) => {
                let files = git.text(&["diff", "--name-only", "--diff-filter=U"])?;
                let files: Vec<_> = files.lines().map(str::to_owned).collect();
                // Without a merge under way there is nothing to abort.
                let _ = patient.bytes(&["merge", "--abort"]);
                Ok(if files.is_empty() {
                    Landed::Refused { why: said }
                } else {
                    Landed::Conflicts { files }
                })
            }
            Err(error) => {
                let _ = patient.bytes(&["merge", "--abort"]);
                Err(error)
            }
        }
    }
}
