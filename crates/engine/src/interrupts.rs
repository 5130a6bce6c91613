//! Ctrl-C and its relatives.

use std::sync::{Arc, Mutex, PoisonError};

use crate::{
    inbox::{Message, Outbox},
    sys,
};

/// The signals that ask a run to stop, held back until the run loop takes them.
#[derive(Clone, Debug)]
pub struct Interrupts {
    /// The loop that owns a run at this moment.
    target: Arc<Mutex<Option<Outbox>>>,
}

impl Interrupts {
    /// Takes charge of interrupts, for as long as the process lives. To be called before any thread
    /// is started, because threads inherit what is held back.
    pub fn install() -> Self {
        let target = Arc::new(Mutex::new(None::<Outbox>));
        let watched = Arc::clone(&target);
        sys::on_interrupt(move || {
            let outbox = watched.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(outbox) = outbox {
                outbox.send(&Message::Interrupt);
            }
        });
        Self { target }
    }

    /// Hands interrupts to a run loop from now on.
    pub(crate) fn deliver_to(&self, outbox: Outbox) {
        *self.target.lock().unwrap_or_else(PoisonError::into_inner) = Some(outbox);
    }
}
