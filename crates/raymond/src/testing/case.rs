//! A test case: the scripted answers, and the expected outcome.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use raymond_engine::agent::{Script, ScriptedReply};
use raymond_flow::{
    machine::{FailureClass, TurnFailure},
    money::Usd,
    source::{
        Timeout,
        yaml::{self, YamlNode, YamlValue},
    },
    text::{Span, beginning},
    turn::{OwnOption, OwnQuestion},
};

use super::answers::{AnswerScript, ScriptedAnswer};

/// The largest file of a case: the replies of a long run, or the prompts that it was given.
pub(crate) const BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The longest message about a case: some lines of a terminal.
const MESSAGE_CHARS_MAX: usize = 500;

/// A case that can be run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Case {
    pub(crate) path: PathBuf,
    pub(crate) name: String,
    pub(crate) input: Option<String>,
    /// Shell commands that prepare the working directory for the workflow.
    pub(crate) setup: Option<String>,
    /// The same for Windows, if its shell needs others.
    pub(crate) setup_windows: Option<String>,
    pub(crate) variables: BTreeMap<String, String>,
    /// Environment variables for its scripts and its setup.
    pub(crate) environment: BTreeMap<String, String>,
    /// How long it may take; zero is no limit.
    pub(crate) timeout: Option<Duration>,
    pub(crate) budget: Option<Usd>,
    pub(crate) max_iterations: Option<u64>,
    pub(crate) replies: Script,
    /// The answers to questions that a person would be asked.
    pub(crate) answers: AnswerScript,
    pub(crate) expect: Expect,
}

/// The expected outcome. Fields that are not set are not checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expect {
    pub(crate) status: Option<String>,
    pub(crate) result: Option<String>,
    /// The states that each agent enters, in order.
    pub(crate) paths: BTreeMap<String, Vec<String>>,
    /// The agents that are forked, in order.
    pub(crate) forked: Option<Vec<String>>,
    pub(crate) reminders: Option<u64>,
    pub(crate) cost: Option<Usd>,
    /// Texts that the prompts of a state must contain, one list for each time that it is entered.
    pub(crate) prompts: BTreeMap<String, Vec<Vec<String>>>,
    /// Whether all prompts must equal the snapshot that `--update` wrote.
    pub(crate) has_snapshot: bool,
}

/// What is wrong with a case, and where.
#[derive(Debug)]
pub(crate) struct CaseError {
    path: PathBuf,
    line: usize,
    message: String,
}

impl fmt::Display for CaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} line {}: {}", self.path.display(), self.line, self.message)
    }
}

/// A problem, without the name of its file.
type CaseProblem = (Span, String);

impl Case {
    /// Parses the case in the file at `path`.
    pub(crate) fn read(path: &Path, text: &str) -> Result<Self, CaseError> {
        read(path, text).map_err(|(span, message)| {
            let before = text.bytes().take(usize::try_from(span.start).unwrap_or(usize::MAX));
            let line = before.filter(|byte| *byte == b'\n').count() + 1;
            // A quoted key can be as long as the file.
            let message = beginning(&message, MESSAGE_CHARS_MAX);
            CaseError { path: path.to_owned(), line, message }
        })
    }
}

fn read(path: &Path, text: &str) -> Result<Case, CaseProblem> {
    let root = yaml::read(text).map_err(|error| (error.span, error.message))?;
    let root = root.ok_or_else(|| (Span::new(0, 0), "the case is empty".to_owned()))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut case = Case { path: path.to_owned(), name: stem, ..Case::default() };
    for (key, value) in pairs(&root)? {
        match scalar(key)? {
            "name" => case.name = text_of(value)?,
            "input" => case.input = Some(text_of(value)?),
            "setup" => case.setup = Some(text_of(value)?),
            "setup_windows" => case.setup_windows = Some(text_of(value)?),
            "vars" => case.variables = texts(value)?,
            "env" => case.environment = environment(value)?,
            "timeout" => case.timeout = Some(timeout(value)?),
            "budget" => case.budget = Some(dollars(value)?),
            "max_iterations" => case.max_iterations = Some(number(value)?),
            "replies" => case.replies = replies(value)?,
            "answers" => case.answers = answers(value)?,
            "expect" => case.expect = expect(value)?,
            other => return Err(unknown(key, other, &CASE_KEYS)),
        }
    }
    Ok(case)
}

