//! Any program as a coding agent, by a protocol of a few lines.
//!
//! The program reads the prompt on standard input. It learns the rest from its environment:
//! `RAYMOND_SESSION` (the session's id), `RAYMOND_SESSION_MODE` (`fresh`, `resume` or `branch`),
//! `RAYMOND_SESSION_FROM` (what a branch starts from), `RAYMOND_TURN_MODEL`, `RAYMOND_TURN_EFFORT`,
//! `RAYMOND_TURN_BUDGET` (dollars that the turn may spend), `RAYMOND_TURN_GRANTED` (tools that a person has allowed),
//! `RAYMOND_STATE` (the state file) and `RAYMOND_RECOVERS` (`1` after a start that failed). The last
//! line that it prints is a JSON object:
//!
//! ```json
//! {"result": "… <goto>NEXT</goto>", "cost_usd": 0.01, "session": "its-own-id"}
//! {"asks": [{"text": "Which colour?", "options": ["red", "blue"]}], "session": "its-own-id"}
//! {"error": "overloaded", "class": "transient", "retry_after": 20, "cost_usd": 0.002}
//! ```
//!
//! A program that names its own sessions reports them there, and may report one earlier, on a line
//! of its own among the first that it prints (`{"session": "its-own-id"}`): if it is killed after that,
//! the turn is continued in that session.

use std::{
    io::{self, Read as _, Seek, SeekFrom},
    path::Path,
};

use raymond_flow::{
    coding_agent::Capabilities,
    id::SessionId,
    machine::{FailureClass, SessionPlan, Spent, Tokens, TurnFailure, TurnSettings},
    money::Usd,
    text::excerpt,
    turn::{Outcome, OwnOption, OwnQuestion},
};
use serde::{Deserialize, Serialize};

use super::{
    Activity, AgentConfig, AgentKind, CodingAgent, DETAIL_BYTES_MAX, Entry, ToolDetail,
    ToolOutcome, TranscriptReader, TurnCommand, TurnEnd, TurnOutput, TurnRequest, account, cut,
    lines::object, misconfigured,
};

/// The longest last line: the longest payload is shorter, also with every character of it escaped.
const LAST_LINE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// The first part of the output, in which a session may be reported before the answer.
const FIRST_BYTES_MAX: u64 = 64 * 1024;

/// Why the cost of a turn is not known.
const NO_COST: &str = "the program reports no cost";

/// How many questions are put to a person at once.
const QUESTIONS_MAX: usize = 20;

/// How a program is started, and what it can do.
#[derive(Clone, Debug)]
pub struct ProgramConfig {
    /// Its name in frontmatter.
    pub name: String,
    /// The program and its arguments.
    pub program: Vec<String>,
    /// The model of turns that name none.
    pub model: Option<String>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// The prices of its tokens, for turns whose cost it does not report.
    pub prices: Option<Prices>,
    /// What it promises to report a cost of: a turn without it is an error.
    pub promises_cost: CostPromise,
}

/// For which turns a program promises a cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CostPromise {
    /// None.
    #[default]
    None,
    /// Those that end with an answer or a question. What another one cost is part of the next turn of its session.
    Answers,
    /// All, however they end.
    Turns,
}

/// Any program.
pub(super) const KIND: AgentKind = AgentKind {
    name: "program",
    keys: &[
        "program",
        "arguments",
        "model",
        "names_sessions",
        "can_branch",
        "reports_cost",
        "can_continue",
        "can_limit",
        "prices",
        "kind",
    ],
    make: |config| Box::new(ProgramAgent::new(ProgramConfig::from(&config))),
};

