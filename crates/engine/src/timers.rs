//! Actions of the run loop that are due at a later time.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use raymond_flow::id::{AgentId, StepId};

use crate::agent::ReadyAnswer;

/// An action that is due at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Retry the work of an agent.
    Wake(AgentId),
    /// The usage limit should be lifted.
    UsageLimit,
    /// Give an answer that needed no program.
    Answer(StepId, Box<ReadyAnswer>),
}

/// Timers by the time at which they are due.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeMap<(Instant, u64), Timer>,
    count: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, delay: Duration, timer: Timer) {
        // The count distinguishes timers that are due at the same moment.
        self.count += 1;
        self.due.insert((Instant::now() + delay, self.count), timer);
    }

    /// The time until the next one.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let ((when, _), _) = self.due.first_key_value()?;
        Some(when.saturating_duration_since(Instant::now()))
    }

    /// The next one, if it is due.
    pub(crate) fn pop_due(&mut self) -> Option<Timer> {
        let entry = self.due.first_entry()?;
        (entry.key().0 <= Instant::now()).then(|| entry.remove())
    }
}
