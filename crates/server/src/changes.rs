//! Waiting for changes of files: through the operating system where possible, otherwise by polling.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use notify::{Config, Event, PollWatcher, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::watch;

use crate::shelf::lock;

/// How often files are polled where the operating system does not report changes.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Watches directories for tasks that wait for changes.
pub(crate) struct Changes {
    inner: Arc<Inner>,
}

/// `watchers` is locked before `folders`. The thread that reports changes takes only `folders`, and no watcher is
/// called while that is locked: a watcher waits for that thread.
#[derive(Default)]
struct Inner {
    watchers: Mutex<Watchers>,
    folders: Mutex<HashMap<PathBuf, Folder>>,
}

#[derive(Default)]
struct Watchers {
    watcher: Option<Box<dyn Watcher + Send>>,
    /// For directories on which the first one failed: too many are watched, or the file system does not support it.
    poller: Option<Box<dyn Watcher + Send>>,
}

struct Folder {
    sender: watch::Sender<u64>,
    waiting: usize,
    is_polled: bool,
}

/// Wakes the tasks that wait for changes in one directory.
pub(crate) struct Changed {
    changes: Arc<Inner>,
    folder: PathBuf,
    receiver: watch::Receiver<u64>,
}

impl Changes {
    pub(crate) fn new() -> Self {
        Self { inner: Arc::new(Inner::default()) }
    }

    /// Watches the files directly in `folder`.
    pub(crate) fn of(&self, folder: &Path) -> Changed {
        let mut watchers = lock(&self.inner.watchers);
        let is_known = lock(&self.inner.folders).contains_key(folder);
        let is_polled = !is_known && !watchers.watch(folder, &self.inner);
        let mut folders = lock(&self.inner.folders);
        let known = folders.entry(folder.to_owned()).or_insert_with(|| Folder {
            sender: watch::channel(0).0,
            waiting: 0,
            is_polled,
        });
        known.waiting += 1;
        let receiver = known.sender.subscribe();
        Changed { changes: Arc::clone(&self.inner), folder: folder.to_owned(), receiver }
    }
}

impl Watchers {
    /// Watches a directory. Returns whether the operating system reports its changes.
    fn watch(&mut self, folder: &Path, inner: &Arc<Inner>) -> bool {
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
            // A directory that does not exist cannot be watched; the waiting tasks have a timeout anyway.
            let _ = poller.watch(folder, mode);
        }
        false
    }
}

/// Wakes the waiting tasks. Reading a file is not a change: the server would wake itself.
fn teller(inner: &Arc<Inner>) -> impl Fn(notify::Result<Event>) + Send + 'static {
    let inner = Arc::downgrade(inner);
    move |event: notify::Result<Event>| {
        let Some(inner) = inner.upgrade() else { return };
        let Ok(event) = event else { return };
        if event.kind.is_access() || !event.paths.iter().any(|path| is_telling(path)) {
            return;
        }
        let folders = lock(&inner.folders);
        for path in &event.paths {
            let folder = path.parent().and_then(|folder| folders.get(folder));
            if let Some(folder) = folder.or_else(|| folders.get(path)) {
                folder.sender.send_modify(|count| *count += 1);
            }
        }
    }
}

/// State files are rewritten often after the journal, and contain nothing new.
fn is_telling(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    !name.starts_with(".state-") && path.extension().is_none_or(|kind| kind != "json")
}

impl Changed {
    /// Completes with the next change after this value was created or last waited for.
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
        let mut watchers = lock(&self.changes.watchers);
        let mut folders = lock(&self.changes.folders);
        let Some(folder) = folders.get_mut(&self.folder) else { return };
        folder.waiting -= 1;
        if folder.waiting > 0 {
            return;
        }
        let is_polled = folder.is_polled;
        folders.remove(&self.folder);
        drop(folders);
        let Watchers { watcher, poller } = &mut *watchers;
        if let Some(watcher) = if is_polled { poller } else { watcher } {
            let _ = watcher.unwatch(&self.folder);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::{
        fs,
        sync::{
            atomic::{AtomicBool, Ordering},
            mpsc,
        },
        thread,
    };

    use super::*;

    #[test]
    fn directories_are_watched_and_left_while_files_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let is_over = Arc::new(AtomicBool::new(false));
        let writer = {
            let (path, is_over) = (path.clone(), Arc::clone(&is_over));
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    fs::write(path.join("journal"), "x").unwrap();
                }
            })
        };
        let (sender, receiver) = mpsc::channel();
        thread::spawn(move || {
            let changes = Changes::new();
            let _always = changes.of(&path);
            for number in 0..2_000 {
                let below = path.join(format!("{}", number % 7));
                let _ = fs::create_dir(&below);
                drop(changes.of(&below));
            }
            sender.send(()).unwrap();
        });
        let done = receiver.recv_timeout(Duration::from_mins(1));
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        done.unwrap();
    }
}
