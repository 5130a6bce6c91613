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

use std::{io, path::Path};

use jiff::Timestamp;
use raymond_flow::{
    id::SessionId,
    machine::{FailureClass, Spent, TurnFailure, UsageWindow},
    text::excerpt,
    turn::{Outcome, OwnQuestion},
};
use uuid::Uuid;

use super::{
    command,
    event::{ClaudeEvent, ClaudeRateLimit, ClaudeUsage, Denial, Total, counts_by_session},
    failure, permits, questions,
    transcript::{self, SessionFile},
    unpaid::{self, Calls, Written},
};
use crate::agent::{
    Activity, TurnEnd, TurnOutput,
    limit::{self, said_at},
    lines::{complaint, each_line, object},
};

/// The tool with which the model gives its structured output.
const STRUCTURED_OUTPUT: &str = "StructuredOutput";

/// Why there is no answer of a process that has finished a turn, and has not said that it began the one it was given.
const NOT_BEGUN: &str = "Claude did not say that it began the prompt; if that happens again, this version \
    speaks differently: see `raymond doctor`, and keep no process with `--warm 0`";

/// The kinds of events that a turn cannot do without.
const KINDS: [&str; 4] = ["system", "user", "assistant", "result"];

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
    /// The calls of models since the last result.
    calls: Calls,
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
    session: Option<String>,
    version: Option<String>,
    /// The directory of the turn.
    cwd: Option<String>,
}

/// The outcome of a turn of the Claude whose sessions are below `config_dir`.
pub(super) fn outcome(output: &TurnOutput<'_>, config_dir: &Path) -> io::Result<TurnEnd> {
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
        // The process rests, after something else.
        None if output.exit_code == Some(0) && events.other.is_some() => {
            Outcome::Failed(failed(FailureClass::Other, NOT_BEGUN))
        }
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
    let last = events.other.as_ref().or(events.answer.as_ref());
    let (mut spent, total) = match last {
        Some(last) => {
            let (spent, total) = last.event.spent(&before, events.model.clone());
            (spent, Some(total))
        }
        None => (Spent { model: events.model.clone(), ..Spent::default() }, None),
    };
    // A process that goes on will have what it has called since in its next result.
    if !events.calls.is_empty() && (last.is_none() || output.exit_code != Some(0)) {
        let written = events.written(output, config_dir);
        unpaid::add(
            &mut spent,
            &events.calls,
            total.as_ref().unwrap_or(&before),
            last.is_none(),
            written,
        );
    }
    let total = total.and_then(|total| serde_json::to_string(&total).ok());
    (spent.heard, spent.windows) = (heard, std::mem::take(&mut events.windows));
    spent.version = events.version.as_ref().map(|version| format!("claude {}", excerpt(version)));
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
            let event = object::<ClaudeEvent>(line).unwrap_or_default();
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

    /// What the transcripts of its session say of the turn.
    fn written(&self, output: &TurnOutput<'_>, config_dir: &Path) -> Written {
        let prompt = command::prompt_id(output.stdin);
        let session = self.session.as_ref().and_then(|id| SessionId::reported(id).ok());
        let file = session.and_then(|id| SessionFile::find(config_dir, &id));
        prompt.zip(file).map(|(prompt, file)| file.written_since(&prompt)).unwrap_or_default()
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
        if let Some(message) = event.message.as_ref().filter(|_| event.kind == "assistant") {
            self.calls.see(message);
        }
        if event.kind == "result" {
            // Not the cost: that is the sum over all turns of a process.
            let is_asked = !self.calls.is_empty() || event.usage != ClaudeUsage::default();
            self.calls.clear();
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
                let message = event.message.unwrap_or_default();
                if event.parent_tool_use_id.is_none() {
                    if self.questions.0 != message.id {
                        self.questions = (message.id.clone(), Vec::new());
                        self.denied.clear();
                    }
                    self.questions.1.extend(questions::asked(&message.content));
                    self.hear(&message.content);
                }
                self.error = event.error.and_then(|error| error.as_str().map(str::to_owned));
            }
            "system" if event.subtype == "init" => {
                (self.model, self.version) = (event.model, event.claude_code_version);
                (self.session, self.cwd) = (event.session_id, event.cwd);
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
                self.limit = info.is_reached().then_some(info);
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

/// What separates a session from one of its messages in the id of a session as it was after that message.
pub(super) const BOOKMARK: char = '@';

/// The id of `session` as it was after the turn that printed the first `bytes` of `stdout`: a kept process goes on writing.
pub(super) fn bookmark(session: &SessionId, stdout: &Path, bytes: u64) -> Option<SessionId> {
    let mut last = None;
    let read = each_line(stdout, bytes, |line| {
        if let Some(event) = object::<ClaudeEvent>(line)
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
    let event: ClaudeEvent = object(line)?;
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
