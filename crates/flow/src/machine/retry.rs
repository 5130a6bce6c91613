//! Decides what follows from a failure of a coding agent. It computes durations and reads no clock.

use super::FailureClass;

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Wait a little and try again, a limited number of times.
    Retry,
    /// All agents wait.
    WaitForUsageLimit { resets_at: Option<u64> },
    /// The budget is spent: stop the run.
    Stop,
    /// A retry would fail in the same way.
    GiveUp,
    /// The same, and the prompt itself is the reason.
    GiveUpPrompt,
    /// The same, and the session is gone.
    GiveUpSession,
}

pub(super) fn remedy(class: FailureClass) -> Remedy {
    match class {
        FailureClass::Transient { .. }
        | FailureClass::Killed
        | FailureClass::TimedOut
        | FailureClass::Other => Remedy::Retry,
        FailureClass::UsageLimit { resets_at } => Remedy::WaitForUsageLimit { resets_at },
        FailureClass::Budget => Remedy::Stop,
        FailureClass::Authentication
        | FailureClass::Billing
        | FailureClass::UnknownModel
        | FailureClass::NotInstalled
        | FailureClass::Misconfigured => Remedy::GiveUp,
        FailureClass::PromptTooLong | FailureClass::Refused => Remedy::GiveUpPrompt,
        FailureClass::SessionMissing => Remedy::GiveUpSession,
    }
}

/// The wait before retry number `retry`, from 1: it doubles each time. The engine adds jitter.
pub(super) fn delay_ms(retry: u32) -> u64 {
    const FIRST_MS: u64 = 2_000;
    // A longer outage is a usage limit, or needs the user.
    const LONGEST_MS: u64 = 5 * 60 * 1_000;
    let doublings = retry.saturating_sub(1).min(16);
    (FIRST_MS << doublings).min(LONGEST_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_delay_grows_and_is_bounded() {
        assert_eq!([1, 2, 3, 4].map(delay_ms), [2_000, 4_000, 8_000, 16_000]);
        assert_eq!(delay_ms(u32::MAX), 300_000);
    }
}
