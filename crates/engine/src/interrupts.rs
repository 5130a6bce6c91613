//! Ctrl-C and its relatives.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    inbox::{Message, Outbox},
    sys,
};

/// The signals that ask a run to stop, held back until the run loop takes them.
#[derive(Clone, Debug)]
pub struct Interrupts {
    target: Arc<Mutex<Target>>,
}

/// Where interrupts go.
#[derive(Debug, Default)]
struct Target {
    /// The loop that owns a run at this moment.
    outbox: Option<Outbox>,
    /// How many came while there was none.
    waiting: u32,
}

impl Interrupts {
    /// Takes charge of interrupts, for as long as the process lives. To be called before any thread
    /// is started, because threads inherit what is held back.
    pub fn install() -> Self {
        let target = Arc::new(Mutex::new(Target::default()));
        let watched = Arc::clone(&target);
        sys::on_interrupt(move || {
            let mut target = watched.lock().unwrap_or_else(PoisonError::into_inner);
            match &target.outbox {
                Some(outbox) => outbox.send(&Message::Interrupt),
                None => target.waiting += 1,
            }
        });
        Self { target }
    }

    /// Hands interrupts to a run loop from now on, and those that came before.
    pub(crate) fn deliver_to(&self, outbox: Outbox) {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..std::mem::take(&mut target.waiting) {
            outbox.send(&Message::Interrupt);
        }
        target.outbox = Some(outbox);
    }

    /// The loop is over: whatever comes now is for the next one.
    pub(crate) fn hold_back(&self) {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).outbox = None;
    }
}
