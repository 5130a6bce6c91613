//! Ctrl-C and its relatives.

use crate::{
    inbox::{Message, Outbox},
    sys::Signals,
};

/// The signals that ask a run to stop, held back until the run loop takes them.
#[derive(Clone, Copy)]
pub struct Interrupts {
    signals: Signals,
}

impl std::fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Interrupts")
    }
}

impl Interrupts {
    /// Takes charge of interrupts. To be called before any thread is started, because threads
    /// inherit what is held back.
    pub fn install() -> Self {
        Self { signals: Signals::block(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]) }
    }

    /// Hands interrupts to a run loop, for as long as the process lives.
    pub(crate) fn deliver_to(self, outbox: Outbox) {
        std::thread::spawn(move || {
            loop {
                self.signals.wait_forever();
                outbox.send(&Message::Interrupt);
            }
        });
    }
}
