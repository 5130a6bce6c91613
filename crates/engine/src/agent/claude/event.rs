//! One event of Claude Code's output, and what it says that a turn has cost.
//!
//! Every field is read by itself: one that is null or of another type than usual is as good as missing, because the rest of the event may
//! still say how the turn ended.

use raymond_flow::{
    machine::{Spent, Tokens, UsageWindow},
    money::Usd,
    text::excerpt,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{output::tool_words, questions};
use crate::agent::{limit, lines::lenient};

/// One event, with the fields of all kinds of events that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaudeEvent {
    #[serde(rename = "type", deserialize_with = "lenient")]
    pub(super) kind: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) subtype: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) uuid: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) session_id: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) is_error: bool,
    #[serde(deserialize_with = "lenient")]
    pub(super) result: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) errors: Vec<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) api_error_status: Option<u16>,
    #[serde(deserialize_with = "lenient")]
    pub(super) stop_reason: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) terminal_reason: Option<String>,
    /// Of a `result`, in newer versions: the kind of failure that it reports.
    #[serde(deserialize_with = "lenient")]
    pub(super) api_error: Option<String>,
    /// The call of the subagent that the event belongs to, if it belongs to one.
    #[serde(deserialize_with = "lenient")]
    pub(super) parent_tool_use_id: Option<String>,
    /// Of a `result`: the usage of its own turn.
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: ClaudeUsage,
    /// Of a `result`: the cost of the process or of the session so far.
    #[serde(deserialize_with = "lenient")]
    total_cost_usd: Option<f64>,
    /// Of a `result`: the tokens of the process or of the session so far.
    #[serde(rename = "modelUsage")]
    model_usage: Value,
    /// Of a `result`: what was used since the result before it, or since the start of the process.
    model_usage_since_last_result: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(super) permission_denials: Vec<Denial>,
    /// Of a `result`: the structured output, if the model gave one. Its text is then the same, as JSON.
    pub(super) structured_output: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: Option<String>,
    /// Of `init`.
    #[serde(deserialize_with = "lenient")]
    pub(super) claude_code_version: Option<String>,
    #[serde(deserialize_with = "lenient")]
    pub(super) cwd: Option<String>,
    /// Of an `assistant` event: the kind of failure that it reports.
    pub(super) error: Option<Value>,
    #[serde(deserialize_with = "lenient")]
    pub(super) message: Option<ClaudeMessage>,
    #[serde(deserialize_with = "lenient")]
    pub(super) rate_limit_info: Option<ClaudeRateLimit>,
    #[serde(deserialize_with = "lenient")]
    pub(super) retry_delay_ms: f64,
    /// Of an `api_retry`: which retry it is, from 1.
    #[serde(deserialize_with = "lenient")]
    pub(super) attempt: u32,
    /// Of a change of the model: the one that is asked instead, and why in Claude's words.
    #[serde(deserialize_with = "lenient")]
    pub(super) fallback_model: Option<String>,
    pub(super) content: Option<Value>,
    /// Of an `api_retry`: the status of the answer, if there was one.
    #[serde(deserialize_with = "lenient")]
    pub(super) error_status: Option<u16>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct ClaudeUsage {
    #[serde(rename = "input_tokens", deserialize_with = "lenient")]
    pub(super) input: u64,
    #[serde(rename = "output_tokens", deserialize_with = "lenient")]
    pub(super) output: u64,
    #[serde(rename = "cache_read_input_tokens", deserialize_with = "lenient")]
    pub(super) cache_read: u64,
    #[serde(rename = "cache_creation_input_tokens", deserialize_with = "lenient")]
    pub(super) cache_write: u64,
    #[serde(deserialize_with = "lenient")]
    pub(super) cache_creation: CacheCreation,
}

