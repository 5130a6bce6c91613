//! The provider's usage limit: how long all agents wait until it is lifted ([`wait`] computes durations and reads no
//! clock), and what the runs of a user tell each other about it (`shared`).

mod shared;

use std::time::Duration;

pub(crate) use shared::{SharedLimit, SharedLimits};

/// The first wait if the provider does not say when the limit is lifted. Minutes: a limit is not an overload.
const FIRST_WAIT: Duration = Duration::from_mins(5);
/// The longest such wait: agents should not be idle much longer than the limit lasts.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// The wait from `now_ms` until `resets_at` (seconds since 1970) and a margin. If that time is unknown, the
/// wait doubles with each of the `waits` before it that ended while the limit was still in effect.
pub fn wait(resets_at: Option<u64>, now_ms: u64, margin: Duration, waits: u32) -> Duration {
    let left_ms = resets_at.map(|at| at.saturating_mul(1000).saturating_sub(now_ms));
    match left_ms {
        // A time in the past gets the margin once; after that it counts as unknown.
        Some(left_ms) if left_ms > 0 || waits == 0 => Duration::from_millis(left_ms) + margin,
        Some(_) | None => FIRST_WAIT.saturating_mul(1 << waits.min(16)).min(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARGIN: Duration = Duration::from_secs(30);

    #[test]
    fn wait_is_until_the_known_time_plus_margin_and_only_the_margin_if_it_has_passed() {
        let of = |at| wait(Some(at), 10_000, MARGIN, 0).as_secs();
        assert_eq!([of(70), of(10), of(3)], [90, 30, 30]);
        assert_eq!(wait(Some(70), 10_000, MARGIN, 9).as_secs(), 90);
        assert!(wait(Some(u64::MAX), 0, MARGIN, 0) > LONGEST_WAIT);
    }

    #[test]
    fn past_time_after_a_failed_wait_counts_as_unknown() {
        let of = |waits| wait(Some(3), 10_000, Duration::ZERO, waits).as_secs() / 60;
        assert_eq!([1, 2, 9].map(of), [10, 20, 60]);
    }

    #[test]
    fn unknown_time_is_waited_for_in_growing_and_bounded_steps() {
        let of = |waits| wait(None, 10_000, MARGIN, waits).as_secs() / 60;
        assert_eq!([0, 1, 2, 3, 4, u32::MAX].map(of), [5, 10, 20, 40, 60, 60]);
    }
}
