//! Ctrl-C and the other signals that ask the orchestrator to stop.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    run::inbox::{Message, Outbox},
    sys,
};

/// The signals that ask a run to stop, queued until a run loop takes them.
#[derive(Clone, Debug)]
pub struct Interrupts {
    target: Arc<Mutex<InterruptTarget>>,
}

/// The most interrupts that are delivered to the run loop. The next one exits at once.
const INTERRUPTS_MAX: u32 = 2;
/// The same while there is no run loop.
const INTERRUPTS_MAX_WITHOUT_LOOP: u32 = 1;
/// The exit code of an interrupted program.
const INTERRUPTED: i32 = 130;

/// The receiver of interrupts.
#[derive(Debug, Default)]
struct InterruptTarget {
    /// The inbox of the run loop that is running now.
    outbox: Option<Outbox>,
    /// The number of interrupts that came while there was no run loop.
    waiting: u32,
    /// The number of interrupts delivered to the run loop.
    given: u32,
}

impl InterruptTarget {
    /// Handles one interrupt. The first two go to the run loop; a user who presses Ctrl-C a third time does
    /// not want to wait for it. Exiting loses nothing: the steps go on, and the run can be resumed.
    fn interrupt(&mut self) {
        if self.outbox.is_some() {
            self.given += 1;
            if self.given > INTERRUPTS_MAX {
                std::process::exit(INTERRUPTED);
            }
            self.tell();
        } else {
            self.waiting += 1;
            if self.waiting > INTERRUPTS_MAX_WITHOUT_LOOP {
                std::process::exit(INTERRUPTED);
            }
        }
    }

    /// Sends an interrupt to the run loop from a thread, because the loop may be busy and more interrupts
    /// may come.
    fn tell(&self) {
        if let Some(outbox) = self.outbox.clone() {
            let own = outbox.clone();
            let spawned = std::thread::Builder::new().spawn(move || own.send(&Message::Interrupt));
            if spawned.is_err() {
                outbox.send(&Message::Interrupt);
            }
        }
    }
}

impl Interrupts {
    /// Handles interrupts from now on, for as long as the process lives. Must be called before any thread
    /// is started, because threads inherit the mask of blocked signals.
    pub fn install() -> Self {
        let target = Arc::new(Mutex::new(InterruptTarget::default()));
        let watched = Arc::clone(&target);
        sys::on_interrupt(move || {
            watched.lock().unwrap_or_else(PoisonError::into_inner).interrupt();
        });
        Self { target }
    }

    /// Whether there is one that no run loop received: for programs that only watch a run.
    pub fn is_pressed(&self) -> bool {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).waiting > 0
    }

    /// Stops the current run and kills its steps, like pressing Ctrl-C twice. Without a run, nothing happens.
    pub fn stop(&self) {
        let target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..INTERRUPTS_MAX {
            target.tell();
        }
    }

    /// Delivers interrupts to a run loop from now on, including those that are queued.
    pub(crate) fn deliver_to(&self, outbox: Outbox) {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        target.outbox = Some(outbox);
        target.given = std::mem::take(&mut target.waiting);
        for _ in 0..target.given {
            target.tell();
        }
    }

    /// Whether the last run loop was given interrupts. If it ended all the same without being interrupted, they
    /// came too late for it.
    pub fn were_given(&self) -> bool {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).given > 0
    }

    /// Queues interrupts for the next run loop, because this one has ended.
    pub(crate) fn hold_back(&self) {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).outbox = None;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::inbox::Inbox;

    /// Interrupts that no signal causes.
    fn interrupts() -> Interrupts {
        Interrupts { target: Arc::default() }
    }

    fn press(interrupts: &Interrupts) {
        interrupts.target.lock().unwrap().interrupt();
    }

    /// How many interrupts have arrived, when that many were expected.
    fn arrived(inbox: &Inbox, expected: usize) -> usize {
        let wait = |_: &usize| inbox.next(Some(Duration::from_mins(1))) == Some(Message::Interrupt);
        let count = (0..expected).take_while(wait).count();
        count + usize::from(inbox.next_waiting().is_some())
    }

    #[test]
    fn interrupt_goes_to_the_run_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        let interrupts = interrupts();
        interrupts.deliver_to(inbox.outbox());
        press(&interrupts);
        press(&interrupts);
        assert_eq!(arrived(&inbox, 2), 2);
        assert!(!interrupts.is_pressed() && interrupts.were_given(), "the run has them");
    }

    #[test]
    fn interrupt_without_a_run_waits_for_the_next_one_and_is_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        let interrupts = interrupts();
        assert!(!interrupts.is_pressed());
        press(&interrupts);
        assert!(interrupts.is_pressed());
        interrupts.deliver_to(inbox.outbox());
        assert_eq!(arrived(&inbox, 1), 1);
        assert!(!interrupts.is_pressed());
        // The next run is another matter.
        interrupts.hold_back();
        let next = Inbox::open(folder.path()).unwrap();
        interrupts.deliver_to(next.outbox());
        assert_eq!(arrived(&next, 0), 0);
    }

    #[test]
    fn stop_counts_as_two_interrupts_and_needs_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let inbox = Inbox::open(folder.path()).unwrap();
        let interrupts = interrupts();
        interrupts.stop();
        assert!(!interrupts.is_pressed(), "without a run, nothing happens");
        interrupts.deliver_to(inbox.outbox());
        interrupts.stop();
        assert_eq!(arrived(&inbox, 2), 2);
        // It does not use up the presses of the user.
        press(&interrupts);
        assert_eq!(arrived(&inbox, 1), 1);
    }
}
