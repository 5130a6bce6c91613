//! Parses the output of Claude Code: one JSON object per line.
//!
//! The outcome is in the `result` event that follows the turn's own prompt, in its `is_error` and its text.
//! Neither its subtype nor the exit code can be trusted: an API error is a `success`, and Claude exits with 0
//! when it was interrupted without any answer. Results before and after that belong to turns that Claude began
//! by itself, for example at the end of a background task; their cost counts, because every result contains the
//! sum over the whole process.
//!
//! Where that sum begins depends on the version: at zero, or since 2.1.277 at what the transcript says that the session had cost when a
//! process last left it. Since 2.1.309 a result also says what was spent since the one before, and so where the sum began.

use std::{collections::BTreeMap, io, path::Path};

use jiff::Timestamp;
use raymond_flow::{
    id::SessionId,
    machine::{FailureClass, Spent, Tokens, TurnFailure, UsageWindow},
    money::Usd,
    text::excerpt,
    turn::{Outcome, OwnQuestion},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{command, failure, permits, questions, transcript};
use crate::agent::{
    Activity, TurnEnd, TurnOutput,
    limit::{self, said_at},
    lines::{complaint, each_line},
};

/// The model that Claude reports for messages that it generates itself.
const SYNTHETIC: &str = "<synthetic>";

/// The tool with which the model gives its structured output.
const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// The kinds of events that a turn cannot do without.
const KINDS: [&str; 4] = ["system", "user", "assistant", "result"];

/// One event, with the fields of all kinds of events that matter here.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ClaudeEvent {
    #[serde(rename = "type")]
    kind: String,
    pub(super) subtype: String,
    uuid: Option<String>,
    session_id: Option<String>,
    pub(super) is_error: bool,
    pub(super) result: Option<String>,
    pub(super) errors: Vec<String>,
    pub(super) api_error_status: Option<u16>,
    pub(super) stop_reason: Option<String>,
    pub(super) terminal_reason: Option<String>,
    /// Of a `result`, in newer versions: the kind of failure that it reports.
    pub(super) api_error: Option<String>,
    /// The call of the subagent that the event belongs to, if it belongs to one.
    parent_tool_use_id: Option<String>,
    /// Of a `result`: the usage of its own turn.
    usage: ClaudeUsage,
    /// Of a `result`: the cost of the process or of the session so far.
    total_cost_usd: Option<f64>,
    /// Of a `result`: the tokens of the process or of the session so far.
    #[serde(rename = "modelUsage")]
    model_usage: BTreeMap<String, ModelUsage>,
    /// Of a `result`: what was used since the result before it, or since the start of the process.
    model_usage_since_last_result: Option<BTreeMap<String, ModelUsage>>,
    permission_denials: Vec<Denial>,
    /// Of a `result`: the structured output, if the model gave one. Its text is then the same, as JSON.
    structured_output: Option<serde_json::Value>,
    model: Option<String>,
    /// Of `init`.
    claude_code_version: Option<String>,
    cwd: Option<String>,
    /// Of an `assistant` event: the kind of failure that it reports.
    error: Option<serde_json::Value>,
    message: Option<ClaudeMessage>,
    rate_limit_info: Option<ClaudeRateLimit>,
    retry_delay_ms: f64,
    /// Of an `api_retry`: which retry it is, from 1.
    attempt: u32,
    /// Of a change of the model: the one that is asked instead, and why in Claude's words.
    fallback_model: Option<String>,
    content: Option<serde_json::Value>,
    /// Of an `api_retry`: the status of the answer, if there was one.
    error_status: Option<u16>,
}

