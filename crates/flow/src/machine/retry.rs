//! Decides what follows from a failure of a coding agent. It computes durations and reads no clock.

use crate::{id::StepId, source::fingerprint};

use super::FailureClass;

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Remedy {
    /// Wait a little and try again, a limited number of times.
    Retry,
    /// Wait and try again until the waits add up to the run's limit.
    RetryFor { at_least_ms: u64 },
    /// All agents wait.
    WaitForUsageLimit { resets_at: Option<u64> },
    /// The turn has spent its share of the budget: continue it with more, or stop the run.
    MoreMoney,
    /// A retry would fail in the same way.
    GiveUp,
    /// The same, and the prompt itself is the reason.
    GiveUpPrompt,
    /// The same, and the session is gone.
    GiveUpSession,
}

pub(super) fn remedy(class: FailureClass) -> Remedy {
    match class {
        FailureClass::Transient { retry_after_ms } => {
            Remedy::RetryFor { at_least_ms: retry_after_ms.unwrap_or_default() }
        }
        FailureClass::Killed | FailureClass::TimedOut | FailureClass::Other => Remedy::Retry,
        FailureClass::UsageLimit { resets_at } => Remedy::WaitForUsageLimit { resets_at },
        FailureClass::Budget => Remedy::MoreMoney,
        FailureClass::Authentication
        | FailureClass::Billing
        | FailureClass::UnknownModel
        | FailureClass::NotInstalled
        | FailureClass::MaxTurns
        | FailureClass::BadOutput
        | FailureClass::Misconfigured
        | FailureClass::NotUnderstood => Remedy::GiveUp,
        FailureClass::PromptTooLong | FailureClass::AnswerTooLong | FailureClass::Refused => {
            Remedy::GiveUpPrompt
        }
        FailureClass::SessionMissing => Remedy::GiveUpSession,
    }
}

/// The wait before retry number `retry`, from 1: it doubles each time.
pub(super) fn delay_ms(retry: u32) -> u64 {
    const FIRST_MS: u64 = 2_000;
    // A failure of an unknown kind that lasts longer needs the user.
    const LONGEST_MS: u64 = 5 * 60 * 1_000;
    let doublings = retry.saturating_sub(1).min(16);
    (FIRST_MS << doublings).min(LONGEST_MS)
}

/// The wait after a transient failure: as long as all waits before it together and 2 seconds more, at most
/// a minute, but never shorter than the provider asks for.
pub(super) fn transient_delay_ms(waited_ms: u64, at_least_ms: u64) -> u64 {
    const FIRST_MS: u64 = 2_000;
    const LONGEST_MS: u64 = 60_000;
    // A provider that asks for more is not busy but closed; an hour bounds what a program may claim.
    const ASKED_MAX_MS: u64 = 3_600_000;
    waited_ms.saturating_add(FIRST_MS).min(LONGEST_MS).max(at_least_ms.min(ASKED_MAX_MS))
}

/// `delay_ms` and up to a quarter more, so that agents that fail together do not come back together. It is a
/// hash of the step instead of a random number: a decision has the same result when it is made again. `run` is the
/// identity of the run.
pub(super) fn with_jitter(delay_ms: u64, run: &str, step: &StepId) -> u64 {
    const DIGITS: usize = 4;
    let digest = fingerprint(format!("{run}/{step}").as_bytes());
    let digits = digest.get(..DIGITS).and_then(|digits| u64::from_str_radix(digits, 16).ok());
    delay_ms + (delay_ms / 4 * digits.unwrap_or_default()) / 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_an_outage_double_up_to_a_minute_and_last_ten_minutes_in_total() {
        let mut waits = Vec::new();
        while waits.iter().sum::<u64>() < crate::machine::settings::RETRY_FOR_MS {
            waits.push(transient_delay_ms(waits.iter().sum(), 0));
        }
        assert_eq!(waits[..6], [2_000, 4_000, 8_000, 16_000, 32_000, 60_000]);
        assert_eq!(waits.len(), 14);
        assert_eq!(transient_delay_ms(0, 20_000), 20_000);
        assert_eq!(transient_delay_ms(0, u64::MAX), 3_600_000);
    }

    #[test]
    fn jitter_differs_by_step_and_run_and_never_shortens_a_wait() {
        let of = |run: &str, step: &str| {
            let (agent, number) = step.split_once('.').unwrap();
            let agent = crate::id::AgentId::new(agent);
            with_jitter(60_000, run, &StepId { agent, number: number.parse().unwrap() })
        };
        let waits = [of("a", "main.1"), of("a", "main.2"), of("a", "main_w1.1"), of("b", "main.1")];
        assert!(waits.iter().all(|wait| (60_000..=75_000).contains(wait)), "{waits:?}");
        let different: std::collections::BTreeSet<_> = waits.iter().collect();
        assert_eq!(different.len(), waits.len(), "{waits:?}");
        assert_eq!(of("a", "main.1"), waits[0]);
    }

    #[test]
    fn retry_delay_grows_and_is_bounded() {
        assert_eq!([1, 2, 3, 4].map(delay_ms), [2_000, 4_000, 8_000, 16_000]);
        assert_eq!(delay_ms(u32::MAX), 300_000);
    }
}
