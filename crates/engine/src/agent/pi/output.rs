//! Parses the output of pi: one JSON object per line.
//!
//! pi exits with 0 even if the model failed. The outcome is in the last message of the model before `agent_settled`: its
//! stop reason says whether it is an answer. Every message has its own cost.

use std::io;

use raymond_flow::{
    id::SessionId,
    machine::{FailureClass, Spent, Tokens, TurnFailure},
    money::Usd,
    text::beginning,
    turn::Outcome,
};
use serde::Deserialize;

use crate::agent::{
    Prices, TurnEnd, TurnOutput,
    limit::said_at,
    lines::{complaint, each_line, lenient, object},
    wording,
};

/// The most that is shown of a message about a failure.
const MESSAGE_CHARS_MAX: usize = 400;

/// One event, with the fields of all kinds of events that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PiEvent {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    /// Of `session`.
    #[serde(deserialize_with = "lenient")]
    id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) message: PiMessage,
    /// Of the execution of a tool.
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_call_id: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool_name: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) args: serde_json::Value,
    #[serde(deserialize_with = "lenient")]
    pub(super) result: PiResult,
    #[serde(deserialize_with = "lenient")]
    pub(super) is_error: bool,
    /// Of `auto_retry_start`.
    #[serde(deserialize_with = "lenient")]
    pub(super) error_message: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PiMessage {
    #[serde(deserialize_with = "lenient")]
    pub(super) role: String,
    #[serde(deserialize_with = "lenient")]
    content: PiContent,
    #[serde(deserialize_with = "lenient")]
    usage: PiUsage,
    #[serde(deserialize_with = "lenient")]
    pub(super) stop_reason: StopReason,
    #[serde(deserialize_with = "lenient")]
    error_message: Option<String>,
    #[serde(deserialize_with = "lenient")]
    model: Option<String>,
}

/// Why the model stopped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum StopReason {
    /// It has answered.
    Stop,
    /// It wrote as much as it may.
    Length,
    ToolUse,
    Error,
    Aborted,
    #[default]
    #[serde(other)]
    Other,
}

/// A text, or a list of blocks.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum PiContent {
    Text(String),
    Blocks(Vec<PiBlock>),
}

impl Default for PiContent {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PiBlock {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) text: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) thinking: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PiResult {
    #[serde(deserialize_with = "lenient")]
    pub(super) content: Vec<PiBlock>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PiUsage {
    #[serde(deserialize_with = "lenient")]
    input: u64,
    #[serde(deserialize_with = "lenient")]
    output: u64,
    #[serde(deserialize_with = "lenient")]
    cache_read: u64,
    #[serde(deserialize_with = "lenient")]
    cache_write: u64,
    #[serde(deserialize_with = "lenient")]
    cost: PiCost,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PiCost {
    #[serde(deserialize_with = "lenient")]
    total: Option<f64>,
}

impl PiMessage {
    pub(super) fn blocks(&self) -> &[PiBlock] {
        match &self.content {
            PiContent::Text(_) => &[],
            PiContent::Blocks(blocks) => blocks,
        }
    }

    /// Its texts, without thoughts and tools.
    pub(super) fn text(&self) -> String {
        match &self.content {
            PiContent::Text(text) => text.clone(),
            PiContent::Blocks(blocks) => {
                let texts = blocks.iter().filter(|block| block.kind == "text");
                texts.map(|block| block.text.as_str()).collect()
            }
        }
    }
}

pub(super) fn outcome(output: &TurnOutput<'_>, prices: Option<&Prices>) -> io::Result<TurnEnd> {
    let (mut spent, mut is_settled) = (Spent::default(), false);
    let mut last: Option<PiMessage> = None;
    each_line(output.stdout, output.stdout_bytes, |line| {
        let Some(event) = object::<PiEvent>(line) else { return };
        match event.kind.as_str() {
            "session" => spent.session = event.id.and_then(|id| SessionId::reported(&id).ok()),
            "message_end" if event.message.role == "assistant" => {
                let PiUsage { input, output, cache_read, cache_write, cost } = &event.message.usage;
                match (cost.total, cost.total.and_then(Usd::from_dollars)) {
                    (_, Some(own)) => spent.cost_usd += own,
                    (Some(wrong), None) => {
                        spent.doubt = Some(format!("pi reports a cost of {wrong} dollars"));
                    }
                    (None, None) if matches!(event.message.stop_reason, StopReason::Stop) => {
                        spent.doubt = Some("pi reports no cost".to_owned());
                    }
                    (None, None) => {}
                }
                spent.tokens += Tokens {
                    input: *input,
                    output: *output,
                    cache_read: *cache_read,
                    cache_write: *cache_write,
                };
                spent.model = event.message.model.clone().or(spent.model.take());
                last = Some(event.message);
            }
            "agent_settled" => is_settled = true,
            _ => {}
        }
    })?;
    if let Some(prices) = prices {
        let has_answered =
            last.as_ref().is_some_and(|it| matches!(it.stop_reason, StopReason::Stop));
        let is_unpriced = has_answered && spent.tokens == Tokens::default();
        spent.doubt = is_unpriced.then(|| "pi reports no tokens".to_owned());
        spent.cost_usd = prices.cost(&spent.tokens);
    }
    let failed = |class, message: String| Outcome::Failed(TurnFailure { class, message });
    let outcome = match last {
        Some(message) if is_settled => match message.stop_reason {
            StopReason::Stop => Outcome::Reply { text: message.text() },
            StopReason::Length => failed(
                FailureClass::AnswerTooLong,
                "the answer was longer than the model may write".to_owned(),
            ),
            _ => {
                let why = message.error_message.unwrap_or_else(|| "pi gave no answer".to_owned());
                let class = wording::class(&why, said_at(output.stdout));
                failed(class, beginning(why.trim(), MESSAGE_CHARS_MAX))
            }
        },
        _ => Outcome::Failed(without_end(output.exit_code, &complaint(output.stderr)?)),
    };
    Ok(TurnEnd { outcome, spent, total: None })
}

/// The failure of a turn that pi did not end: it could not begin, or was killed.
fn without_end(exit_code: Option<i32>, complaint: &str) -> TurnFailure {
    let failed = |class, message: String| TurnFailure { class, message };
    let lines: Vec<_> = complaint.lines().filter(|line| !line.starts_with("Warning:")).collect();
    let words = beginning(lines.join("\n").trim(), MESSAGE_CHARS_MAX);
    match exit_code {
        None => failed(FailureClass::Killed, "pi was killed".to_owned()),
        Some(129 | 130 | 143) => {
            failed(FailureClass::Killed, "pi was ended by a signal".to_owned())
        }
        Some(_) if words.starts_with("Error: Model ") => failed(FailureClass::UnknownModel, words),
        Some(_) if words.contains("No session found") => {
            failed(FailureClass::SessionMissing, words)
        }
        Some(code) => {
            let message = match words.as_str() {
                "" => format!("pi exited with code {code} without an answer"),
                words => format!("pi exited with code {code} without an answer: {words}"),
            };
            let class = match wording::class(&words, jiff::Timestamp::UNIX_EPOCH) {
                FailureClass::Other if words.starts_with("Error:") => FailureClass::Misconfigured,
                class => class,
            };
            failed(class, message)
        }
    }
}

#[cfg(test)]
mod tests;
