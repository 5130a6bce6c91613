//! Classifies the errors of Claude Code.

use jiff::tz::TimeZone;
use raymond_flow::{
    machine::{FailureClass, TurnFailure},
    text::beginning,
};

use super::{
    super::limit::{self, ToldLimit},
    event::ClaudeEvent,
    output::{ClaudeEvents, failed},
};

/// The most that is shown of Claude's message about a failure.
const MESSAGE_CHARS_MAX: usize = 400;

/// The failure of a turn that has a result.
pub(super) fn of(events: &ClaudeEvents, result: &ClaudeEvent) -> TurnFailure {
    let message = message(result);
    let class = class(events, result, &message);
    if !result.is_error {
        return failed(class, format!("no model was asked: {message}"));
    }
    failed(class, message)
}

fn message(result: &ClaudeEvent) -> String {
    let text = match &result.result {
        Some(text) if !text.trim().is_empty() => text.clone(),
        _ => result.errors.join("; "),
    };
    match text.trim() {
        "" => "Claude ended without an answer".to_owned(),
        text => beginning(text, MESSAGE_CHARS_MAX),
    }
}

fn class(events: &ClaudeEvents, result: &ClaudeEvent, message: &str) -> FailureClass {
    if !result.is_error {
        // No model answered.
        return FailureClass::Refused;
    }
    if result.subtype == "error_max_budget_usd" {
        return FailureClass::Budget;
    }
    if result.subtype == "error_max_turns" {
        return FailureClass::MaxTurns;
    }
    if result.subtype == "error_max_structured_output_retries" {
        return FailureClass::BadOutput;
    }
    if result.errors.iter().any(|error| error.contains("No conversation found")) {
        return FailureClass::SessionMissing;
    }
    if result.terminal_reason.as_deref() == Some("prompt_too_long")
        || result.api_error_status == Some(413)
    {
        return FailureClass::PromptTooLong;
    }
    if result.stop_reason.as_deref() == Some("refusal") {
        return FailureClass::Refused;
    }
    // The last reply names the kind in every version, the result in newer ones; the status tells what has no name.
    let kinds = [&events.error, &result.api_error].into_iter().flatten();
    let kind = kinds.map(String::as_str).find(|kind| *kind != "unknown");
    match (kind, result.api_error_status) {
        // A full context window has no name of its own.
        (Some("max_output_tokens"), _) if message.contains("context window") => {
            FailureClass::PromptTooLong
        }
        (Some("max_output_tokens"), _) => FailureClass::AnswerTooLong,
        (Some("model_not_found"), _) => FailureClass::UnknownModel,
        (Some("authentication_failed"), _) | (_, Some(401 | 403)) => FailureClass::Authentication,
        (Some("server_error" | "overloaded" | "connection_failed"), _) | (_, Some(408 | 500..)) => {
            FailureClass::Transient { retry_after_ms: events.retry_after_ms }
        }
        // Money that comes back by itself is a limit, too.
        (Some("billing_error"), _) | (_, Some(402)) => {
            limit_in_words(events, message).unwrap_or(FailureClass::Billing)
        }
        // A limit on requests: all agents of the run share it, as they share a usage limit.
        (Some("rate_limit" | "usage_limit_reached"), _) | (_, Some(429)) => {
            limit_in_words(events, message).unwrap_or_else(|| limit_in_fields(events))
        }
        (None, None) if events.limit.is_some() => limit_in_fields(events),
        _ => limit_in_words(events, message).unwrap_or(FailureClass::Other),
    }
}

/// The limit that Claude's words are about. They alone say whether the user has to lift it, and for some limits they
/// alone say that there is one, or when it resets.
fn limit_in_words(events: &ClaudeEvents, message: &str) -> Option<FailureClass> {
    match limit::told(message, events.said_at, &TimeZone::system())? {
        ToldLimit::Account => Some(FailureClass::Billing),
        // The event is more exact than the text.
        ToldLimit::Usage { resets_at } => {
            let told = events.limit.as_ref().and_then(|limit| limit.resets_at);
            Some(FailureClass::UsageLimit { resets_at: told.or(resets_at) })
        }
    }
}

/// The limit that an event reports, or how long the provider asked to wait.
fn limit_in_fields(events: &ClaudeEvents) -> FailureClass {
    if let Some(limit) = &events.limit {
        return FailureClass::UsageLimit { resets_at: limit.resets_at };
    }
    let said_at_ms = u64::try_from(events.said_at.as_millisecond()).unwrap_or_default();
    let resets_at = |wait_ms: u64| said_at_ms.saturating_add(wait_ms).div_ceil(1000);
    FailureClass::UsageLimit { resets_at: events.retry_after_ms.map(resets_at) }
}

/// The failure of a turn without any result.
pub(super) fn without_result(
    exit_code: Option<i32>,
    complaint: &str,
    is_strange: bool,
) -> TurnFailure {
    let words = beginning(complaint, MESSAGE_CHARS_MAX);
    match exit_code {
        None => failed(FailureClass::Killed, "Claude was killed"),
        // The exit codes of Claude after SIGHUP, SIGINT and SIGTERM.
        Some(129 | 130 | 143) if complaint.is_empty() => {
            failed(FailureClass::Killed, "Claude was ended by a signal")
        }
        Some(_) if complaint.contains("No conversation found") => {
            failed(FailureClass::SessionMissing, words)
        }
        Some(_) if complaint.contains("root/sudo privileges") => {
            failed(FailureClass::Misconfigured, words)
        }
        Some(1) if complaint.to_lowercase().contains("error:") => {
            failed(FailureClass::Misconfigured, words)
        }
        Some(0) if is_strange => {
            failed(FailureClass::NotUnderstood, "none of its lines is understood")
        }
        Some(code) if words.is_empty() => {
            failed(FailureClass::Other, format!("Claude exited with code {code} without an answer"))
        }
        Some(code) => failed(
            FailureClass::Other,
            format!("Claude exited with code {code} without an answer: {words}"),
        ),
    }
}
