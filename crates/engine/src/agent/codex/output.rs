//! Parses the output of Codex: one JSON object per line.
//!
//! A turn has succeeded if `turn.completed` was printed; its answer is the last message before that. The usage that
//! Codex reports is that of the whole thread, and a fork begins with the usage of its parent, so the usage of a turn is
//! the difference to the total before it.

use std::io;

use raymond_flow::{
    id::SessionId,
    machine::{FailureClass, Spent, Tokens, TurnFailure},
    turn::Outcome,
};
use serde::{Deserialize, Serialize};

use super::failure;
use crate::agent::{
    Prices, TurnEnd, TurnOutput,
    limit::said_at,
    lines::{complaint, each_line, lenient, object},
};

/// One event, with the fields of all kinds of events that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CodexEvent {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    thread_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) item: CodexItem,
    #[serde(deserialize_with = "lenient")]
    usage: CodexUsage,
    /// Of `turn.failed`.
    #[serde(deserialize_with = "lenient")]
    error: CodexError,
    /// Of `error`: a warning, or why the turn is about to fail.
    #[serde(deserialize_with = "lenient")]
    pub(super) message: String,
}

/// A part of a turn: a message, a command, a change of files.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CodexItem {
    #[serde(deserialize_with = "lenient")]
    pub(super) id: String,
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) text: String,
    /// Of a warning.
    #[serde(deserialize_with = "lenient")]
    pub(super) message: String,
    /// Of a `command_execution`.
    #[serde(deserialize_with = "lenient")]
    pub(super) command: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) aggregated_output: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) exit_code: Option<i32>,
    #[serde(deserialize_with = "lenient")]
    pub(super) status: String,
    /// Of a `file_change`.
    #[serde(deserialize_with = "lenient")]
    pub(super) changes: Vec<FileChange>,
    /// Of an `mcp_tool_call`.
    #[serde(deserialize_with = "lenient")]
    pub(super) server: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) tool: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) arguments: serde_json::Value,
    /// Of a `web_search`.
    #[serde(deserialize_with = "lenient")]
    pub(super) query: String,
}

/// A file that Codex changed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FileChange {
    #[serde(deserialize_with = "lenient")]
    pub(super) path: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) kind: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct CodexError {
    #[serde(deserialize_with = "lenient")]
    message: String,
}

/// The tokens of a thread so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the names that Codex prints")]
struct CodexUsage {
    /// Includes those that were read from a cache.
    #[serde(deserialize_with = "lenient")]
    input_tokens: u64,
    #[serde(deserialize_with = "lenient")]
    cached_input_tokens: u64,
    /// Includes those that the model spent on thinking.
    #[serde(deserialize_with = "lenient")]
    output_tokens: u64,
}

impl CodexUsage {
    /// What was used since `before`. A count that is lower than before has begun anew.
    fn since(self, before: Self) -> Tokens {
        let before = if self.input_tokens < before.input_tokens { Self::default() } else { before };
        let input = self.input_tokens - before.input_tokens;
        let cached = self.cached_input_tokens.saturating_sub(before.cached_input_tokens);
        Tokens {
            input: input.saturating_sub(cached),
            output: self.output_tokens.saturating_sub(before.output_tokens),
            cache_read: cached,
            cache_write: 0,
        }
    }
}

/// The parts of a turn's output that decide its outcome.
#[derive(Debug, Default)]
struct CodexEvents {
    thread: Option<SessionId>,
    /// Whether Codex began the turn. Before that, its thread does not have the prompt, and perhaps no file.
    has_begun: bool,
    answer: Option<String>,
    usage: Option<CodexUsage>,
    failure: Option<String>,
    /// The last error that was not yet a failure.
    trouble: Option<String>,
}

impl CodexEvents {
    fn see(&mut self, event: CodexEvent) {
        match event.kind.as_str() {
            "thread.started" => {
                self.thread = event.thread_id.and_then(|id| SessionId::reported(&id).ok());
            }
            "turn.started" => self.has_begun = true,
            "item.completed" if event.item.kind == "agent_message" => {
                self.answer = Some(event.item.text);
            }
            "turn.completed" => self.usage = Some(event.usage),
            "turn.failed" => self.failure = Some(event.error.message),
            "error" => self.trouble = Some(event.message),
            _ => {}
        }
    }
}

pub(super) fn outcome(output: &TurnOutput<'_>, prices: Option<&Prices>) -> io::Result<TurnEnd> {
    let mut events = CodexEvents::default();
    each_line(output.stdout, output.stdout_bytes, |line| {
        if let Some(event) = object(line) {
            events.see(event);
        }
    })?;
    let CodexEvents { thread, has_begun, answer, usage, failure, trouble } = events;
    let outcome = match (answer, usage, failure) {
        (Some(text), Some(_), _) => Outcome::Reply { text },
        (None, Some(_), _) => Outcome::Failed(TurnFailure {
            class: FailureClass::Other,
            message: "Codex ended its turn without a message".to_owned(),
        }),
        (_, None, Some(message)) => {
            Outcome::Failed(failure::told(&message, said_at(output.stdout)))
        }
        (_, None, None) => {
            let complaint = complaint(output.stderr)?;
            Outcome::Failed(failure::without_end(output.exit_code, trouble.as_deref(), &complaint))
        }
    };
    let before = output.before.and_then(|text| serde_json::from_str(text).ok());
    let tokens = usage.map(|usage| usage.since(before.unwrap_or_default())).unwrap_or_default();
    // Without a cost, a run could spend without a limit.
    let is_unpriced = prices.is_some() && tokens == Tokens::default();
    let is_doubted = is_unpriced && matches!(outcome, Outcome::Reply { .. });
    let spent = Spent {
        doubt: is_doubted.then(|| "Codex reports no tokens".to_owned()),
        cost_usd: prices.map(|prices| prices.cost(&tokens)).unwrap_or_default(),
        tokens,
        session: thread.filter(|_| has_begun),
        ..Spent::default()
    };
    let total = usage.and_then(|usage| serde_json::to_string(&usage).ok());
    Ok(TurnEnd { outcome, spent, total })
}

#[cfg(test)]
mod tests;