impl From<&AgentConfig> for ProgramConfig {
    fn from(config: &AgentConfig) -> Self {
        Self {
            name: config.name.clone(),
            program: config.program.iter().chain(&config.arguments).cloned().collect(),
            model: config.model.clone(),
            capabilities: Capabilities {
                names_sessions: config.names_sessions.unwrap_or(false),
                can_branch: config.can_branch.unwrap_or(true),
                reports_cost: config.reports_cost.unwrap_or(true),
                can_continue: config.can_continue.unwrap_or(true),
                limits_tools: false,
                has_permissions: false,
                can_limit: config.can_limit.unwrap_or(false),
                has_options: false,
            },
            prices: config.prices,
            promises_cost: match config.reports_cost {
                Some(true) => CostPromise::Turns,
                Some(false) | None => CostPromise::None,
            },
        }
    }
}

/// Prices for a million tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// Input that was not cached.
    pub input: Usd,
    /// Input that was read from a cache.
    pub cached_input: Usd,
    /// Output.
    pub output: Usd,
}

impl Prices {
    pub(super) fn cost(&self, tokens: &Tokens) -> Usd {
        self.input.for_millionths(tokens.input)
            + self.cached_input.for_millionths(tokens.cache_read)
            + self.output.for_millionths(tokens.output)
    }
}

/// A program that speaks the protocol above.
#[derive(Clone, Debug)]
pub struct ProgramAgent {
    config: ProgramConfig,
}

impl ProgramAgent {
    /// The program with these settings.
    pub fn new(config: ProgramConfig) -> Self {
        Self { config }
    }

    /// Why it is not known what a turn with this last line cost. `reported` is what the line says of it.
    fn doubt(&self, line: &LastLine, reported: Option<Usd>, tokens: &Tokens) -> Option<String> {
        let is_wrong = |dollars: &f64| Usd::from_dollars(*dollars).is_none();
        if let Some(dollars) = line.cost_usd.filter(is_wrong) {
            return Some(format!("the program reports a cost of {dollars} dollars"));
        }
        let is_promised = match self.config.promises_cost {
            CostPromise::None => false,
            CostPromise::Answers => line.has_answer(),
            CostPromise::Turns => true,
        };
        match (reported, self.config.prices) {
            (None, None) if is_promised => Some(NO_COST.to_owned()),
            (None, Some(_)) if line.has_answer() && *tokens == Tokens::default() => {
                Some("the program reports neither cost nor tokens".to_owned())
            }
            _ => None,
        }
    }
}

#[derive(Deserialize)]
struct LastLine {
    result: Option<String>,
    error: Option<String>,
    #[serde(default)]
    asks: Vec<ProgramQuestion>,
    class: Option<String>,
    session: Option<String>,
    cost_usd: Option<f64>,
    /// What the session has cost, as the next turn will report it with its own cost. Only the client of ACP prints it.
    carried_usd: Option<f64>,
    model: Option<String>,
    version: Option<String>,
    /// Without those that were read from a cache.
    #[serde(default)]
    input_tokens: u64,
    #[serde(default)]
    cached_input_tokens: u64,
    #[serde(default)]
    output_tokens: u64,
    #[serde(default)]
    denied: Vec<String>,
    resets_at: Option<u64>,
    /// In seconds.
    retry_after: Option<u64>,
}

impl LastLine {
    fn has_answer(&self) -> bool {
        self.result.is_some() || !self.asks.is_empty()
    }
}

/// What the program asks a person. The answer is the next message of the session.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct ProgramQuestion {
    pub(super) text: String,
    /// The answers that it proposes.
    pub(super) options: Vec<String>,
    /// The tool that it wants to use, if that is the question; the text then says for what.
    pub(super) tool: Option<String>,
    /// What exactly is allowed, if not every use of the tool. Only the client of ACP prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) grants: Option<String>,
}

impl ProgramQuestion {
    fn own(self) -> OwnQuestion {
        let Self { text, options, tool, grants } = self;
        if let Some(tool) = tool {
            if grants.is_some() {
                return OwnQuestion { grants, ..OwnQuestion::of_tool(&tool, &text) };
            }
            let all = "`allow` holds for every use of it until the next state.";
            return OwnQuestion::of_tool(&tool, &format!("{text}\n\n{all}"));
        }
        let option = |label| OwnOption { label, ..OwnOption::default() };
        OwnQuestion {
            text,
            options: options.into_iter().map(option).collect(),
            ..OwnQuestion::default()
        }
    }
}