/// What was written to the cache, by how long it stays there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(super) struct CacheCreation {
    #[serde(rename = "ephemeral_1h_input_tokens", deserialize_with = "lenient")]
    pub(super) for_hour: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ModelUsage {
    #[serde(rename = "inputTokens", deserialize_with = "lenient")]
    input: u64,
    #[serde(rename = "outputTokens", deserialize_with = "lenient")]
    output: u64,
    #[serde(rename = "cacheReadInputTokens", deserialize_with = "lenient")]
    cache_read: u64,
    #[serde(rename = "cacheCreationInputTokens", deserialize_with = "lenient")]
    cache_write: u64,
    #[serde(rename = "costUSD", deserialize_with = "lenient")]
    cost_usd: Option<f64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Denial {
    #[serde(rename = "tool_name", deserialize_with = "lenient")]
    pub(super) tool: String,
    #[serde(rename = "tool_use_id", deserialize_with = "lenient")]
    pub(super) id: String,
    #[serde(rename = "tool_input")]
    pub(super) input: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaudeMessage {
    #[serde(deserialize_with = "lenient")]
    pub(super) id: String,
    #[serde(deserialize_with = "lenient")]
    pub(super) model: String,
    pub(super) content: Value,
    /// What the call of the model used, as far as that was known when the message was printed.
    #[serde(deserialize_with = "lenient")]
    pub(super) usage: ClaudeUsage,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaudeRateLimit {
    #[serde(deserialize_with = "lenient")]
    status: String,
    /// In seconds since 1970, after [`limit::seconds`].
    #[serde(deserialize_with = "lenient")]
    pub(super) resets_at: Option<u64>,
    /// Whether turns continue on extra usage.
    #[serde(deserialize_with = "lenient")]
    is_using_overage: bool,
    /// How much of each window is used. Before, an event told of the window that is nearest to its limit only.
    unified_windows: Value,
    #[serde(deserialize_with = "lenient")]
    rate_limit_type: Option<String>,
    #[serde(deserialize_with = "lenient")]
    utilization: Option<f64>,
}

impl ClaudeUsage {
    pub(super) fn tokens(&self) -> Tokens {
        Tokens {
            input: self.input,
            output: self.output,
            cache_read: self.cache_read,
            cache_write: self.cache_write,
        }
    }
}

impl ClaudeMessage {
    /// Whether a model wrote it, and not Claude itself.
    pub(super) fn is_of_a_model(&self) -> bool {
        /// The model that Claude names for messages of its own.
        const SYNTHETIC: &str = "<synthetic>";
        !self.model.is_empty() && self.model != SYNTHETIC
    }
}

impl ClaudeRateLimit {
    pub(super) fn is_reached(&self) -> bool {
        self.status == "rejected" && !self.is_using_overage
    }

    pub(super) fn windows(&self) -> Vec<UsageWindow> {
        let named = self.unified_windows.as_object().into_iter().flatten();
        let told = named.filter_map(|(name, window)| {
            used(name, window["utilization"].as_f64()?, window["resetsAt"].as_u64())
        });
        let told: Vec<_> = told.collect();
        let nearest = || used(self.rate_limit_type.as_ref()?, self.utilization?, self.resets_at);
        if told.is_empty() { nearest().into_iter().collect() } else { told }
    }
}

/// A window in which the provider counts usage, of which this part is used, from 0 to 1.
fn used(name: &str, part: f64, resets_at: Option<u64>) -> Option<UsageWindow> {
    let percent = (part * 100.0).round().clamp(0.0, 1000.0);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked before"
    )]
    let used_percent = percent as u32;
    let resets_at = resets_at.map(limit::seconds);
    part.is_finite().then(|| UsageWindow { name: excerpt(name), used_percent, resets_at })
}

/// The cost of a Claude process or session so far, not per turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Total {
    cost_usd: Usd,
    tokens: Tokens,
    /// Denials that were reported before, by the ids of their tool calls.
    denials: Vec<String>,
}

impl Total {
    /// What was spent since `before`; `None` if the sums do not go on from there.
    pub(super) fn since(&self, before: &Self) -> Option<(Usd, Tokens)> {
        let spent = (self.cost_usd.less(before.cost_usd), less(self.tokens, before.tokens));
        (self.cost_usd >= before.cost_usd).then_some(spent)
    }