#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct ClaudeUsage {
    #[serde(rename = "input_tokens")]
    input: u64,
    #[serde(rename = "output_tokens")]
    output: u64,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: u64,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ModelUsage {
    #[serde(rename = "inputTokens")]
    input: u64,
    #[serde(rename = "outputTokens")]
    output: u64,
    #[serde(rename = "cacheReadInputTokens")]
    cache_read: u64,
    #[serde(rename = "cacheCreationInputTokens")]
    cache_write: u64,
    #[serde(rename = "costUSD")]
    cost_usd: f64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Denial {
    #[serde(rename = "tool_name")]
    tool: String,
    #[serde(rename = "tool_use_id")]
    id: String,
    #[serde(rename = "tool_input")]
    input: serde_json::Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ClaudeMessage {
    id: String,
    /// [`SYNTHETIC`] if Claude generated the message itself.
    model: String,
    content: serde_json::Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClaudeRateLimit {
    status: String,
    /// In seconds since 1970, after [`limit::seconds`].
    pub(super) resets_at: Option<u64>,
    /// Whether turns continue on extra usage.
    is_using_overage: bool,
    /// How much of each window is used. Before, an event told of the window that is nearest to its limit only.
    unified_windows: BTreeMap<String, ClaudeWindow>,
    rate_limit_type: Option<String>,
    utilization: Option<f64>,
}

/// A window in which the provider counts usage.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaudeWindow {
    /// The part of it that is used, from 0 to 1.
    utilization: Option<f64>,
    resets_at: Option<u64>,
}

impl ClaudeRateLimit {
    fn windows(&self) -> Vec<UsageWindow> {
        let only = ClaudeWindow { utilization: self.utilization, resets_at: self.resets_at };
        let nearest = self.rate_limit_type.as_ref().map(|name| (name, &only));
        let nearest = nearest.filter(|_| self.unified_windows.is_empty());
        let told = self.unified_windows.iter().chain(nearest);
        told.filter_map(|(name, window)| window.used(name)).collect()
    }
}

impl ClaudeWindow {
    fn used(&self, name: &str) -> Option<UsageWindow> {
        let percent = (self.utilization? * 100.0).round().clamp(0.0, 1000.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the range is checked before"
        )]
        let used_percent = percent as u32;
        let resets_at = self.resets_at.map(limit::seconds);
        Some(UsageWindow { name: excerpt(name), used_percent, resets_at })
    }
}

/// The cost of a Claude process or session so far, not per turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Total {
    cost_usd: Usd,
    tokens: Tokens,
    /// Denials that were reported before, by the ids of their tool calls.
    denials: Vec<String>,
}

/// A `result` event.
#[derive(Debug)]
struct ClaudeResult {
    event: ClaudeEvent,
    /// Whether a model answered. Otherwise a hook that blocks the prompt, or a command of Claude's, would
    /// look like an answer.
    is_asked: bool,
}

/// The parts of a turn's output that decide its outcome.
#[derive(Debug, Default)]
pub(super) struct ClaudeEvents {
    /// Whether a line was of a known kind; `None` without any line.
    is_understood: Option<bool>,
    /// The id of the turn's prompt, until Claude begins it.
    waits_for: Option<String>,
    /// The ids of messages that Claude could be given during the turn, and of those that it took.
    told: Vec<String>,
    heard: Vec<String>,
    /// The result of the turn.
    answer: Option<ClaudeResult>,
    /// The last result of another turn: after the answer, or while there is none.
    other: Option<ClaudeResult>,
    /// Whether a model has answered since the last result.
    has_spoken: bool,
    /// What the last reply of the model asks with Claude's own tool, and the id of that reply: it has an event for
    /// each of its blocks.
    questions: (String, Vec<OwnQuestion>),
    /// What the model has said since it last used a tool, other than the one for its structured output: the final message
    /// of a turn with such an output.
    said: String,
    /// The calls of the last reply that needed a permission, by their ids.
    denied: Vec<String>,
    /// The kind of failure in the last `assistant` event.
    pub(super) error: Option<String>,
    /// The usage limit, if it is reached.
    pub(super) limit: Option<ClaudeRateLimit>,
    /// How much of the provider's limits is used.
    windows: Vec<UsageWindow>,
    /// How long the provider asked to wait (`retry-after`), as Claude last reported it.
    pub(super) retry_after_ms: Option<u64>,
    /// When Claude wrote the last line: needed to interpret a time of day without a date.
    pub(super) said_at: Timestamp,
    /// What the first result says of where its sums began.
    opening: Option<Total>,
    model: Option<String>,
    version: Option<String>,
    /// The directory of the turn.
    cwd: Option<String>,
}