/// A line that reports nothing but the session.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionLine {
    session: String,
}

/// A line that tells what the program is doing: a message, a thought, a wait or a tool. The program may print any number
/// of them before the answer.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub(super) enum ProgramEvent {
    #[default]
    Nothing,
    Says(String),
    Thinks(String),
    Waits(String),
    Tool(ProgramTool),
}

/// A tool in such a line. A line with the same id replaces an earlier one.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(super) struct ProgramTool {
    pub(super) id: String,
    pub(super) name: String,
    /// What it is used on, in a few words.
    pub(super) on: String,
    /// `open`, `done`, `failed` or `denied`.
    pub(super) outcome: String,
    pub(super) input: Option<String>,
    pub(super) output: Option<String>,
}

impl ProgramEvent {
    fn read(line: &[u8]) -> Option<Self> {
        object(line)
    }

    fn entry(self) -> Option<Entry> {
        match self {
            Self::Nothing => None,
            Self::Says(text) => Some(Entry::Text { text }),
            Self::Thinks(text) => Some(Entry::Thinking { text }),
            Self::Waits(text) => Some(Entry::Note { text }),
            Self::Tool(tool) => Some(tool.entry()),
        }
    }

    fn activity(self) -> Option<Activity> {
        match self {
            Self::Says(text) => Some(Activity::Says(excerpt(text.trim()))),
            Self::Waits(text) => Some(Activity::Waits(excerpt(text.trim()))),
            Self::Tool(tool) if matches!(tool.outcome.as_str(), "" | "open") => {
                Some(Activity::Uses { tool: tool.name, what: excerpt(&tool.on) })
            }
            Self::Tool(_) | Self::Thinks(_) | Self::Nothing => None,
        }
    }
}

impl ProgramTool {
    fn entry(self) -> Entry {
        let kept = |text: Option<String>| {
            let text = text.unwrap_or_default();
            let (kept, rest) = cut(&text, DETAIL_BYTES_MAX);
            ((!kept.is_empty()).then(|| kept.to_owned()), rest)
        };
        let first = self.output.as_deref().unwrap_or_default().trim().lines().next();
        let message = excerpt(first.unwrap_or_default());
        let outcome = match self.outcome.as_str() {
            "done" => ToolOutcome::Done,
            "failed" => ToolOutcome::Failed { message },
            "denied" => ToolOutcome::Denied { message },
            _ => ToolOutcome::Open,
        };
        let ((input, input_cut), (output, output_cut)) = (kept(self.input), kept(self.output));
        let detail = Box::new(ToolDetail { input, input_cut, output, output_cut, edit: None });
        Entry::Tool { id: self.id, name: self.name, summary: excerpt(&self.on), outcome, detail }
    }
}

/// The output of a program as a transcript: every line but the last one, which is the answer.
pub(super) struct PlainReader;

impl TranscriptReader for PlainReader {
    fn line(&mut self, line: &[u8]) -> Vec<Entry> {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_end();
        let last: Option<LastLine> = object(text.as_bytes());
        let is_answer = last.is_some_and(|last| last.has_answer() || last.error.is_some());
        let is_session = object::<SessionLine>(text.as_bytes()).is_some();
        if text.is_empty() || is_answer || is_session {
            return Vec::new();
        }
        if let Some(event) = ProgramEvent::read(line) {
            return event.entry().into_iter().collect();
        }
        vec![Entry::Text { text: text.to_owned() }]
    }
}

impl CodingAgent for ProgramAgent {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn capabilities(&self) -> Capabilities {
        let can = self.config.capabilities;
        Capabilities { reports_cost: can.reports_cost || self.config.prices.is_some(), ..can }
    }

