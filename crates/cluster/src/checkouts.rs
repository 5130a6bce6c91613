//! The checkouts of agents on their way from worker to worker: before a step the worker fetches the commits that it does not
//! have and checks out the agent's commit, and after it everything is committed and stored as a git bundle.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use raymond_engine::{
    exec::host::Mapping,
    worktree::{
        GitError, is_disk_full,
        moving::{self, Checkouts, Delivered, MovingError},
    },
};
use raymond_flow::{
    id::{AgentId, RunId},
    machine::Run,
};

use crate::{
    messages::{CheckoutOrder, Repository, StoredBundle, StoredCheckout},
    store::{OBJECT_BYTES_MAX, Store, StoreError},
};

/// The most bundles that lead to a commit. The next one has everything since the start of the run, so that neither a worker
/// fetches hundreds of bundles nor every step stores everything.
const BUNDLES_MAX: usize = 16;

/// Why a checkout cannot be brought or kept.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckoutError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Git failed.
    #[error(transparent)]
    Moving(#[from] MovingError),
    /// A file cannot be read or written.
    #[error("cannot handle a bundle in {}: {source}", folder.display())]
    Io {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is new is more than the store takes.
    #[error(
        "the commits since the last step have more than {OBJECT_BYTES_MAX} bytes: keep large files out of the repository (.gitignore)"
    )]
    TooLarge,
    /// The thread that does it died.
    #[error("git was not run")]
    NotRun,
}

impl From<GitError> for CheckoutError {
    fn from(error: GitError) -> Self {
        Self::Moving(error.into())
    }
}

/// The checkouts on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    store: Store,
    folder: PathBuf,
}

impl Places {
    /// Those in this directory, which is absolute.
    pub(crate) fn new(store: Store, folder: PathBuf) -> Self {
        Self { store, folder }
    }

    fn of(&self, run: &Run) -> Checkouts {
        Checkouts::new(self.folder.join(&run.identity), run.id.clone())
    }

    /// What the paths of a run mean for one of its agents on this machine.
    pub(crate) fn mapping(&self, run: &Run, agent: &AgentId, order: &CheckoutOrder) -> Mapping {
        let path = self.of(run).path(agent);
        // Without links, once it is there.
        let path = path.canonicalize().unwrap_or(path);
        let real = path.to_string_lossy().into_owned();
        Mapping { logical: order.repository.root.clone(), real }
    }

    /// Makes the checkout of an agent what it was after its last step, wherever that was.
    pub(crate) async fn bring(
        &self,
        run: &Run,
        agent: &AgentId,
        order: &CheckoutOrder,
    ) -> Result<(), CheckoutError> {
        let (checkouts, path) = (self.of(run), self.of(run).path(agent));
        if !checkouts.has_base() {
            let (own, base) = (checkouts.clone(), self.fetched(&order.repository.bundle).await?);
            blocking(move || own.make_base(base.path())).await??;
        }
        let (own, id) = (checkouts.clone(), agent.clone());
        blocking(move || own.make(&id)).await??;
        self.fetch(&path, &order.own).await?;
        let (at, workers) = (path.clone(), order.workers.clone());
        let here = blocking(move || moving::branches(&at)).await??;
        for worker in workers.into_iter().filter(|own| here.get(&own.branch) != Some(&own.commit)) {
            self.fetch(&path, &worker).await?;
            let at = path.clone();
            blocking(move || moving::set_branch(&at, &worker.branch, &worker.commit)).await??;
        }
        let (id, StoredCheckout { branch, commit, .. }) = (agent.clone(), order.own.clone());
        blocking(move || checkouts.check_out(&id, &branch, &commit)).await??;
        Ok(())
    }

    /// Commits and stores what an agent has done since its last step.
    pub(crate) async fn keep(
        &self,
        run: &Run,
        agent: &AgentId,
        order: &CheckoutOrder,
    ) -> Result<StoredCheckout, CheckoutError> {
        let StoredCheckout { branch, commit: before, mut bundles, problem } = order.own.clone();
        let is_full = bundles.len() >= BUNDLES_MAX;
        let since = if is_full { order.repository.commit.clone() } else { before.clone() };
        let (checkouts, id, own) = (self.of(run), agent.clone(), branch.clone());
        // In the directory of the run, whose time of modification so is that of its last step.
        let file = tempfile::NamedTempFile::new_in(self.folder.join(&run.identity));
        let file = file.map_err(|error| self.io(error))?;
        let bundle = file.path().to_owned();
        let (commit, left, is_new) = blocking(move || {
            let (commit, left) = checkouts.save(&id, &own)?;
            let is_new = commit != before && checkouts.bundle(&id, (&own, &since), &bundle)?;
            Ok::<_, MovingError>((commit, left, is_new))
        })
        .await??;
        if is_new {
            let size = file.path().metadata().map_err(|error| self.io(error))?.len();
            if size > OBJECT_BYTES_MAX {
                return Err(CheckoutError::TooLarge);
            }
            let bytes = fs::read(file.path()).map_err(|error| self.io(error))?;
            let hash = self.store.put(bytes).await?;
            if is_full {
                bundles.clear();
            }
            bundles.push(StoredBundle { hash, commit: commit.clone() });
        }
        Ok(StoredCheckout { branch, commit, bundles, problem: problem.or(left) })
    }

    /// Whether it is only a matter of time until the same succeeds: the store is down, or the disk is full.
    pub(crate) fn may_pass(&self, error: &CheckoutError) -> bool {
        match error {
            CheckoutError::Store(_) => true,
            CheckoutError::TooLarge | CheckoutError::NotRun => false,
            CheckoutError::Moving(_) | CheckoutError::Io { .. } => {
                is_disk_full(&self.folder, &error.to_string())
            }
        }
    }

