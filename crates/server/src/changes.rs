//! Says when files change: by the operating system where it can, else by looking again and again.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use notify::{Config, Event, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;

use crate::shelf::lock;

/// How often files are looked at where the operating system does not tell of changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Watches directories for those who wait.
pub(crate) struct Changes {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    watcher: Option<Box<dyn Watcher + Send>>,
    /// For those directories for which the first one failed: too many are watched, or the file system cannot.
    poller: Option<Box<dyn Watcher + Send>>,
    folders: HashMap<PathBuf, Folder>,
}

struct Folder {
    sender: watch::Sender<u64>,
    waiting: usize,
    is_polled: bool,
}

/// Wakes whoever waits for changes in one directory.
pub(crate) struct Changed {
    changes: Arc<Mutex<Inner>>,
    folder: PathBuf,
    receiver: watch::Receiver<u64>,
}

impl Changes {
    pub(crate) fn new() -> Self {
        Self { inner: Arc::new(Mutex::new(Inner::default())) }
    }

    /// Watches the files directly in `folder`.
    pub(crate) fn of(&self, folder: &Path) -> Changed {
        let mut inner = lock(&self.inner);
        if !inner.folders.contains_key(folder) {
            let is_polled = !inner.watch(folder, &self.inner);
            let (sender, _) = watch::channel(0);
            inner.folders.insert(folder.to_owned(), Folder { sender, waiting: 0, is_polled });
        }
        let receiver = match inner.folders.get_mut(folder) {
            Some(known) => {
                known.waiting += 1;
                known.sender.subscribe()
            }
            None => watch::channel(0).1,
        };
        Changed { changes: Arc::clone(&self.inner), folder: folder.to_owned(), receiver }
    }
}

impl Inner {
    /// Watches a directory; whether the operating system does.
    fn watch(&mut self, folder: &Path, inner: &Arc<Mutex<Self>>) -> bool {
        if self.watcher.is_none() {
            let watcher = RecommendedWatcher::new(teller(inner), Config::default());
            self.watcher = watcher.ok().map(|watcher| Box::new(watcher) as Box<dyn Watcher + Send>);
        }
        let mode = RecursiveMode::NonRecursive;
        let watched = self.watcher.as_mut().map(|watcher| watcher.watch(folder, mode));
        if matches!(watched, Some(Ok(()))) {
            return true;
        }
        if self.poller.is_none() {
            let config = Config::default().with_poll_interval(POLL_INTERVAL);
            let poller = PollWatcher::new(teller(inner), config);
            self.poller = poller.ok().map(|watcher| Box::new(watcher) as Box<dyn Watcher + Send>);
        }
        if let Some(poller) = &mut self.poller {
            // A directory that is not there cannot be watched; whoever waits looks from time to time anyway.
            let _ = poller.watch(folder, mode);
        }
        false
    }
}

/// Tells those who wait. Looking at a file is no change: our own reading would wake us.
fn teller(inner: &Arc<Mutex<Inner>>) -> impl Fn(notify::Result<Event>) + Send + 'static {
    let inner = Arc::downgrade(inner);
    move |event: notify::Result<Event>| {
        let Some(inner) = inner.upgrade() else { return };
        let Ok(event) = event else { return };
        if event.kind.is_access() || !event.paths.iter().any(|path| is_telling(path)) {
            return;
        }
        let inner = lock(&inner);
        for path in &event.paths {
            let folder = path.parent().and_then(|folder| inner.folders.get(folder));
            if let Some(folder) = folder.or_else(|| inner.folders.get(path)) {
                folder.sender.send_modify(|count| *count += 1);
            }
        }
    }
}

/// State files are written after the journal, again and again, and say nothing new.
fn is_telling(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    !name.starts_with(".state-") && path.extension().is_none_or(|kind| kind != "json")
}

impl Changed {
    /// Wakes with the next change after this one was made or was last waited for.
    pub(crate) fn receiver(&self) -> watch::Receiver<u64> {
        self.receiver.clone()
    }

    /// Waits until something has changed since the last time, at most for `patience`.
    pub(crate) async fn wait(&mut self, patience: Duration) {
        let _ = tokio::time::timeout(patience, self.receiver.changed()).await;
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        let mut inner = lock(&self.changes);
        let Some(folder) = inner.folders.get_mut(&self.folder) else { return };
        folder.waiting -= 1;
        if folder.waiting > 0 {
            return;
        }
        let is_polled = folder.is_polled;
        inner.folders.remove(&self.folder);
        let watcher = if is_polled { &mut inner.poller } else { &mut inner.watcher };
        if let Some(watcher) = watcher {
            let _ = watcher.unwatch(&self.folder);
        }
    }
}
