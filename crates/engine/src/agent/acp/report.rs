//! What a turn has said, used and cost so far, and the lines that it prints.

use std::{collections::HashMap, io};

use raymond_flow::{prompt::before_messages, tag, text::excerpt};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{
    cost::{CLAUDE_MESSAGE, Cost},
    peer::Handler,
};
use crate::{
    agent::{
        program::{ProgramEvent, ProgramQuestion, ProgramTool},
        wording,
    },
    trust::seal::hex,
};

/// The longest message. With every byte escaped it still fits into the last line of a program.
const MESSAGE_BYTES_MAX: usize = 2 * 1024 * 1024;
/// The most that is printed of what a tool was given and gave back. The transcript keeps less.
const TOOL_TEXT_BYTES_MAX: usize = 64 * 1024;
/// How many tools are remembered, so that a report of their end need not repeat their beginning.
const TOOLS_MAX: usize = 256;
/// The most that a person can allow: all of it must fit into the question.
const ASKED_BYTES_MAX: usize = 8 * 1024;
/// The fields of a tool's input that say what it does, the first one first.
const TELLING: [&str; 6] = ["command", "file_path", "path", "pattern", "url", "query"];
/// The fields of a tool's input that change nothing of what it does.
const IDLE: [&str; 5] = ["description", "call_id", "turn_id", "timeout", "timeout_ms"];
/// How many tools are reported as denied.
const DENIED_MAX: usize = 100;

/// Handles what the coding agent sends, and prints it.
pub(super) struct Report<'a> {
    out: &'a mut dyn io::Write,
    /// The kinds of tools that need no question; `None` is all.
    allowed: Option<Vec<String>>,
    /// Whether a person is asked about other tools.
    questions: bool,
    /// What a person is asked.
    question: Option<ProgramQuestion>,
    /// The coding agent and its version, as it says.
    version: String,
    /// Whether the prompt was sent: what comes before is history.
    is_asked: bool,
    /// What the user has said in the history since the last complete answer, and what the coding agent has said since then.
    unanswered: String,
    answer: String,
    /// How many pieces the history had so far.
    recalled: usize,
    /// The message that is being written, and its id.
    message: String,
    message_id: String,
    /// The thought that is being written.
    thought: String,
    tools: HashMap<String, (ProgramTool, String)>,
    denied: Vec<String>,
    cost: Cost,
}

/// The name and the version of a coding agent, from its answer to `initialize`. Empty if it does not say.
pub(super) fn introduction(agent: &Value) -> String {
    let word = |name: &str| agent["agentInfo"][name].as_str().unwrap_or_default();
    format!("{} {}", word("name"), word("version")).trim().to_owned()
}

impl<'a> Report<'a> {
    pub(super) fn new(
        out: &'a mut dyn io::Write,
        allowed: Option<Vec<String>>,
        questions: bool,
        cost: Cost,
    ) -> Self {
        Self {
            out,
            allowed,
            questions,
            question: None,
            version: String::new(),
            is_asked: false,
            unanswered: String::new(),
            answer: String::new(),
            recalled: 0,
            message: String::new(),
            message_id: String::new(),
            thought: String::new(),
            tools: HashMap::new(),
            denied: Vec::new(),
            cost,
        }
    }

    /// The coding agent has said who it is, in its answer to `initialize`.
    pub(super) fn met(&mut self, agent: &Value) {
        self.version = introduction(agent);
    }

    /// Prints a line.
    pub(super) fn line(&mut self, line: &Value) -> io::Result<()> {
        self.out.write_all(format!("{line}\n").as_bytes())?;
        self.out.flush()
    }

    fn event(&mut self, event: &ProgramEvent) -> io::Result<()> {
        let line = serde_json::to_value(event).map_err(io::Error::other)?;
        self.line(&line)
    }

    /// Whether the history of the session ends in a turn with this prompt that was cut off.
    pub(super) fn is_left_at(&self, prompt: &str) -> bool {
        !self.is_answered() && self.unanswered.contains(before_messages(prompt).trim())
    }

    /// Whether the history has a complete answer to what the user said last: one with a tag.
    fn is_answered(&self) -> bool {
        tag::parse(&self.answer).is_ok()
    }

