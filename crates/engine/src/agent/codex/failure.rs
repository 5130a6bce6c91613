//! Classifies the errors of Codex. It reports them only in words.

use jiff::Timestamp;
use raymond_flow::{
    machine::{FailureClass, TurnFailure},
    text::beginning,
};
use serde::Deserialize;

use crate::agent::wording;

/// The most that is shown of a message.
const MESSAGE_CHARS_MAX: usize = 400;

/// The body of an answer of the API, which Codex sometimes repeats as it is.
#[derive(Deserialize)]
struct Body {
    error: BodyError,
}

#[derive(Deserialize)]
struct BodyError {
    message: String,
}

/// The failure that Codex reports with `message`, at the time `said_at`.
pub(super) fn told(message: &str, said_at: Timestamp) -> TurnFailure {
    let body = serde_json::from_str::<Body>(message).ok();
    let words = body.map_or_else(|| message.to_owned(), |body| body.error.message);
    let class = wording::class(message, said_at);
    TurnFailure { class, message: beginning(words.trim(), MESSAGE_CHARS_MAX) }
}

/// The failure of a turn that Codex did not end: it could not begin, or was killed. `trouble` is its last warning,
/// `complaint` what it wrote to standard error.
pub(super) fn without_end(
    exit_code: Option<i32>,
    trouble: Option<&str>,
    complaint: &str,
) -> TurnFailure {
    let failed = |class, message: String| TurnFailure { class, message };
    let lines: Vec<_> = complaint.lines().filter(|line| !line.starts_with("WARNING:")).collect();
    let words = beginning(lines.join("\n").trim(), MESSAGE_CHARS_MAX);
    let says = |part: &str| complaint.contains(part);
    match exit_code {
        None => failed(FailureClass::Killed, "Codex was killed".to_owned()),
        // After SIGHUP and SIGTERM. SIGINT is 1, without a word.
        Some(129 | 130 | 143) => {
            failed(FailureClass::Killed, "Codex was ended by a signal".to_owned())
        }
        Some(_) if says("no rollout found") || says("missing source rollout") => {
            failed(FailureClass::SessionMissing, words)
        }
        Some(2) => failed(FailureClass::Misconfigured, words),
        Some(_) if says("Error finding codex home") || says("Error loading config") => {
            failed(FailureClass::Misconfigured, words)
        }
        Some(code) => {
            let why = trouble.unwrap_or(&words);
            let message = match why {
                "" => format!("Codex exited with code {code} without an answer"),
                why => format!("Codex exited with code {code} without an answer: {why}"),
            };
            failed(wording::class(why, Timestamp::UNIX_EPOCH), message)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_is_found_in_the_words_of_codex() {
        use FailureClass::{
            Authentication, Billing, Other, PromptTooLong, Refused, Transient, UnknownModel,
            UsageLimit,
        };
        let transient = Transient { retry_after_ms: None };
        // As Codex 0.166.0 prints them.
        for (message, class) in [
            (
                "unexpected status 401 Unauthorized: Incorrect API key provided: k., url: http://127.0.0.1:1/v1/responses",
                Authentication,
            ),
            ("Missing environment variable: `FAKE_KEY`.", Authentication),
            ("Quota exceeded. Check your plan and billing details.", Billing),
            (
                "exceeded retry limit, last status: 429 Too Many Requests",
                UsageLimit { resets_at: None },
            ),
            (
                "{\"error\":{\"message\":\"Your input exceeds the context window of this model.\",\"code\":\"context_length_exceeded\"}}\n",
                PromptTooLong,
            ),
            ("The model `gpt-9` does not exist or you do not have access to it.", UnknownModel),
            (
                "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
                Refused,
            ),
            (
                "We’re currently experiencing high demand, which may cause temporary errors.",
                transient,
            ),
            (
                "unexpected status 503 Service Unavailable: The server is overloaded, url: http://x",
                transient,
            ),
            ("stream disconnected before completion: closed", transient),
            ("something new", Other),
        ] {
            assert_eq!(told(message, Timestamp::UNIX_EPOCH).class, class, "{message}");
        }
    }

    #[test]
    fn usage_limit_has_the_time_at_which_it_ends() {
        let words =
            "You’ve hit your usage limit. Upgrade to Pro, or try again at Nov 22nd, 2026 7:19 AM.";
        let class = told(words, Timestamp::UNIX_EPOCH).class;
        assert!(matches!(class, FailureClass::UsageLimit { resets_at: Some(_) }), "{class:?}");
    }

    #[test]
    fn body_of_the_api_is_shown_as_its_message() {
        let body = "{\"error\":{\"message\":\"Too long.\",\"code\":\"context_length_exceeded\"}}\n";
        assert_eq!(told(body, Timestamp::UNIX_EPOCH).message, "Too long.");
    }

    #[test]
    fn turn_without_an_end_says_how_it_ended() {
        let class = |code, complaint: &str| without_end(code, None, complaint).class;
        assert_eq!(class(None, ""), FailureClass::Killed);
        assert_eq!(class(Some(143), ""), FailureClass::Killed);
        let missing = "Error: thread/resume failed: no rollout found for thread id 01";
        assert_eq!(class(Some(1), missing), FailureClass::SessionMissing);
        let warned = format!("WARNING: proceeding anyway\n{missing}");
        assert_eq!(without_end(Some(1), None, &warned).message, missing);
        assert_eq!(class(Some(2), "error: unexpected argument"), FailureClass::Misconfigured);
        let shown = without_end(Some(1), None, "").message;
        assert_eq!(shown, "Codex exited with code 1 without an answer");
    }
}