const CASE_KEYS: [&str; 12] = [
    "name",
    "input",
    "setup",
    "setup_windows",
    "vars",
    "env",
    "timeout",
    "budget",
    "max_iterations",
    "replies",
    "answers",
    "expect",
];
const REPLY_KEYS: [&str; 9] =
    ["text", "output", "cost", "delay", "fail", "message", "repeat", "asks", "options"];
const ANSWER_KEYS: [&str; 3] = ["answer", "comment", "files"];
const EXPECT_KEYS: [&str; 8] =
    ["status", "result", "path", "forked", "reminders", "cost", "prompts", "snapshot"];

fn replies(node: &YamlNode) -> Result<Script, CaseProblem> {
    let mut script = Script::new();
    for (state, value) in pairs(node)? {
        let replies: Vec<ScriptedReply> = match &value.value {
            YamlValue::Sequence(items) => items.iter().map(reply).collect::<Result<_, _>>()?,
            _ => vec![reply(value)?],
        };
        let endless = replies.iter().position(|reply| reply.times.is_none());
        if endless.is_some_and(|at| at + 1 < replies.len()) {
            let why = "a reply with `repeat: true` must be the last one of its state";
            return Err((value.span, why.to_owned()));
        }
        script.insert(scalar(state)?.to_owned(), replies);
    }
    Ok(script)
}

fn reply(node: &YamlNode) -> Result<ScriptedReply, CaseProblem> {
    if let YamlValue::Scalar(text) = &node.value {
        return Ok(ScriptedReply::text(text));
    }
    let mut reply = ScriptedReply::text("");
    let (mut class, mut message) = (None, None);
    let (mut asks, mut options) = (None, Vec::new());
    for (key, value) in pairs(node)? {
        match scalar(key)? {
            "asks" => asks = Some(text_of(value)?),
            "options" => options = list(value)?,
            "text" => reply.answer = Ok(text_of(value)?),
            "output" => reply.output = Some(json(value)?),
            "cost" => reply.cost_usd = dollars(value)?,
            "delay" => reply.after = delay(value)?,
            "fail" => class = Some(failure_class(value)?),
            "message" => message = Some(text_of(value)?),
            "repeat" => reply.times = repeat(value)?,
            other => return Err(unknown(key, other, &REPLY_KEYS)),
        }
    }
    if asks.is_none() && !options.is_empty() {
        return Err((node.span, "`options` are those of `asks`, which is missing".to_owned()));
    }
    reply.asks = asks.map(|text| own_question(text, options)).into_iter().collect();
    if let Some(class) = class {
        let message = message.unwrap_or_else(|| "scripted failure".to_owned());
        reply.answer = Err(TurnFailure { class, message });
    }
    Ok(reply)
}

/// A structured output: an object in JSON.
fn json(node: &YamlNode) -> Result<String, CaseProblem> {
    let text = text_of(node)?;
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text) {
        Ok(object) => Ok(serde_json::Value::Object(object).to_string()),
        Err(error) => Err((node.span, format!("`output` is an object in JSON: {error}"))),
    }
}

/// What the coding agent asks with a tool of its own.
fn own_question(text: String, labels: Vec<String>) -> OwnQuestion {
    let option = |label| OwnOption { label, ..OwnOption::default() };
    let options = labels.into_iter().map(option).collect();
    OwnQuestion { text, options, ..OwnQuestion::default() }
}

/// For each state that asks: an answer, or a list of them in the order of its questions.
fn answers(node: &YamlNode) -> Result<AnswerScript, CaseProblem> {
    let mut script = AnswerScript::new();
    for (state, value) in pairs(node)? {
        let answers = match &value.value {
            YamlValue::Sequence(items) => items.iter().map(answer).collect::<Result<_, _>>()?,
            _ => vec![answer(value)?],
        };
        script.insert(scalar(state)?.to_owned(), answers);
    }
    Ok(script)
}