    /// From now on the coding agent works on the prompt.
    pub(super) fn asked(&mut self) {
        self.is_asked = true;
        self.message.clear();
        self.tools.clear();
    }

    /// The last line of a turn: the answer, if `stop` is that of one, with the tokens in `usage`.
    pub(super) fn end(&mut self, session: &str, stop: &str, usage: &Value) -> io::Result<()> {
        self.thought_ended()?;
        let text = std::mem::take(&mut self.message);
        let failed = |error: &str, class: &str| json!({ "error": error, "class": class });
        let mut line = match stop {
            _ if self.question.is_some() => json!({ "asks": [self.question] }),
            _ if text.len() + 4 > MESSAGE_BYTES_MAX => {
                failed("the answer is longer than 2 MiB", "other")
            }
            // Some report a failure of the model as if the model had said it. They then know no usage.
            "end_turn" if usage.is_null() && tag::parse(&text).is_err() && fails(&text) => {
                failure(text.trim())
            }
            "end_turn" => json!({ "result": text }),
            "refusal" => failed("the model refuses to answer", "refused"),
            "max_tokens" => {
                failed("the answer was longer than the model may write", "answer_too_long")
            }
            other => failed(&format!("the coding agent stopped: {other}"), "other"),
        };
        line["session"] = session.into();
        let count = |name: &str| usage[name].as_u64().unwrap_or_default();
        line["input_tokens"] = (count("inputTokens") + count("cachedWriteTokens")).into();
        line["cached_input_tokens"] = count("cachedReadTokens").into();
        line["output_tokens"] = count("outputTokens").into();
        self.cost.add_to(&mut line);
        line["denied"] = self.denied.clone().into();
        if !self.version.is_empty() {
            line["version"] = self.version.clone().into();
        }
        self.line(&line)
    }

    /// The last line of a turn that failed.
    pub(super) fn fail(&mut self, mut line: Value) -> io::Result<()> {
        self.cost.add_to(&mut line);
        self.line(&line)
    }

    fn update(&mut self, update: &Value) -> io::Result<()> {
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let text = update["content"]["text"].as_str().unwrap_or_default();
        let id = update["messageId"].as_str().unwrap_or_default();
        match kind {
            "usage_update" => self.cost.report(&update["cost"]),
            _ if !self.is_asked => self.recall(kind, text),
            "agent_message_chunk" => {
                self.thought_ended()?;
                if id != self.message_id {
                    self.message_ended()?;
                    id.clone_into(&mut self.message_id);
                }
                append(&mut self.message, text);
            }
            "agent_thought_chunk" => append(&mut self.thought, text),
            "tool_call" | "tool_call_update" => self.tool(update)?,
            _ => {}
        }
        Ok(())
    }

    /// How many pieces of the history the coding agent has told.
    pub(super) fn recalled(&self) -> usize {
        self.recalled
    }

    /// A piece of the history that the coding agent tells when it opens a session.
    fn recall(&mut self, kind: &str, text: &str) {
        let is_piece = kind.ends_with("_chunk") || kind.starts_with("tool_call");
        self.recalled += usize::from(is_piece);
        match kind {
            "user_message_chunk" => {
                if self.is_answered() {
                    self.unanswered.clear();
                }
                self.answer.clear();
                append(&mut self.unanswered, text);
            }
            "agent_message_chunk" => append(&mut self.answer, text),
            _ => {}
        }
    }

