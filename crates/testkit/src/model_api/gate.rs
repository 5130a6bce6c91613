//! A gate at which replies wait until the test opens it, so that no test has to sleep.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::Duration,
};

use super::lock;

/// A gate, closed at first. Clones are the same gate.
#[derive(Clone, Debug, Default)]
pub struct Gate {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    open: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Releases all threads that wait and lets later ones pass.
    pub fn open(&self) {
        *lock(&self.inner.open) = true;
        self.inner.changed.notify_all();
    }

    /// Whether it was opened.
    pub fn is_open(&self) -> bool {
        *lock(&self.inner.open)
    }

    /// Waits until this gate or `other` is open. The thread that opens `other` must [`wake`](Self::wake)
    /// this gate.
    pub(super) fn wait_unless(&self, other: &Gate) {
        let open = lock(&self.inner.open);
        let waited = self.inner.changed.wait_while(open, |open| !*open && !other.is_open());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until the gate is open, at most this long.
    pub(super) fn wait_at_most(&self, patience: Duration) {
        let open = lock(&self.inner.open);
        let waited = self.inner.changed.wait_timeout_while(open, patience, |open| !*open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Makes waiting threads check again. Takes the lock, so that no thread is between its check and
    /// its wait.
    pub(super) fn wake(&self) {
        let open = lock(&self.inner.open);
        self.inner.changed.notify_all();
        drop(open);
    }
}
