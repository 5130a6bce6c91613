//! The bundles that this machine has: archives of workflows by their hash, on disk for hosts and in memory for the
//! workflow, which must not wait.

use std::{
    collections::{BTreeMap, HashMap},
    fs, io,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use raymond_engine::{
    store::scope::{ScopeError, WorkflowFiles},
    trust::private,
};

use crate::store::{Store, StoreError};

/// The names and contents of a workflow's files.
pub(crate) type Files = Arc<BTreeMap<String, Vec<u8>>>;

/// The bundles of this machine.
#[derive(Debug)]
pub(crate) struct Bundles {
    store: Store,
    folder: PathBuf,
    files: Mutex<HashMap<String, Files>>,
}

/// Why a bundle cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleError {
    /// Not from the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It cannot be kept here.
    #[error("cannot keep a bundle in {}: {source}", folder.display())]
    Io {
        /// Where.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is not a workflow.
    #[error(transparent)]
    Scope(#[from] ScopeError),
    /// The thread that fetches it died.
    #[error("the bundle was not fetched")]
    NotFetched,
}

impl Bundles {
    pub(crate) fn new(store: Store, folder: PathBuf) -> Self {
        Self { store, folder, files: Mutex::default() }
    }

    /// The archive with this hash, fetched from the store if it is not here.
    pub(crate) async fn archive(&self, hash: &str) -> Result<PathBuf, BundleError> {
        let path = self.folder.join(format!("{hash}.zip"));
        if path.exists() {
            return Ok(path);
        }
        let bytes = self.store.get(hash).await?;
        let io = |source| BundleError::Io { folder: self.folder.clone(), source };
        private::create_dir_all(&self.folder).map_err(io)?;
        // Another task may fetch the same: each writes a file of its own, and the last name wins.
        let part = self.folder.join(format!("{}.part", uuid::Uuid::new_v4().simple()));
        private::write(&part, bytes).and_then(|()| fs::rename(&part, &path)).map_err(io)?;
        Ok(path)
    }

    /// The files of the bundle with this hash. Blocks while it is fetched, once for each bundle and worker: a workflow
    /// cannot wait for anything that is not in its history, and the hash makes the files the same for every replay.
    pub(crate) fn files(&self, hash: &str) -> Result<Files, BundleError> {
        if let Some(files) = self.known().get(hash) {
            return Ok(Arc::clone(files));
        }
        let path = std::thread::scope(|scope| {
            let fetch = || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let io = |source| BundleError::Io { folder: self.folder.clone(), source };
                runtime.map_err(io)?.block_on(self.archive(hash))
            };
            scope.spawn(fetch).join().unwrap_or(Err(BundleError::NotFetched))
        })?;
        let files = Arc::new(WorkflowFiles::read(&path)?.files);
        self.known().insert(hash.to_owned(), Arc::clone(&files));
        Ok(files)
    }

    fn known(&self) -> std::sync::MutexGuard<'_, HashMap<String, Files>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