    /// A message before a tool or another message is not the answer.
    fn message_ended(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.message);
        if text.trim().is_empty() { Ok(()) } else { self.event(&ProgramEvent::Says(text)) }
    }

    fn thought_ended(&mut self) -> io::Result<()> {
        let text = std::mem::take(&mut self.thought);
        if text.trim().is_empty() { Ok(()) } else { self.event(&ProgramEvent::Thinks(text)) }
    }

    fn tool(&mut self, update: &Value) -> io::Result<()> {
        self.thought_ended()?;
        self.message_ended()?;
        let id = update["toolCallId"].as_str().unwrap_or_default().to_owned();
        let (mut tool, mut kind) = self.tools.remove(&id).unwrap_or_default();
        let was = (tool.outcome.clone(), tool.on.clone());
        tool.id.clone_from(&id);
        if let Some(own) = update["kind"].as_str() {
            own.clone_into(&mut kind);
        }
        if let Some(name) = name(update) {
            tool.name = name;
        } else if tool.name.is_empty() {
            tool.name.clone_from(&kind);
        }
        if let Some(title) = update["title"].as_str() {
            tool.on = excerpt(title);
        }
        let input = &update["rawInput"];
        if input.as_object().is_some_and(|input| !input.is_empty()) {
            tool.on = summary(input).unwrap_or(tool.on);
            tool.input = Some(bounded(&serde_json::to_string_pretty(input).unwrap_or_default()));
        }
        tool.output = output(update).or(tool.output);
        // How codex-acp tells what a command prints, piece by piece.
        if let Some(piece) = update["_meta"]["terminal_output_delta"]["data"].as_str() {
            tool.output = Some(bounded(&(tool.output.unwrap_or_default() + piece)));
        }
        let is_denied = tool.outcome == "denied";
        let outcome = match update["status"].as_str() {
            _ if is_denied => Some("denied"),
            Some("completed") => Some("done"),
            Some("failed") => Some("failed"),
            _ => tool.outcome.is_empty().then_some("open"),
        };
        if let Some(outcome) = outcome {
            outcome.clone_into(&mut tool.outcome);
        }
        let is_new = was != (tool.outcome.clone(), tool.on.clone());
        if self.tools.len() >= TOOLS_MAX {
            self.tools.clear();
        }
        self.tools.insert(id, (tool.clone(), kind));
        if is_new { self.event(&ProgramEvent::Tool(tool)) } else { Ok(()) }
    }

    /// Answers whether a tool may be used.
    fn permission(&mut self, params: &Value) -> io::Result<Value> {
        self.tool(&params["toolCall"])?;
        let id = params["toolCall"]["toolCallId"].as_str().unwrap_or_default();
        let (tool, kind) = self.tools.get(id).cloned().unwrap_or_default();
        // A tool without a kind is known by its name.
        let kind = match kind.as_str() {
            "" | "other" if !tool.name.is_empty() => tool.name.clone(),
            kind => kind.to_owned(),
        };
        let known = tool.input.as_deref().and_then(|input| serde_json::from_str(input).ok());
        let input = known.unwrap_or(Value::Null);
        let is_allowed = self.allowed.as_ref().is_none_or(|allowed| {
            allowed.contains(&kind)
                || grant(&kind, &input).is_some_and(|grant| allowed.contains(&grant))
        });
        let what = if tool.on.is_empty() { tool.name.clone() } else { tool.on.clone() };
        if !is_allowed && self.questions {
            let title = params["toolCall"]["title"].as_str().unwrap_or(&what);
            let whole = tool.input.as_deref().filter(|_| input.is_null()).unwrap_or(title);
            self.question.get_or_insert(question(&kind, &input, whole));
            return Ok(json!({ "outcome": { "outcome": "cancelled" } }));
        }
        let wanted = if is_allowed {
            ["allow_once", "allow_always"]
        } else {
            ["reject_once", "reject_always"]
        };
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let option = wanted.iter().find_map(|kind| options.iter().find(|it| it["kind"] == **kind));
        if !is_allowed {
            if self.denied.len() < DENIED_MAX {
                self.denied.push(format!("{kind}: {what}"));
            }
            let tool = ProgramTool { outcome: "denied".to_owned(), ..tool };
            self.tools.insert(id.to_owned(), (tool.clone(), kind));
            self.event(&ProgramEvent::Tool(tool))?;
        }
        let outcome = match option {
            Some(option) => json!({ "outcome": "selected", "optionId": option["optionId"] }),
            None => json!({ "outcome": "cancelled" }),
        };
        Ok(json!({ "outcome": outcome }))
    }
}