pub(super) fn outcome(output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
    // A process prints nothing before its first prompt, so its first result is the answer to that. Only later
    // turns depend on Claude repeating the prompt.
    let waits_for = if output.is_first { None } else { command::prompt_id(output.stdin) };
    let mut events = ClaudeEvents::read(output, waits_for)?;
    let asked = events.asked();
    let outcome = match events.verdict() {
        Some(_) if !asked.is_empty() => Outcome::Asks { questions: asked },
        Some(ClaudeResult {
            event: ClaudeEvent { is_error: false, structured_output: Some(_), .. },
            is_asked: true,
        }) => Outcome::Reply { text: events.said.clone() },
        Some(ClaudeResult {
            event: ClaudeEvent { is_error: false, result: Some(text), .. },
            is_asked: true,
        }) => Outcome::Reply { text: text.clone() },
        Some(closing) => Outcome::Failed(failure::of(&events, &closing.event)),
        None => {
            let complaint = complaint(output.stderr)?;
            let is_strange = events.is_understood == Some(false);
            Outcome::Failed(failure::without_result(output.exit_code, &complaint, is_strange))
        }
    };
    if let (Outcome::Asks { .. }, Some(closing)) = (&outcome, &mut events.answer) {
        // They are not denied yet.
        closing.event.permission_denials.retain(|denial| !events.denied.contains(&denial.id));
    }
    let before = events.before(output);
    let heard = std::mem::take(&mut events.heard);
    let (mut spent, total) = match events.other.as_ref().or(events.answer.as_ref()) {
        Some(last) => {
            let (spent, total) = last.event.spent(&before, events.model.clone());
            (spent, serde_json::to_string(&total).ok())
        }
        None => (Spent::default(), None),
    };
    (spent.heard, spent.windows) = (heard, std::mem::take(&mut events.windows));
    spent.version = events.version.map(|version| format!("claude {}", excerpt(&version)));
    let last = events.other.as_ref().or(events.answer.as_ref());
    spent.doubt = last.filter(|last| last.is_asked).and_then(|last| last.event.doubt());
    // Only if there is an answer: the result of a turn that could not begin has a meaningless id.
    if let (Outcome::Reply { .. } | Outcome::Asks { .. }, Some(closing)) =
        (&outcome, &events.answer)
    {
        spent.output = closing.event.structured_output.as_ref().map(ToString::to_string);
        let reported = closing.event.session_id.as_deref();
        spent.session = reported.and_then(|id| SessionId::reported(id).ok());
    }
    Ok(TurnEnd { outcome, spent, total })
}

impl ClaudeEvents {
    /// Reads the output completely: later results add cost.
    fn read(output: &TurnOutput<'_>, waits_for: Option<String>) -> io::Result<Self> {
        let (said_at, told) = (said_at(output.stdout), output.told.to_vec());
        let mut events = Self { waits_for, told, said_at, ..Self::default() };
        each_line(output.stdout, output.stdout_bytes, |line| {
            let event = serde_json::from_slice::<ClaudeEvent>(line).unwrap_or_default();
            let is_known = KINDS.contains(&event.kind.as_str());
            events.is_understood = Some(is_known || events.is_understood.unwrap_or_default());
            events.see(event);
        })?;
        Ok(events)
    }

    /// What the sums of its results contained before the turn.
    fn before(&self, output: &TurnOutput<'_>) -> Total {
        let counts_by_session = || self.version.as_deref().is_some_and(counts_by_session);
        let known = match (output.before, &self.opening) {
            (_, Some(opening)) if output.is_first => Some(opening.clone()),
            // The transcript that the process goes on from.
            (Some(path), None) if output.is_first && counts_by_session() => {
                transcript::saved_total(path.as_ref(), command::prompt_id(output.stdin).as_deref())
            }
            (Some(total), _) if !output.is_first => serde_json::from_str(total).ok(),
            _ => None,
        };
        known.unwrap_or_default()
    }

