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

/// How many interrupts a program gets before the next one ends it at once.
const INTERRUPTS_MAX: u32 = 2;
/// The same while nothing is there that could react to them.
const INTERRUPTS_MAX_WITHOUT_LOOP: u32 = 1;
/// What an interrupted program exits with.
const INTERRUPTED: i32 = 130;

/// Where interrupts go.
#[derive(Debug, Default)]
struct Target {
    /// The loop that owns a run at this moment.
    outbox: Option<Outbox>,
    /// How many came while there was none.
    waiting: u32,
    /// How many the loop was given.
    given: u32,
}

impl Target {
    /// Takes one interrupt. The first two are for the loop; whoever insists does not want to wait for
    /// whatever it waits for. Nothing is lost: the steps go on, and the run can be resumed.
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

    /// Tells the loop, without waiting for it: it may be busy, and more interrupts may come.
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
    /// Takes charge of interrupts, for as long as the process lives. To be called before any thread
    /// is started, because threads inherit what is held back.
    pub fn install() -> Self {
        let target = Arc::new(Mutex::new(Target::default()));
        let watched = Arc::clone(&target);
        sys::on_interrupt(move || {
            watched.lock().unwrap_or_else(PoisonError::into_inner).interrupt();
        });
        Self { target }
    }

    /// Whether one has come that no run loop was given: for programs that only watch a run.
    pub fn is_pressed(&self) -> bool {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).waiting > 0
    }

    /// Hands interrupts to a run loop from now on, and those that came before.
    pub(crate) fn deliver_to(&self, outbox: Outbox) {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        target.outbox = Some(outbox);
        target.given = std::mem::take(&mut target.waiting);
        for _ in 0..target.given {
            target.tell();
        }
    }

    /// The loop is over: whatever comes now is for the next one.
    pub(crate) fn hold_back(&self) {
        self.target.lock().unwrap_or_else(PoisonError::into_inner).outbox = None;
    }
}