    fn program(&self) -> Vec<String> {
        self.config.program.clone()
    }

    fn activity(&self, line: &[u8]) -> Option<Activity> {
        ProgramEvent::read(line)?.activity()
    }

    fn account(&self, _settings: &TurnSettings) -> Option<String> {
        Some(account(&self.config.name, self.config.program.iter().map(String::as_str)))
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        let turn = request.turn;
        let (mode, from) = match &turn.session {
            SessionPlan::Fresh { .. } => ("fresh", None),
            SessionPlan::Resume { .. } => ("resume", None),
            SessionPlan::Branch { from, .. } => ("branch", Some(from.as_str())),
        };
        // A program that names its sessions is given only ids of sessions that exist.
        let is_named = mode == "resume" || !self.config.capabilities.names_sessions;
        let settings = &turn.settings;
        let model = settings.model.as_deref().or(self.config.model.as_deref());
        let budget = turn.budget_usd.map(|budget| budget.dollars().to_string());
        let granted = settings.granted.join(",");
        let variables = [
            ("RAYMOND_SESSION", Some(turn.session.id().as_str()).filter(|_| is_named)),
            ("RAYMOND_SESSION_MODE", Some(mode)),
            ("RAYMOND_SESSION_FROM", from),
            ("RAYMOND_TURN_MODEL", model),
            ("RAYMOND_TURN_EFFORT", settings.effort.as_deref()),
            ("RAYMOND_TURN_BUDGET", budget.as_deref()),
            ("RAYMOND_TURN_GRANTED", Some(granted.as_str()).filter(|tools| !tools.is_empty())),
            ("RAYMOND_STATE", Some(request.step.state.as_str())),
            ("RAYMOND_RECOVERS", turn.recovers.then_some("1")),
        ];
        let set = variables.into_iter().filter_map(|(n, v)| Some((n.to_owned(), v?.to_owned())));
        let unset = variables.into_iter().filter(|(_, value)| value.is_none());
        let stdin = if turn.recovers { request.continuation } else { request.prompt };
        Ok(TurnCommand {
            program: self.config.program.clone(),
            environment: set.collect(),
            without: unset.map(|(name, _)| name.to_owned()).collect(),
            stdin: stdin.to_owned(),
            ..TurnCommand::default()
        })
    }