fn answer(node: &YamlNode) -> Result<ScriptedAnswer, CaseProblem> {
    if let YamlValue::Scalar(text) = &node.value {
        let (comment, files) = (String::new(), Vec::new());
        return Ok(ScriptedAnswer { answer: text.clone(), comment, files });
    }
    let (mut answer, mut comment, mut files) = (None, String::new(), Vec::new());
    for (key, value) in pairs(node)? {
        match scalar(key)? {
            "answer" => answer = Some(text_of(value)?),
            "comment" => comment = text_of(value)?,
            "files" => files = list(value)?,
            other => return Err(unknown(key, other, &ANSWER_KEYS)),
        }
    }
    let answer = answer.ok_or_else(|| (node.span, "an answer needs `answer`".to_owned()))?;
    Ok(ScriptedAnswer { answer, comment, files })
}

fn failure_class(node: &YamlNode) -> Result<FailureClass, CaseProblem> {
    Ok(match scalar(node)? {
        "transient" => FailureClass::Transient { retry_after_ms: None },
        "usage_limit" => FailureClass::UsageLimit { resets_at: None },
        "budget" => FailureClass::Budget,
        "authentication" => FailureClass::Authentication,
        "unknown_model" => FailureClass::UnknownModel,
        "session_missing" => FailureClass::SessionMissing,
        "prompt_too_long" => FailureClass::PromptTooLong,
        "refused" => FailureClass::Refused,
        "max_turns" => FailureClass::MaxTurns,
        "bad_output" => FailureClass::BadOutput,
        other => {
            let known = "transient, usage_limit, budget, authentication, unknown_model, \
                         session_missing, prompt_too_long, refused, max_turns, bad_output";
            return Err((node.span, format!("unknown failure `{other}`; known: {known}")));
        }
    })
}

/// `true` is without a limit; a number is how often.
fn repeat(node: &YamlNode) -> Result<Option<u64>, CaseProblem> {
    match scalar(node)? {
        "true" => Ok(None),
        text => match text.parse::<u32>() {
            Ok(times @ 1..) => Ok(Some(times.into())),
            _ => Err((node.span, format!("`{text}` is neither true nor a number from 1 up"))),
        },
    }
}

fn timeout(node: &YamlNode) -> Result<Duration, CaseProblem> {
    let timeout = scalar(node)?.parse::<Timeout>();
    let timeout = timeout.map_err(|error| (node.span, error.to_string()))?;
    Ok(Duration::from_secs(timeout.into()))
}

/// Names that can be variables and are not Raymond's own.
fn environment(node: &YamlNode) -> Result<BTreeMap<String, String>, CaseProblem> {
    for (key, value) in pairs(node)? {
        let name = scalar(key)?;
        if name.is_empty() || name.contains(['=', '\0']) || scalar(value)?.contains('\0') {
            return Err((key.span, format!("`{name}` cannot be an environment variable")));
        }
        if name.starts_with("RAYMOND_") {
            return Err((key.span, format!("`{name}` is set by Raymond itself")));
        }
    }
    texts(node)
}

/// `50ms` or `2s`.
fn delay(node: &YamlNode) -> Result<Duration, CaseProblem> {
    let text = scalar(node)?;
    let milliseconds = text.strip_suffix("ms").map(|number| (number, 1));
    let parts = milliseconds.or_else(|| text.strip_suffix('s').map(|number| (number, 1000)));
    let parsed = parts.and_then(|(number, factor)| number.parse::<u64>().ok()?.checked_mul(factor));
    let milliseconds =
        parsed.ok_or_else(|| (node.span, format!("`{text}` is not a delay: 50ms, 2s")))?;
    Ok(Duration::from_millis(milliseconds))
}

fn expect(node: &YamlNode) -> Result<Expect, CaseProblem> {
    let mut expect = Expect::default();
    for (key, value) in pairs(node)? {
        let name = scalar(key)?;
        let of_key = |(span, message): CaseProblem| (span, format!("`expect.{name}`: {message}"));
        expected(&mut expect, key, value).map_err(of_key)?;
    }
    Ok(expect)
}