    /// Removes the checkouts of runs that had no step here for this long, except those with these identities. If such a run goes
    /// on, its checkouts are made again.
    pub(crate) async fn tidy(
        &self,
        age: Duration,
        kept: BTreeSet<String>,
    ) -> Result<(), CheckoutError> {
        let folder = self.folder.clone();
        let tidied = move || {
            let entries = match fs::read_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                let is_kept = entry.file_name().to_str().is_none_or(|name| kept.contains(name));
                let metadata = entry.metadata()?;
                let used = metadata.modified()?.elapsed().unwrap_or_default();
                if !is_kept && metadata.is_dir() && used >= age {
                    fs::remove_dir_all(entry.path())?;
                }
            }
            Ok(())
        };
        blocking(tidied).await?.map_err(|error| self.io(error))
    }

    /// Fetches the commits of a checkout that the repository at `path` does not have.
    async fn fetch(&self, path: &Path, checkout: &StoredCheckout) -> Result<(), CheckoutError> {
        if is_there(path, &checkout.commit).await? {
            return Ok(());
        }
        for bundle in &checkout.bundles {
            if !is_there(path, &bundle.commit).await? {
                let (at, file) = (path.to_owned(), self.fetched(&bundle.hash).await?);
                blocking(move || moving::unbundle(&at, file.path())).await??;
            }
        }
        Ok(())
    }

    /// A file with an object of the store.
    async fn fetched(&self, hash: &str) -> Result<tempfile::NamedTempFile, CheckoutError> {
        let bytes = self.store.get(hash).await?;
        let written = raymond_engine::trust::private::create_dir_all(&self.folder).and_then(|()| {
            let file = tempfile::NamedTempFile::new_in(&self.folder)?;
            fs::write(file.path(), bytes)?;
            Ok(file)
        });
        written.map_err(|error| self.io(error))
    }

    fn io(&self, source: io::Error) -> CheckoutError {
        CheckoutError::Io { folder: self.folder.clone(), source }
    }
}

/// The repository that contains `directory`, and its state in the store. The error says what to do.
pub(crate) async fn pack(store: &Store, directory: &str) -> Result<Repository, String> {
    let text = |error: &dyn std::error::Error| error.to_string();
    let folder = tempfile::tempdir().map_err(|error| text(&error))?;
    let (directory, file) = (directory.to_owned(), folder.path().join("repository"));
    let bundle = file.clone();
    let packed = blocking(move || moving::pack(&directory, &bundle)).await;
    let packed = packed.map_err(|error| text(&error))??;
    let size = file.metadata().map_err(|error| text(&error))?.len();
    if size > OBJECT_BYTES_MAX {
        return Err(format!(
            "the repository {} has {size} bytes, and the store takes {OBJECT_BYTES_MAX}: start the run without --place git",
            packed.repository
        ));
    }
    let bytes = fs::read(file).map_err(|error| text(&error))?;
    let bundle = store.put(bytes).await.map_err(|error| text(&error))?;
    Ok(Repository { root: packed.repository, commit: packed.commit, bundle })
}

/// Brings the branches of a run to the repository of a user at `path`. Nothing of the user is overwritten.
pub(crate) async fn deliver(
    store: &Store,
    checkouts: &[StoredCheckout],
    path: &Path,
) -> Result<Vec<(String, Delivered)>, CheckoutError> {
    let folder = tempfile::tempdir();
    let io = |source| CheckoutError::Io { folder: std::env::temp_dir(), source };
    let folder = folder.map_err(io)?;
    let places = Places::new(store.clone(), folder.path().to_owned());
    let mut delivered = Vec::new();
    for checkout in checkouts {
        places.fetch(path, checkout).await?;
        let StoredCheckout { branch, commit, .. } = checkout;
        let (at, name, commit) = (path.to_owned(), branch.clone(), commit.clone());
        let how = blocking(move || moving::deliver(&at, &name, &commit)).await??;
        delivered.push((branch.clone(), how));
    }
    Ok(delivered)
}

/// The branch of an agent without a name for its worktree.
pub(crate) fn branch(run: &RunId, agent: &AgentId) -> String {
    format!("raymond/{run}/{agent}")
}

async fn is_there(path: &Path, commit: &str) -> Result<bool, CheckoutError> {
    let (path, commit) = (path.to_owned(), commit.to_owned());
    blocking(move || moving::has_commit(&path, &commit)).await
}

/// Runs git beside the tasks of this worker.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, CheckoutError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| CheckoutError::NotRun)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cipher::Cipher;

    #[tokio::test]
    async fn checkouts_of_runs_without_steps_are_removed_after_a_while() {
        let folder = tempfile::tempdir().unwrap();
        let store =
            Store::open(&format!("file://{}/store", folder.path().display()), Cipher::default())
                .unwrap();
        let places = Places::new(store, folder.path().join("checkouts"));
        places.tidy(Duration::ZERO, BTreeSet::new()).await.unwrap();
        for run in ["busy", "idle"] {
            fs::create_dir_all(places.folder.join(run).join("main")).unwrap();
        }
        let kept: BTreeSet<_> = ["busy".to_owned()].into();
        places.tidy(Duration::from_hours(1), kept.clone()).await.unwrap();
        assert!(places.folder.join("idle").exists());
        places.tidy(Duration::ZERO, kept).await.unwrap();
        assert!(!places.folder.join("idle").exists() && places.folder.join("busy").exists());
    }
}
