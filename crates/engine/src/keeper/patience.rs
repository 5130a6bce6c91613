//! When a silent child is asked to end, and when it is killed: the rule for reapers and guardian threads.
//!
//! It has no clock and knows no process. The caller reports the child's output and the time, and performs the
//! action that it returns.

use std::time::{Duration, Instant};

use crate::exec::step::HowEnded;

/// How long a child may take to end after it was asked to.
pub(crate) const GRACE: Duration = Duration::from_secs(5);
/// How often processes are killed again: a new one may be started while the others are killed.
pub(crate) const KILL_INTERVAL: Duration = Duration::from_millis(20);

/// The timeouts of one child.
#[derive(Debug)]
pub(crate) struct Patience {
    /// How long the child may print nothing; `None` is no limit.
    silence: Option<Duration>,
    /// How long it may take to end when it is asked to.
    grace: Duration,
    /// How much it has printed to each of its files, and since when that has not changed.
    printed: [u64; 2],
    unchanged_since: Instant,
    ending: Option<Ending>,
}

/// A child that is to end.
#[derive(Debug)]
struct Ending {
    why: HowEnded,
    /// When to kill it, or to kill it again; `None` until it is asked to end.
    kill_at: Option<Instant>,
}

/// What the reaper or guardian does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildAction {
    /// Wait until this time, unless something happens before.
    Wait(Instant),
    /// Ask the child and its descendants to end.
    AskToEnd,
    /// Kill them.
    Kill,
}

impl Patience {
    /// For a child that starts at `now`. A `silence` of zero is for one that is to end at once.
    pub(crate) fn new(silence: Option<Duration>, grace: Duration, now: Instant) -> Self {
        Self { silence, grace, printed: [0, 0], unchanged_since: now, ending: None }
    }

    /// For the child of a step that may be silent for `idle_seconds`; 0 is no limit.
    pub(crate) fn of_step(idle_seconds: u64, now: Instant) -> Self {
        let silence = (idle_seconds > 0).then(|| Duration::from_secs(idle_seconds));
        Self::new(silence, GRACE, now)
    }

    /// Whether the amount of output matters.
    pub(crate) fn is_limited(&self) -> bool {
        self.silence.is_some() && self.ending.is_none()
    }

    /// Records how much the child has printed at `now`.
    pub(crate) fn see_output(&mut self, printed: [u64; 2], now: Instant) {
        if printed != self.printed {
            (self.printed, self.unchanged_since) = (printed, now);
        }
    }

    /// Ends the child because of `why`. The first reason counts.
    pub(crate) fn end(&mut self, why: HowEnded) {
        self.ending.get_or_insert(Ending { why, kill_at: None });
    }

    /// Whether the child is to end.
    #[cfg(not(portable))]
    pub(crate) fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// The action at `now`. The caller must perform it.
    pub(crate) fn next(&mut self, now: Instant) -> ChildAction {
        if let Some(silence) = self.silence
            && now.saturating_duration_since(self.unchanged_since) >= silence
        {
            self.end(HowEnded::TimedOut(silence.as_secs()));
        }
        let Some(ending) = &mut self.ending else {
            return ChildAction::Wait(now + self.look_interval());
        };
        match ending.kill_at {
            None => {
                ending.kill_at = Some(now + self.grace);
                ChildAction::AskToEnd
            }
            Some(kill_at) if now < kill_at => ChildAction::Wait(kill_at),
            Some(_) => {
                ending.kill_at = Some(now + KILL_INTERVAL);
                ChildAction::Kill
            }
        }
    }

    /// How the step ended, if its child ended like `child`. If the child was asked to end, the reason for that
    /// counts; but a coding agent that finished within its grace period has an answer that is paid for.
    pub(crate) fn verdict(&mut self, child: HowEnded, is_paid: bool) -> HowEnded {
        match self.ending.take() {
            Some(_) if is_paid && child == HowEnded::Code(0) => child,
            Some(Ending { why, .. }) => why,
            None => child,
        }
    }