    /// The result that decides the outcome of the turn. If Claude did not begin the prompt, that is a
    /// result that says why: an error, or a hook's message. A result of another turn is not an answer to
    /// this prompt.
    fn verdict(&self) -> Option<&ClaudeResult> {
        let says_why = |other: &&ClaudeResult| other.event.is_error || !other.is_asked;
        self.answer.as_ref().or_else(|| self.other.as_ref().filter(says_why))
    }

    /// What a person is asked, if a hook ended the turn for that. Claude's own questions come first: it has to use a
    /// tool again anyway, and one question has choices.
    fn asked(&self) -> Vec<OwnQuestion> {
        let Some(ClaudeResult { event, is_asked: true }) = self.verdict() else {
            return Vec::new();
        };
        if event.is_error || !event.is_stopped() {
            return Vec::new();
        }
        if !self.questions.1.is_empty() {
            return self.questions.1.clone();
        }
        let is_own = |denial: &&Denial| self.denied.contains(&denial.id);
        let first = event.permission_denials.iter().find(is_own);
        first
            .map(|denial| permits::question(&denial.tool, &denial.input, self.cwd.as_deref()))
            .into_iter()
            .collect()
    }

    fn see(&mut self, event: ClaudeEvent) {
        if event.kind == "result" {
            // Not the cost: that is the sum over all turns of a process.
            let is_asked = self.has_spoken || event.usage != ClaudeUsage::default();
            self.has_spoken = false;
            if self.answer.is_none() && self.other.is_none() {
                self.opening = event.opening();
            }
            self.end(ClaudeResult { event, is_asked });
            return;
        }
        if self.takes_message(&event) {
            // What it said before is no answer any more: the turn goes on.
            self.other = self.answer.take().or(self.other.take());
            self.said.clear();
        } else if self.answer.is_none() {
            self.see_work(event);
        }
    }

    /// Whether an event says that Claude has taken a message that it was given during the turn.
    fn takes_message(&mut self, event: &ClaudeEvent) -> bool {
        let Some(id) = event.uuid.as_ref().filter(|_| event.kind == "user") else { return false };
        let is_taken = self.told.contains(id) && !self.heard.contains(id);
        if is_taken {
            self.heard.push(id.clone());
        }
        is_taken
    }

    fn end(&mut self, closing: ClaudeResult) {
        if self.answer.is_none() && self.waits_for.is_none() {
            self.other = None;
            self.answer = Some(closing);
        } else {
            self.other = Some(closing);
        }
    }

    /// Collects the final message.
    fn hear(&mut self, content: &serde_json::Value) {
        for block in content.as_array().into_iter().flatten() {
            if let Some(text) = block["text"].as_str() {
                let gap = if self.said.is_empty() { "" } else { "\n\n" };
                self.said.push_str(gap);
                self.said.push_str(text);
            } else if block["type"] == "tool_use" && block["name"] != STRUCTURED_OUTPUT {
                self.said.clear();
            }
        }
    }

    fn see_work(&mut self, event: ClaudeEvent) {
        match event.kind.as_str() {
            // Claude repeats a prompt when it begins it.
            "user" if event.uuid.is_some() && event.uuid == self.waits_for => {
                self.waits_for = None;
                self.said.clear();
            }
            "user" if event.parent_tool_use_id.is_none() => {
                let content = event.message.unwrap_or_default().content;
                let blocks = content.as_array().into_iter().flatten();
                let denied = blocks.filter(|block| {
                    block["content"].as_str().is_some_and(|text| text.starts_with(permits::DENIED))
                });
                let ids = denied.filter_map(|block| block["tool_use_id"].as_str());
                self.denied.extend(ids.map(str::to_owned));
            }
            "assistant" => {
                let ClaudeMessage { id, model, content } = event.message.unwrap_or_default();
                if event.parent_tool_use_id.is_none() {
                    if self.questions.0 != id {
                        self.questions = (id, Vec::new());
                        self.denied.clear();
                    }
                    self.questions.1.extend(questions::asked(&content));
                    self.hear(&content);
                }
                self.has_spoken |= !model.is_empty() && model != SYNTHETIC;
                self.error = event.error.and_then(|error| error.as_str().map(str::to_owned));
            }
            "system" if event.subtype == "init" => {
                (self.model, self.version) = (event.model, event.claude_code_version);
                self.cwd = event.cwd;
            }
            "system" if event.subtype == "api_retry" => {
                let told = told_wait(event.retry_delay_ms, event.attempt);
                self.retry_after_ms = told.or(self.retry_after_ms);
            }
            "system" if event.fallback_model.is_some() => self.model = event.fallback_model,
            "rate_limit_event" => {
                let mut info = event.rate_limit_info.unwrap_or_default();
                self.windows = info.windows();
                info.resets_at = info.resets_at.map(limit::seconds);
                let is_reached = info.status == "rejected" && !info.is_using_overage;
                self.limit = is_reached.then_some(info);
            }
            _ => {}
        }
    }
}