    /// Of a session when a process left it.
    pub(super) fn saved(dollars: f64, usage: &Value) -> Self {
        let cost_usd = Usd::from_dollars(dollars).unwrap_or_default();
        Self { cost_usd, tokens: tokens(&usages(usage)), denials: Vec::new() }
    }
}

impl ClaudeEvent {
    /// Whether a hook ended the turn.
    pub(super) fn is_stopped(&self) -> bool {
        self.terminal_reason.as_deref() == Some(questions::STOPPED)
    }

    /// The sum of the cost.
    fn total(&self) -> Usd {
        self.total_cost_usd.and_then(Usd::from_dollars).unwrap_or_default()
    }

    /// Why the cost of this result cannot be true.
    pub(super) fn doubt(&self) -> Option<String> {
        match self.total_cost_usd {
            None => Some("Claude reports no cost".to_owned()),
            Some(dollars) if Usd::from_dollars(dollars).is_none() => {
                Some(format!("Claude reports a cost of {dollars} dollars"))
            }
            Some(_) => None,
        }
    }

    /// What the sums of this result, the first of its process, began with, if it says so.
    pub(super) fn opening(&self) -> Option<Total> {
        let since = self.model_usage_since_last_result.as_ref().filter(|since| since.is_object());
        let since = usages(since?);
        let spent = since.iter().map(|usage| usage.cost_usd).sum::<Option<f64>>()?;
        let cost_usd = self.total().less(Usd::from_dollars(spent)?);
        let tokens = less(tokens(&usages(&self.model_usage)), tokens(&since));
        Some(Total { cost_usd, tokens, denials: Vec::new() })
    }

    /// The cost of this turn, and the sums including it.
    pub(super) fn spent(&self, before: &Total, model: Option<String>) -> (Spent, Total) {
        let (tokens, cost_usd) = (tokens(&usages(&self.model_usage)), self.total());
        let told = |denial: &&Denial| !before.denials.contains(&denial.id);
        let denied = self.permission_denials.iter().filter(told).map(Denial::describe).collect();
        let ids = self.permission_denials.iter().map(|denial| denial.id.clone());
        let total = Total { cost_usd, tokens, denials: ids.collect() };
        // A sum that is lower than before has begun anew.
        let nothing = Total::default();
        let begun = if cost_usd < before.cost_usd { &nothing } else { before };
        let spent = Spent {
            cost_usd: cost_usd.less(begun.cost_usd),
            tokens: less(tokens, begun.tokens),
            model,
            denied,
            ..Spent::default()
        };
        (spent, total)
    }
}

/// What was used of each model.
fn usages(by_model: &Value) -> Vec<ModelUsage> {
    let usages = by_model.as_object().into_iter().flat_map(Map::values);
    usages.filter_map(|usage| ModelUsage::deserialize(usage).ok()).collect()
}

fn tokens(usages: &[ModelUsage]) -> Tokens {
    let mut tokens = Tokens::default();
    for usage in usages {
        tokens += Tokens {
            input: usage.input,
            output: usage.output,
            cache_read: usage.cache_read,
            cache_write: usage.cache_write,
        };
    }
    tokens
}

fn less(tokens: Tokens, before: Tokens) -> Tokens {
    Tokens {
        input: tokens.input.saturating_sub(before.input),
        output: tokens.output.saturating_sub(before.output),
        cache_read: tokens.cache_read.saturating_sub(before.cache_read),
        cache_write: tokens.cache_write.saturating_sub(before.cache_write),
    }
}

/// Whether the sums in results of this version include what the session had cost before its process.
pub(super) fn counts_by_session(version: &str) -> bool {
    const SINCE: [u64; 3] = [2, 1, 277];
    let numbers: Result<Vec<u64>, _> = version.split('.').map(str::parse).collect();
    numbers.is_ok_and(|numbers| numbers[..] >= SINCE[..])
}

impl Denial {
    fn describe(&self) -> String {
        let what = tool_words(&self.input);
        if what.is_empty() { self.tool.clone() } else { format!("{}: {what}", self.tool) }
    }
}