    /// How often to check whether the child has printed something: a twentieth of its limit.
    fn look_interval(&self) -> Duration {
        const NEVER: Duration = Duration::from_hours(1);
        const SHORTEST: Duration = Duration::from_millis(50);
        const LONGEST: Duration = Duration::from_secs(10);
        self.silence.map_or(NEVER, |silence| (silence / 20).clamp(SHORTEST, LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A child with a limit of 100 s, and the time at which it starts.
    fn limited() -> (Patience, Instant) {
        let start = Instant::now();
        (Patience::of_step(100, start), start)
    }

    #[test]
    fn child_without_a_limit_may_be_silent_for_ever() {
        let start = Instant::now();
        let mut patience = Patience::of_step(0, start);
        assert!(!patience.is_limited());
        let later = start + 1_000_000 * SECOND;
        assert!(matches!(patience.next(later), ChildAction::Wait(until) if until > later));
        assert_eq!(patience.verdict(HowEnded::Signal(9), false), HowEnded::Signal(9));
    }

    #[test]
    fn silent_child_is_asked_to_end_once_and_then_killed_repeatedly() {
        let (mut patience, start) = limited();
        assert_eq!(patience.next(start), ChildAction::Wait(start + 5 * SECOND));
        assert!(matches!(patience.next(start + 99 * SECOND), ChildAction::Wait(_)));
        let limit = start + 100 * SECOND;
        assert_eq!(patience.next(limit), ChildAction::AskToEnd);
        let kill_at = limit + GRACE;
        assert_eq!(patience.next(limit), ChildAction::Wait(kill_at));
        assert_eq!(patience.next(kill_at), ChildAction::Kill);
        assert_eq!(patience.next(kill_at), ChildAction::Wait(kill_at + KILL_INTERVAL));
        assert_eq!(patience.next(kill_at + KILL_INTERVAL), ChildAction::Kill);
        assert_eq!(patience.verdict(HowEnded::Signal(9), false), HowEnded::TimedOut(100));
    }

    #[test]
    fn output_to_either_stream_restarts_the_timeout() {
        let (mut patience, start) = limited();
        patience.see_output([1, 0], start + 60 * SECOND);
        patience.see_output([1, 1], start + 120 * SECOND);
        // The same amount is no output.
        patience.see_output([1, 1], start + 180 * SECOND);
        assert!(matches!(patience.next(start + 219 * SECOND), ChildAction::Wait(_)));
        assert_eq!(patience.next(start + 220 * SECOND), ChildAction::AskToEnd);
    }

    #[test]
    fn output_during_the_grace_period_does_not_save_a_child() {
        let (mut patience, start) = limited();
        patience.end(HowEnded::Interrupted);
        assert_eq!(patience.next(start), ChildAction::AskToEnd);
        patience.see_output([9, 9], start + SECOND);
        assert_eq!(patience.next(start + GRACE), ChildAction::Kill);
    }

    #[test]
    fn first_reason_for_an_end_counts() {
        let (mut patience, start) = limited();
        assert_eq!(patience.next(start + 100 * SECOND), ChildAction::AskToEnd);
        patience.end(HowEnded::Interrupted);
        assert!(matches!(patience.next(start + 101 * SECOND), ChildAction::Wait(_)));
        assert_eq!(patience.verdict(HowEnded::Code(1), true), HowEnded::TimedOut(100));
        let (mut patience, start) = limited();
        patience.end(HowEnded::Interrupted);
        assert_eq!(patience.next(start + 100 * SECOND), ChildAction::AskToEnd);
        assert_eq!(patience.verdict(HowEnded::Code(1), true), HowEnded::Interrupted);
    }

    #[test]
    fn only_a_paid_answer_that_is_finished_in_the_grace_counts() {
        for (is_paid, expected) in [(true, HowEnded::Code(0)), (false, HowEnded::Interrupted)] {
            let (mut patience, _) = limited();
            patience.end(HowEnded::Interrupted);
            assert_eq!(patience.verdict(HowEnded::Code(0), is_paid), expected);
        }
    }

    #[test]
    fn timeout_of_zero_ends_the_child_at_once() {
        let start = Instant::now();
        let mut patience = Patience::new(Some(Duration::ZERO), 2 * SECOND, start);
        assert_eq!(patience.next(start), ChildAction::AskToEnd);
        assert_eq!(patience.next(start + SECOND), ChildAction::Wait(start + 2 * SECOND));
        assert_eq!(patience.next(start + 2 * SECOND), ChildAction::Kill);
    }
}
