//! Actions of the run loop that are due at a later time.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use raymond_flow::id::{AgentId, AskId, StepId};

use crate::agent::ReadyAnswer;

/// An action that is due at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// Retry the work of an agent.
    Wake(AgentId),
    /// A question may have reached its deadline.
    Ask(AskId),
    /// The usage limit may be lifted.
    UsageLimit,
    /// Give an answer that needed no program.
    Answer(StepId, Box<ReadyAnswer>),
}

/// Timers by the time at which they are due.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    due: BTreeMap<(Instant, u64), Timer>,
    /// The keys of those that are about questions.
    asks: BTreeMap<AskId, (Instant, u64)>,
    count: u64,
}

impl Timers {
    /// Sets a timer. That of a question replaces the one before: questions are looked at again and again, and
    /// every look sets one.
    pub(crate) fn set(&mut self, delay: Duration, timer: Timer) {
        // The count distinguishes timers that are due at the same moment.
        self.count += 1;
        let key = (Instant::now() + delay, self.count);
        if let Timer::Ask(id) = &timer
            && let Some(before) = self.asks.insert(id.clone(), key)
        {
            self.due.remove(&before);
        }
        self.due.insert(key, timer);
    }

    /// The time until the next one.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let ((when, _), _) = self.due.first_key_value()?;
        Some(when.saturating_duration_since(Instant::now()))
    }

    /// The next one, if it is due.
    pub(crate) fn pop_due(&mut self) -> Option<Timer> {
        let entry = self.due.first_entry()?;
        let timer = (entry.key().0 <= Instant::now()).then(|| entry.remove())?;
        if let Timer::Ask(id) = &timer {
            self.asks.remove(id);
        }
        Some(timer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn wake(name: &str) -> Timer {
        Timer::Wake(AgentId::new(name))
    }

    #[test]
    fn timers_come_when_they_are_due_and_each_once() {
        let mut timers = Timers::default();
        assert_eq!((timers.patience(), timers.pop_due()), (None, None));
        timers.set(HOUR, wake("late"));
        timers.set(Duration::ZERO, wake("now"));
        assert_eq!(timers.patience(), Some(Duration::ZERO));
        assert_eq!(timers.pop_due(), Some(wake("now")));
        assert_eq!(timers.pop_due(), None);
        let left = timers.patience();
        assert!(left.is_some_and(|left| left <= HOUR && left > HOUR / 2), "{left:?}");
    }

    #[test]
    fn timers_of_the_same_moment_come_in_the_order_in_which_they_were_set() {
        let mut timers = Timers::default();
        let names: Vec<_> = (0..100).map(|number| wake(&format!("a{number}"))).collect();
        for name in &names {
            timers.set(Duration::ZERO, name.clone());
        }
        let popped: Vec<_> = std::iter::from_fn(|| timers.pop_due()).collect();
        assert_eq!(popped, names);
    }

    #[test]
    fn timer_of_a_question_replaces_the_one_before() {
        let mut timers = Timers::default();
        let ask = |number| Timer::Ask(AskId { agent: AgentId::main(), number });
        for _ in 0..3 {
            timers.set(HOUR, ask(1));
            timers.set(Duration::ZERO, ask(1));
            timers.set(Duration::ZERO, ask(2));
        }
        let popped: Vec<_> = std::iter::from_fn(|| timers.pop_due()).collect();
        assert_eq!((popped, timers.patience()), (vec![ask(1), ask(2)], None));
        // One that was due leaves nothing behind.
        timers.set(HOUR, ask(1));
        assert!(timers.patience().is_some());
    }

    #[test]
    fn time_that_never_comes_can_be_waited_for() {
        let mut timers = Timers::default();
        // What a provider may say about its limit.
        timers.set(Duration::from_millis(u64::MAX), Timer::UsageLimit);
        assert!(timers.patience() > Some(1_000_000 * HOUR));
        assert_eq!(timers.pop_due(), None);
    }
}
