//! How long all agents wait for the provider's usage limit to be lifted: durations, no clock.

use std::time::Duration;

/// The first wait for a limit of which nobody says when it is lifted. Minutes: a limit is not an overload.
const FIRST_WAIT: Duration = Duration::from_mins(5);
/// The longest such wait: nobody should sit idle much longer than the limit lasts.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// The wait from `now_ms` until `resets_at` (seconds since 1970) and a margin. If that is not known, it
/// doubles with each of the `waits` in vain that came before it.
pub(crate) fn wait(resets_at: Option<u64>, now_ms: u64, margin: Duration, waits: u32) -> Duration {
    match resets_at {
        // A time that has passed leaves the margin.
        Some(at) => Duration::from_millis(at.saturating_mul(1000).saturating_sub(now_ms)) + margin,
        None => FIRST_WAIT.saturating_mul(1 << waits.min(16)).min(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: Duration = Duration::from_secs(30);

    #[test]
    fn known_time_is_waited_for_with_a_margin_and_a_passed_one_leaves_the_margin() {
        let of = |at| wait(Some(at), 10_000, MARGIN, 9).as_secs();
        assert_eq!([of(70), of(10), of(3)], [90, 30, 30]);
        assert!(wait(Some(u64::MAX), 0, MARGIN, 0) > LONGEST_WAIT);
    }

    #[test]
    fn unknown_time_is_waited_for_in_growing_and_bounded_steps() {
        let of = |waits| wait(None, 10_000, MARGIN, waits).as_secs() / 60;
        assert_eq!([0, 1, 2, 3, 4, u32::MAX].map(of), [5, 10, 20, 40, 60, 60]);
    }
}