    fn lacks_cost(&self, stdout: &Path, bytes: u64) -> bool {
        let line = last_line(stdout, bytes).ok();
        let line = line.and_then(|line| object::<LastLine>(line.as_bytes()));
        self.config.prices.is_none()
            && line.is_some_and(|line| {
                line.has_answer() && line.cost_usd.is_none() && line.carried_usd.is_none()
            })
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        let line = last_line(output.stdout, output.stdout_bytes)?;
        let early = early_session(output.stdout, output.stdout_bytes)?;
        let Some(line) = object::<LastLine>(line.as_bytes()) else {
            let message = match output.exit_code {
                Some(code) => format!("the program exited with code {code} and without an answer"),
                None => "the program was killed".to_owned(),
            };
            let class = FailureClass::Other;
            let outcome = Outcome::Failed(TurnFailure { class, message });
            // It says what the turn cost, in a number that is none: `NaN`, for example.
            let says = |field| line.contains(field);
            let has_cost =
                output.exit_code.is_some() && (says("\"cost_usd\"") || says("_tokens\""));
            let doubt = if has_cost {
                Some("the program's last line cannot be read".to_owned())
            } else {
                (self.config.promises_cost == CostPromise::Turns).then(|| NO_COST.to_owned())
            };
            let spent = Spent { session: early, doubt, ..Spent::default() };
            return Ok(TurnEnd { outcome, spent, total: None });
        };
        let tokens = Tokens {
            input: line.input_tokens,
            output: line.output_tokens,
            cache_read: line.cached_input_tokens,
            ..Tokens::default()
        };
        let priced = self.config.prices.map(|prices| prices.cost(&tokens));
        let carried = line.carried_usd.and_then(Usd::from_dollars);
        let since = carried.map(|total| since(total, output.before));
        let own = line.cost_usd.and_then(Usd::from_dollars);
        let doubt = self.doubt(&line, own.max(since), &tokens);
        let mut spent = Spent {
            // A session's total may have forgotten a process that was killed, a turn's own cost has not.
            cost_usd: own.max(since).or(priced).unwrap_or_default(),
            doubt,
            tokens,
            model: line.model,
            version: line.version.map(|version| excerpt(&version)),
            denied: line.denied,
            session: early,
            ..Spent::default()
        };
        let mut outcome = match line.result {
            Some(text) => Outcome::Reply { text },
            None if !line.asks.is_empty() => {
                let asks = line.asks.into_iter().take(QUESTIONS_MAX);
                Outcome::Asks { questions: asks.map(ProgramQuestion::own).collect() }
            }
            None => Outcome::Failed(TurnFailure {
                class: class(line.class.as_deref(), line.resets_at, line.retry_after),
                message: line.error.unwrap_or_else(|| "the program gave no answer".to_owned()),
            }),
        };
        match line.session.as_deref().map(SessionId::reported).transpose() {
            Ok(session) => spent.session = session.or(spent.session),
            Err(error) => outcome = Outcome::Failed(misconfigured(error.to_string())),
        }
        let total = carried.map(|total| total.dollars().to_string());
        Ok(TurnEnd { outcome, spent, total })
    }
}

/// What was spent since `before`. A total that is lower than before has begun anew.
fn since(total: Usd, before: Option<&str>) -> Usd {
    let before = before.and_then(|text| Usd::from_dollars(text.parse().ok()?)).unwrap_or_default();
    if total < before { total } else { total.less(before) }
}

/// The session that was reported before the answer, if any.
fn early_session(path: &Path, bytes: u64) -> io::Result<Option<SessionId>> {
    let mut start = Vec::new();
    crate::trust::regular::open_linked(path)?
        .take(bytes.min(FIRST_BYTES_MAX))
        .read_to_end(&mut start)?;
    let text = String::from_utf8_lossy(&start);
    let mut lines = text.lines().filter_map(|line| object::<SessionLine>(line.as_bytes()));
    Ok(lines.next().and_then(|line| SessionId::reported(&line.session).ok()))
}

fn class(name: Option<&str>, resets_at: Option<u64>, retry_after: Option<u64>) -> FailureClass {
    match name {
        Some("transient") => FailureClass::Transient {
            retry_after_ms: retry_after.map(|seconds| seconds.saturating_mul(1000)),
        },
        Some("usage_limit") => FailureClass::UsageLimit { resets_at },
        Some("budget") => FailureClass::Budget,
        Some("authentication") => FailureClass::Authentication,
        Some("unknown_model") => FailureClass::UnknownModel,
        Some("session_missing") => FailureClass::SessionMissing,
        Some("prompt_too_long") => FailureClass::PromptTooLong,
        Some("answer_too_long") => FailureClass::AnswerTooLong,
        Some("refused") => FailureClass::Refused,
        Some("billing") => FailureClass::Billing,
        Some("not_installed") => FailureClass::NotInstalled,
        Some("misconfigured") => FailureClass::Misconfigured,
        // Only the client of ACP says it.
        Some("not_understood") => FailureClass::NotUnderstood,
        _ => FailureClass::Other,
    }
}

/// The last line that is not empty. Output before it is not read.
fn last_line(path: &Path, bytes: u64) -> io::Result<String> {
    let mut file = crate::trust::regular::open_linked(path)?;
    let length = file.metadata()?.len().min(bytes);
    let start = length.saturating_sub(LAST_LINE_BYTES_MAX);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(length - start).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests;