fn expected(expect: &mut Expect, key: &YamlNode, value: &YamlNode) -> Result<(), CaseProblem> {
    match scalar(key)? {
        "status" => expect.status = Some(text_of(value)?),
        "result" => expect.result = Some(text_of(value)?),
        "path" => expect.paths = paths(value)?,
        "forked" => expect.forked = Some(list(value)?),
        "reminders" => expect.reminders = Some(number(value)?),
        "cost" => expect.cost = Some(dollars(value)?),
        "prompts" => expect.prompts = prompts(value)?,
        "snapshot" => expect.has_snapshot = flag(value)?,
        other => return Err(unknown(key, other, &EXPECT_KEYS)),
    }
    Ok(())
}

/// A single path is that of `main`; a mapping has one for each agent.
fn paths(node: &YamlNode) -> Result<BTreeMap<String, Vec<String>>, CaseProblem> {
    if let YamlValue::Sequence(_) = &node.value {
        return Ok(BTreeMap::from([("main".to_owned(), list(node)?)]));
    }
    pairs(node)?.iter().map(|(agent, path)| Ok((scalar(agent)?.to_owned(), list(path)?))).collect()
}

/// For each state: a text, a list of texts, or a list of lists for each time that it is entered.
fn prompts(node: &YamlNode) -> Result<BTreeMap<String, Vec<Vec<String>>>, CaseProblem> {
    let mut prompts = BTreeMap::new();
    for (state, value) in pairs(node)? {
        let needles = match &value.value {
            YamlValue::Sequence(items) => items.iter().map(needles).collect::<Result<_, _>>()?,
            _ => vec![needles(value)?],
        };
        prompts.insert(scalar(state)?.to_owned(), needles);
    }
    Ok(prompts)
}

fn needles(node: &YamlNode) -> Result<Vec<String>, CaseProblem> {
    match &node.value {
        YamlValue::Sequence(_) => list(node),
        _ => Ok(vec![text_of(node)?]),
    }
}

fn pairs(node: &YamlNode) -> Result<&[(YamlNode, YamlNode)], CaseProblem> {
    let YamlValue::Mapping(pairs) = &node.value else {
        return Err((node.span, "expected `key: value` pairs".to_owned()));
    };
    for (index, (key, _)) in pairs.iter().enumerate() {
        if pairs[..index].iter().any(|(earlier, _)| earlier.value == key.value) {
            return Err((key.span, format!("`{}` occurs twice", scalar(key)?)));
        }
    }
    Ok(pairs)
}

fn list(node: &YamlNode) -> Result<Vec<String>, CaseProblem> {
    match &node.value {
        YamlValue::Sequence(items) => items.iter().map(text_of).collect(),
        _ => Err((node.span, "expected a list: [one, two]".to_owned())),
    }
}

fn texts(node: &YamlNode) -> Result<BTreeMap<String, String>, CaseProblem> {
    pairs(node)?.iter().map(|(key, value)| Ok((text_of(key)?, text_of(value)?))).collect()
}

fn scalar(node: &YamlNode) -> Result<&str, CaseProblem> {
    match &node.value {
        YamlValue::Scalar(text) => Ok(text),
        _ => Err((node.span, "expected a text".to_owned())),
    }
}

fn text_of(node: &YamlNode) -> Result<String, CaseProblem> {
    scalar(node).map(str::to_owned)
}

fn number<T: std::str::FromStr>(node: &YamlNode) -> Result<T, CaseProblem> {
    let text = scalar(node)?;
    text.parse().map_err(|_| (node.span, format!("`{text}` is not a number")))
}

fn dollars(node: &YamlNode) -> Result<Usd, CaseProblem> {
    let text = scalar(node)?;
    let amount = text.parse().ok().and_then(Usd::from_dollars);
    amount.ok_or_else(|| (node.span, format!("`{text}` is not an amount of dollars")))
}

fn flag(node: &YamlNode) -> Result<bool, CaseProblem> {
    let text = scalar(node)?;
    text.parse().map_err(|_| (node.span, format!("`{text}` is neither true nor false")))
}

fn unknown(key: &YamlNode, name: &str, known: &[&str]) -> CaseProblem {
    (key.span, format!("unknown key `{name}`; known: {}", known.join(", ")))
}
