//! How many steps this worker carries out at once, whichever task queue they come from.
//!
//! The slots of the SDK belong to one queue each, and an open poll holds one. A step that arrived holds its slot until
//! there is a free place for every poll that its queue would then have open: so no queue hands out a step that has
//! no place here, except where the step of another queue was faster.

use std::sync::Arc;

use tokio::sync::watch;

/// The most slots of a queue: for two polls, one that the SDK reserves for the next, and a step that comes with the answer
/// to a workflow task.
const SLOTS_MAX: usize = 4;

/// The places for steps on this worker.
#[derive(Clone, Debug)]
pub(crate) struct Capacity {
    max: usize,
    load: Arc<watch::Sender<Load>>,
}

#[derive(Debug, Default)]
struct Load {
    /// Places that are taken.
    running: usize,
    /// By queue: the slots that steps hold. The others are polls.
    held: Vec<usize>,
}

/// A place that a step has, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken(Arc<watch::Sender<Load>>);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.send_modify(|load| load.running -= 1);
    }
}

impl Capacity {
    pub(crate) fn new(max: usize) -> Self {
        Self { max, load: Arc::default() }
    }

    /// The slots of another queue.
    pub(crate) fn slots(&self) -> Slots {
        let mut queue = 0;
        self.load.send_modify(|load| {
            queue = load.held.len();
            load.held.push(0);
        });
        Slots { capacity: self.clone(), queue }
    }

    /// A place, if one is free.
    pub(crate) fn try_take(&self) -> Option<Taken> {
        let is_taken = self.load.send_if_modified(|load| {
            let is_free = load.running < self.max;
            load.running += usize::from(is_free);
            is_free
        });
        is_taken.then(|| Taken(Arc::clone(&self.load)))
    }

    /// A place for a step that runs here already, even if none is free.
    pub(crate) fn take_over(&self) -> Taken {
        self.load.send_modify(|load| load.running += 1);
        Taken(Arc::clone(&self.load))
    }

    async fn wait_until(&self, is_so: impl Fn(&Load) -> bool) {
        // The sender is in `self`, so this never fails.
        let _ = self.load.subscribe().wait_for(is_so).await;
    }
}

/// The slots of the SDK for one queue.
#[derive(Clone, Debug)]
pub(crate) struct Slots {
    capacity: Capacity,
    queue: usize,
}

/// A slot that a step holds, until it is released or dropped.
#[derive(Debug)]
pub(crate) struct Held {
    slots: Slots,
    is_released: bool,
}

impl Slots {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.capacity.max.min(SLOTS_MAX)
    }

    /// The slot of a step that has arrived.
    pub(crate) fn hold(&self) -> Held {
        self.capacity.load.send_modify(|load| load.held[self.queue] += 1);
        Held { slots: self.clone(), is_released: false }
    }

    /// Whether there is a free place for every poll, if one more slot becomes one.
    fn may_poll(&self, load: &Load) -> bool {
        let polls = self.count() - load.held[self.queue] + 1;
        load.running + polls <= self.capacity.max
    }
}

impl Held {
    /// Waits until this slot may become a poll.
    pub(crate) async fn release(mut self) {
        let Slots { capacity, queue } = self.slots.clone();
        while !self.is_released {
            capacity.wait_until(|load| self.slots.may_poll(load)).await;
            self.is_released = capacity.load.send_if_modified(|load| {
                let may_poll = self.slots.may_poll(load);
                load.held[queue] -= usize::from(may_poll);
                may_poll
            });
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.is_released {
            self.slots.capacity.load.send_modify(|load| load.held[self.slots.queue] -= 1);
        }
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
        drop(first);
        assert!(capacity.try_take().is_some(), "taken, and dropped at once");
        drop(second);
        assert!(capacity.try_take().is_some());
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

    /// Whether a slot with which nobody waits may become a poll.
    fn may_poll(slots: &Slots) -> bool {
        slots.may_poll(&slots.capacity.load.borrow())
    }

    #[test]
    fn queue_has_as_many_polls_as_places_are_free() {
        let capacity = Capacity::new(3);
        let slots = capacity.slots();
        assert_eq!(slots.count(), 3);
        let steps: Vec<_> = (0..3).map(|_| (slots.hold(), capacity.try_take().unwrap())).collect();
        let (mut held, mut taken): (Vec<_>, Vec<_>) = steps.into_iter().unzip();
        assert!(!may_poll(&slots), "all places are taken");
        taken.pop();
        assert!(held.pop().unwrap().release().now_or_never().is_some());
        assert!(!may_poll(&slots), "one place is free, and polled for");
        drop(taken);
        assert!(may_poll(&slots));
    }

    #[test]
    fn step_of_another_queue_closes_a_poll() {
        let capacity = Capacity::new(2);
        let (common, labelled) = (capacity.slots(), capacity.slots());
        let (_held, other) = (labelled.hold(), capacity.try_take().unwrap());
        let (held, own) = (common.hold(), capacity.try_take().unwrap());
        drop(own);
        let release = held.release();
        let mut release = std::pin::pin!(release);
        assert!(release.as_mut().now_or_never().is_none(), "the other poll has the free place");
        drop(other);
        assert!(release.now_or_never().is_some());
    }

    #[test]
    fn worker_with_many_places_polls_for_a_few_at_once() {
        let capacity = Capacity::new(100);
        let slots = capacity.slots();
        assert_eq!(slots.count(), SLOTS_MAX);
        let (held, _taken) = (slots.hold(), capacity.try_take().unwrap());
        assert!(held.release().now_or_never().is_some(), "its place is no concern of the next");
    }
}
