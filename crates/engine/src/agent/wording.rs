//! Classes of failures by the words of coding agents that report them only in words.

use jiff::{Timestamp, tz::TimeZone};
use raymond_flow::machine::FailureClass;

use super::limit::{self, ToldLimit};
use crate::sys::clock;

/// Words in a message, in lower case, and what they mean. The first match counts.
const WORDINGS: &[(&str, Words)] = &[
    ("quota exceeded", Words::Billing),
    ("insufficient_quota", Words::Billing),
    ("402 payment required", Words::Billing),
    ("credit balance is too low", Words::Billing),
    ("401 unauthorized", Words::Authentication),
    ("403 forbidden", Words::Authentication),
    ("missing environment variable", Words::Authentication),
    ("invalid_api_key", Words::Authentication),
    ("incorrect api key", Words::Authentication),
    ("authentication error", Words::Authentication),
    ("no api key", Words::Authentication),
    ("not logged in", Words::Authentication),
    ("log out and sign in again", Words::Authentication),
    ("429 too many requests", Words::RateLimit),
    ("rate_limit_exceeded", Words::RateLimit),
    ("rate limit exceeded", Words::RateLimit),
    ("rate limit reached", Words::RateLimit),
    ("max_output_tokens", Words::AnswerTooLong),
    ("output token maximum", Words::AnswerTooLong),
    ("context_length_exceeded", Words::PromptTooLong),
    ("context window", Words::PromptTooLong),
    ("maximum context length", Words::PromptTooLong),
    ("prompt is too long", Words::PromptTooLong),
    ("model_not_found", Words::UnknownModel),
    ("does not exist or you do not have access", Words::UnknownModel),
    ("model is not supported", Words::UnknownModel),
    ("usage policy", Words::Refused),
    ("invalid_prompt", Words::Refused),
    ("experiencing high demand", Words::Transient),
    ("at capacity", Words::Transient),
    ("overloaded", Words::Transient),
    ("server error", Words::Transient),
    ("unexpected status 5", Words::Transient),
    ("last status: 5", Words::Transient),
    ("stream disconnected", Words::Transient),
    ("stream decode error", Words::Transient),
    ("network error", Words::Transient),
    ("connection failed", Words::Transient),
    ("error sending request", Words::Transient),
    ("timed out", Words::Transient),
    ("timeout", Words::Transient),
];

#[derive(Clone, Copy)]
enum Words {
    AnswerTooLong,
    Authentication,
    Billing,
    PromptTooLong,
    RateLimit,
    Refused,
    Transient,
    UnknownModel,
}

impl Words {
    fn class(self) -> FailureClass {
        match self {
            Self::AnswerTooLong => FailureClass::AnswerTooLong,
            Self::Authentication => FailureClass::Authentication,
            Self::Billing => FailureClass::Billing,
            Self::PromptTooLong => FailureClass::PromptTooLong,
            // All agents of the run share it, as they share a usage limit.
            Self::RateLimit => FailureClass::UsageLimit { resets_at: None },
            Self::Refused => FailureClass::Refused,
            Self::Transient => FailureClass::Transient { retry_after_ms: None },
            Self::UnknownModel => FailureClass::UnknownModel,
        }
    }
}

/// The class of the failure that `message` reports. `said_at` is its time.
pub(super) fn class(message: &str, said_at: Timestamp) -> FailureClass {
    match limit::told(message, said_at, &TimeZone::system()) {
        Some(ToldLimit::Account) => FailureClass::Billing,
        Some(ToldLimit::Usage { resets_at }) => FailureClass::UsageLimit { resets_at },
        None => {
            let words = message.to_lowercase();
            let found = WORDINGS.iter().find(|(wording, _)| words.contains(wording));
            let found = found.map(|(_, words)| *words).or_else(|| of_status(status(message)?));
            found.map_or(FailureClass::Other, Words::class)
        }
    }
}

/// The status of HTTP at the beginning of a message: `503: …`, `503 …`.
fn status(message: &str) -> Option<u16> {
    let (number, _) = message.split_once([':', ' '])?;
    number.parse().ok().filter(|status| (400..600).contains(status))
}

fn of_status(status: u16) -> Option<Words> {
    match status {
        401 | 403 => Some(Words::Authentication),
        402 => Some(Words::Billing),
        413 => Some(Words::PromptTooLong),
        429 => Some(Words::RateLimit),
        408 | 500.. => Some(Words::Transient),
        _ => None,
    }
}

/// The same as the name of a class in the protocol for programs, and when a usage limit ends.
pub(super) fn name(message: &str) -> (&'static str, Option<u64>) {
    let now_ms = i64::try_from(clock::now_ms()).unwrap_or_default();
    match class(message, Timestamp::from_millisecond(now_ms).unwrap_or_default()) {
        FailureClass::UsageLimit { resets_at } => ("usage_limit", resets_at),
        FailureClass::Transient { .. } => ("transient", None),
        FailureClass::Authentication => ("authentication", None),
        FailureClass::Billing => ("billing", None),
        FailureClass::PromptTooLong => ("prompt_too_long", None),
        FailureClass::AnswerTooLong => ("answer_too_long", None),
        FailureClass::UnknownModel => ("unknown_model", None),
        FailureClass::Refused => ("refused", None),
        _ => ("other", None),
    }
}