impl Handler for Report<'_> {
    fn notified(&mut self, method: &str, params: &Value) -> io::Result<()> {
        match method {
            "session/update" => self.update(&params["update"])?,
            CLAUDE_MESSAGE => self.cost.claude(&params["message"]),
            _ => {}
        }
        Ok(())
    }

    fn asked(&mut self, method: &str, params: &Value) -> io::Result<Option<Value>> {
        match method {
            "session/request_permission" => self.permission(params).map(Some),
            _ => Ok(None),
        }
    }

    fn ends_turn(&self) -> bool {
        self.question.is_some()
    }
}

/// A failure with the class that its words tell.
pub(super) fn failure(words: &str) -> Value {
    let (class, resets_at) = wording::name(words);
    let mut line = json!({ "error": words, "class": class });
    if let Some(at) = resets_at {
        line["resets_at"] = at.into();
    }
    line
}

/// Whether a text is a known message about a failure.
fn fails(text: &str) -> bool {
    wording::name(text).0 != "other"
}

/// The name of a tool, if it has one besides its title.
fn name(update: &Value) -> Option<String> {
    let meta = &update["_meta"];
    let names =
        [&update["name"], &meta["claudeCode"]["toolName"], &meta["goose"]["toolCall"]["toolName"]];
    names.iter().find_map(|name| name.as_str()).map(str::to_owned)
}

fn summary(input: &Value) -> Option<String> {
    let telling = TELLING.iter().find_map(|name| input.get(name)?.as_str());
    telling.map(excerpt)
}

/// What a person is asked about a tool: all that it would do, and what `allow` holds for. `title` stands for an unknown input.
fn question(kind: &str, input: &Value, title: &str) -> ProgramQuestion {
    let fields = input.as_object().into_iter().flatten();
    let telling: Vec<_> = fields.filter(|(name, _)| *name != "description").collect();
    let whole = match telling[..] {
        [(name, Value::String(only))] if TELLING.contains(&name.as_str()) => only.clone(),
        [] => title.to_owned(),
        _ => serde_json::to_string_pretty(input).unwrap_or_default(),
    };
    if whole.len() > ASKED_BYTES_MAX {
        let text = format!(
            "The coding agent may not use `{kind}`, and what it would do, in {} bytes, is too long to be allowed here. What \
             should it do instead?",
            whole.len()
        );
        return ProgramQuestion { text, ..ProgramQuestion::default() };
    }
    let tool = Some(kind.to_owned());
    let Some(grant) = grant(kind, input) else {
        return ProgramQuestion { text: whole, tool, ..ProgramQuestion::default() };
    };
    let text = format!(
        "{whole}\n\nIn the directory {}. `allow` holds for exactly this there until the next state, whatever the files that it \
         names contain by then.",
        here()
    );
    ProgramQuestion { text, tool, grants: Some(grant), options: Vec::new() }
}

/// What a person allows: exactly this use, in this directory. `None` if the input is not known. Without a comma, which separates
/// what is allowed.
fn grant(kind: &str, input: &Value) -> Option<String> {
    let mut fields = input.as_object().filter(|fields| !fields.is_empty())?.clone();
    fields.retain(|name, _| !IDLE.contains(&name.as_str()));
    let exactly = json!([here(), fields]).to_string();
    Some(format!("{kind}:{}", hex(&Sha256::digest(exactly))))
}

/// The directory of the turn.
fn here() -> String {
    std::env::current_dir().unwrap_or_default().to_string_lossy().into_owned()
}

/// What a tool gave back: its texts, else what it returned.
fn output(update: &Value) -> Option<String> {
    let parts = update["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let texts: Vec<_> = parts.iter().filter_map(|part| part["content"]["text"].as_str()).collect();
    if !texts.is_empty() {
        return Some(bounded(&texts.join("\n")));
    }
    match &update["rawOutput"] {
        Value::Null => None,
        Value::String(text) => Some(bounded(text)),
        other => Some(bounded(&other.to_string())),
    }
}

/// Adds a piece to a text, up to its greatest length.
fn append(text: &mut String, piece: &str) {
    text.push_str(crate::agent::cut(piece, MESSAGE_BYTES_MAX - text.len()).0);
}

fn bounded(text: &str) -> String {
    crate::agent::cut(text, TOOL_TEXT_BYTES_MAX).0.to_owned()
}

#[cfg(test)]
mod tests;
