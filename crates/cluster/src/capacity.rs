//! How many steps this worker carries out at once, whichever task queue they come from.
//!
//! The slots of the SDK belong to one queue each, and an idle poll holds one. So they only limit how many tasks a queue
//! hands out ahead, which is one, and this counts the steps.

use std::sync::Arc;

use tokio::sync::watch;

/// The places for steps on this worker.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    max: usize,
    running: Arc<watch::Sender<usize>>,
}

/// A place that a step has, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken(Arc<watch::Sender<usize>>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running -= 1);
    }
}

impl Capacity {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, running: Arc::new(watch::Sender::new(0)) }
    }

    /// A place, if one is free.
    pub(crate) fn try_take(&self) -> Option<Taken> {
        let is_taken = self.running.send_if_modified(|running| {
            let is_free = *running < self.max;
            *running += usize::from(is_free);
            is_free
        });
        is_taken.then(|| Taken(Arc::clone(&self.running)))
    }

    /// The next place that is free.
    pub(crate) async fn take(&self) -> Taken {
        loop {
            self.has_free().await;
            if let Some(taken) = self.try_take() {
                return taken;
            }
        }
    }

    /// A place for a step that runs here already, even if none is free.
    pub(crate) fn take_over(&self) -> Taken {
        self.running.send_modify(|running| *running += 1);
        Taken(Arc::clone(&self.running))
    }

    /// Waits until a place is free.
    pub(crate) async fn has_free(&self) {
        // The sender is in `self`, so this never fails.
        let _ = self.running.subscribe().wait_for(|running| *running < self.max).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn place_is_free_again_when_its_step_is_over() {
        let capacity = Capacity::new(2);
        let (first, second) = (capacity.try_take().unwrap(), capacity.try_take().unwrap());
        assert!(capacity.try_take().is_none());
        assert!(capacity.take().now_or_never().is_none());
        drop(first);
        assert!(capacity.take().now_or_never().is_some(), "taken, and dropped at once");
        drop(second);
        assert!(capacity.has_free().now_or_never().is_some());
    }

    #[test]
    fn step_that_runs_already_has_a_place_even_if_none_is_free() {
        let capacity = Capacity::new(1);
        let first = capacity.take_over();
        let second = capacity.take_over();
        drop(first);
        assert!(capacity.try_take().is_none(), "the second still runs");
        drop(second);
        assert!(capacity.try_take().is_some());
    }

    #[tokio::test]
    async fn whoever_waits_for_a_place_is_woken() {
        let capacity = Capacity::new(1);
        let first = capacity.try_take().unwrap();
        let (waits, ()) = tokio::join!(capacity.take(), async { drop(first) });
        assert!(capacity.try_take().is_none());
        drop(waits);
    }
}
