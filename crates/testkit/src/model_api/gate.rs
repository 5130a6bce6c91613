//! A gate: replies wait at it until the test says so, so that no test has to sleep.

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

    /// Lets through all that wait and all that come later.
    pub fn open(&self) {
        *lock(&self.inner.open) = true;
        self.inner.changed.notify_all();
    }

    /// Whether it was opened.
    pub fn is_open(&self) -> bool {
        *lock(&self.inner.open)
    }

    /// Waits until this gate or `other` is open. Whoever opens `other` must [`wake`](Self::wake)
    /// this one.
    pub(super) fn wait_unless(&self, other: &Gate) {
        let open = lock(&self.inner.open);
        let waited = self.inner.changed.wait_while(open, |open| !*open && !other.is_open());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits until it is open, but not longer than this.
    pub(super) fn wait_at_most(&self, patience: Duration) {
        let open = lock(&self.inner.open);
        let waited = self.inner.changed.wait_timeout_while(open, patience, |open| !*open);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Makes those who wait look again. Takes the lock, so that nobody is just between looking and
    /// falling asleep.
    pub(super) fn wake(&self) {
        let open = lock(&self.inner.open);
        self.inner.changed.notify_all();
        drop(open);
    }
}