/// How long the provider asked to wait, in milliseconds, if Claude waits so long before retry number `attempt` because
/// of that. Claude tells only how long it waits: what the provider asked for, in newer versions with up to a quarter more,
/// or a time of its own, which begins at half a second and doubles with each retry, with up to a quarter more.
fn told_wait(ms: f64, attempt: u32) -> Option<u64> {
    const OWN_MS: f64 = 500.0;
    // Between what Claude may add to its own times and what it may add to a second that the provider asks for.
    const MARGIN: f64 = 1.5;
    // A day. Claude itself waits for at most a minute.
    const SECONDS_MAX: f64 = 86_400.0;
    let own = OWN_MS * f64::from(attempt.saturating_sub(1)).exp2();
    let seconds = ms / 1000.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the range is checked before"
    )]
    let whole = || seconds as u64 * 1000;
    ((1.0..=SECONDS_MAX).contains(&seconds) && ms > own * MARGIN).then(whole)
}

impl Total {
    /// Of a session when a process left it.
    pub(super) fn saved(dollars: f64, usage: &BTreeMap<String, ModelUsage>) -> Self {
        let cost_usd = Usd::from_dollars(dollars).unwrap_or_default();
        Self { cost_usd, tokens: tokens(usage), denials: Vec::new() }
    }
}

impl ClaudeEvent {
    /// Whether a hook ended the turn.
    fn is_stopped(&self) -> bool {
        self.terminal_reason.as_deref() == Some(questions::STOPPED)
    }

    /// The sum of the cost.
    fn total(&self) -> Usd {
        self.total_cost_usd.and_then(Usd::from_dollars).unwrap_or_default()
    }

    /// Why the cost of this result cannot be true.
    fn doubt(&self) -> Option<String> {
        match self.total_cost_usd {
            None => Some("Claude reports no cost".to_owned()),
            Some(dollars) if Usd::from_dollars(dollars).is_none() => {
                Some(format!("Claude reports a cost of {dollars} dollars"))
            }
            Some(_) => None,
        }
    }

    /// What the sums of this result, the first of its process, began with, if it says so.
    fn opening(&self) -> Option<Total> {
        let since = self.model_usage_since_last_result.as_ref()?;
        let spent = since.values().map(|usage| usage.cost_usd).sum();
        let cost_usd = self.total().less(Usd::from_dollars(spent).unwrap_or_default());
        let tokens = less(tokens(&self.model_usage), tokens(since));
        Some(Total { cost_usd, tokens, denials: Vec::new() })
    }

    /// The cost of this turn, and the sums including it.
    fn spent(&self, before: &Total, model: Option<String>) -> (Spent, Total) {
        let (tokens, cost_usd) = (tokens(&self.model_usage), self.total());
        let told = |denial: &&Denial| !before.denials.contains(&denial.id);
        let denied = self.permission_denials.iter().filter(told).map(Denial::describe).collect();
        let ids = self.permission_denials.iter().map(|denial| denial.id.clone());
        let total = Total { cost_usd, tokens, denials: ids.collect() };
        let spent = Spent {
            cost_usd: cost_usd.less(before.cost_usd),
            tokens: less(tokens, before.tokens),
            model,
            denied,
            ..Spent::default()
        };
        (spent, total)
    }
}

fn tokens(usage: &BTreeMap<String, ModelUsage>) -> Tokens {
    let mut tokens = Tokens::default();
    for usage in usage.values() {
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
fn counts_by_session(version: &str) -> bool {
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

/// What separates a session from one of its messages in the id of a session as it was after that message.
pub(super) const BOOKMARK: char = '@';

/// The id of `session` as it was after the turn that printed the first `bytes` of `stdout`: a kept process goes on writing.
pub(super) fn bookmark(session: &SessionId, stdout: &Path, bytes: u64) -> Option<SessionId> {
    let mut last = None;
    let read = each_line(stdout, bytes, |line| {
        if let Ok(event) = serde_json::from_slice::<ClaudeEvent>(line)
            && event.kind == "assistant"
            && event.parent_tool_use_id.is_none()
        {
            last = event.uuid;
        }
    });
    let message = read.ok().and(last).and_then(|id| Uuid::parse_str(&id).ok())?;
    // A session that is itself a branch that was never opened has one already.
    Some(SessionId::new(format!("{}{BOOKMARK}{message}", without_bookmark(session))))
}

/// The session that Claude knows.
pub(super) fn without_bookmark(session: &SessionId) -> SessionId {
    SessionId::new(session.as_str().split(BOOKMARK).next().unwrap_or_default())
}

/// A short description of what a tool is used on: the most informative field of its input.
pub(super) fn tool_words(input: &serde_json::Value) -> String {
    const TELLING: [&str; 8] =
        ["command", "file_path", "path", "pattern", "url", "query", "description", "prompt"];
    let telling = TELLING.iter().find_map(|name| input.get(name)?.as_str());
    excerpt(telling.unwrap_or_default())
}

/// What a line says about the running turn.
pub(super) fn activity(line: &[u8]) -> Option<Activity> {
    let event: ClaudeEvent = serde_json::from_slice(line).ok()?;
    match (event.kind.as_str(), event.subtype.as_str()) {
        ("assistant", _) => {
            let block = event.message?.content.get(0)?.clone();
            let field = |name: &str| Some(block.get(name)?.as_str()?.to_owned());
            match field("type")?.as_str() {
                "text" => Some(Activity::Says(excerpt(field("text")?.trim()))),
                "tool_use" => {
                    let what = block.get("input").map(tool_words).unwrap_or_default();
                    Some(Activity::Uses { tool: field("name")?, what })
                }
                _ => None,
            }
        }
        ("system", "api_retry") => {
            let why = retry_words(&event);
            let seconds = event.retry_delay_ms / 1000.0;
            Some(Activity::Waits(format!("{why}; Claude tries again in {seconds:.0} s")))
        }
        // A provider that is busy, or a refusal: the turn goes on with another model, which is paid for.
        ("system", _) if event.fallback_model.is_some() => {
            let model = event.fallback_model.unwrap_or_default();
            let why = event.content.as_ref().and_then(|content| content.as_str());
            let why = why.filter(|why| !why.is_empty()).unwrap_or(&event.subtype);
            Some(Activity::Waits(format!("goes on with {model}: {}", excerpt(why))))
        }
        _ => None,
    }
}

/// Why Claude tries a request again, for people. Its own word for a request without any answer is `unknown`.
fn retry_words(event: &ClaudeEvent) -> String {
    let code = event.error.as_ref().and_then(|error| error.as_str()).unwrap_or("unknown");
    match (code, event.error_status) {
        ("unknown", None) => "the API cannot be reached".to_owned(),
        ("unknown", Some(status)) => format!("the API answers with status {status}"),
        (code, _) => code.replace('_', " "),
    }
}

/// A failure of this kind with this message.
pub(super) fn failed(class: FailureClass, message: impl Into<String>) -> TurnFailure {
    TurnFailure { class, message: message.into() }
}

#[cfg(test)]
mod tests;
