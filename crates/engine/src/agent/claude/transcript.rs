//! The transcript of a session on disk: where it is, what it already contains, and what it says that the session has cost.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use raymond_flow::{
    id::SessionId,
    machine::Message,
    prompt::{self, before_messages},
};
use serde::Deserialize;
use serde_json::Value;

use super::{
    super::lines::{each_line, lenient, object},
    SessionPart,
    event::{ClaudeMessage, Total},
    unpaid::Written,
};

/// A record of a transcript, with the fields that matter here. There are many more kinds of records, and some repeat a
/// prompt.
#[derive(Default, Deserialize)]
#[serde(default)]
struct TranscriptRecord {
    #[serde(rename = "type", deserialize_with = "lenient")]
    kind: String,
    /// Whether it belongs to a subagent.
    #[serde(rename = "isSidechain", deserialize_with = "lenient")]
    is_aside: bool,
    message: Value,
    #[serde(deserialize_with = "lenient")]
    uuid: Option<String>,
    attachment: Value,
    #[serde(rename = "promptId", deserialize_with = "lenient")]
    prompt_id: Option<String>,
    /// Of a `cost-state`, with which a process leaves a session: what the session has cost.
    #[serde(rename = "totalCostUSD", deserialize_with = "lenient")]
    total_cost_usd: Option<f64>,
    #[serde(rename = "modelUsage")]
    model_usage: Value,
}

/// The transcript file of a session.
pub(super) struct SessionFile {
    path: PathBuf,
}

/// Where Claude keeps the transcript of a session that was begun in the directory `cwd`.
pub(super) fn path(config_dir: &Path, cwd: &str, id: &SessionId) -> String {
    let project = cwd.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let path = config_dir.join("projects").join(project).join(format!("{id}.jsonl"));
    path.to_string_lossy().into_owned()
}

/// The parts of a session that was begun in the directory `cwd`: its transcript, the directory beside it with those of
/// its subagents and with long outputs of tools, and its list of tasks.
pub(super) fn parts(config_dir: &Path, cwd: &str, id: &SessionId) -> Vec<SessionPart> {
    let transcript = PathBuf::from(path(config_dir, cwd, id));
    let beside = transcript.with_extension("");
    let tasks = config_dir.join("tasks").join(id.as_str());
    let part = |(name, path): (&str, PathBuf)| SessionPart { name: name.to_owned(), path };
    [("transcript.jsonl", transcript), ("session", beside), ("tasks", tasks)].map(part).to_vec()
}

/// What the session of the transcript at `path` had cost before the prompt with this id, as the last process said that left it before:
/// with that the next process begins its sums. A prompt of another session is in none of its records.
pub(super) fn saved_total(path: &Path, prompt: Option<&str>) -> Option<Total> {
    let mut total = None;
    let mut is_over = false;
    let read = each_line(path, u64::MAX, |line| {
        let Some(record) = object::<TranscriptRecord>(line) else { return };
        is_over |= prompt.is_some() && record.uuid.as_deref() == prompt;
        if let Some(dollars) = record.total_cost_usd.filter(|_| !is_over) {
            total = Some(Total::saved(dollars, &record.model_usage));
        }
    });
    read.ok().and(total)
}

impl SessionFile {
    /// What it and the transcripts of its subagents say of the time since the prompt with this id.
    pub(super) fn written_since(&self, prompt: &str) -> Written {
        let mut written = Written::default();
        // Claude has another id for the prompt, which the transcripts of subagents name, too.
        let mut prompts = BTreeSet::new();
        let mut is_meant = false;
        // As much as can be read.
        let _ = each_line(&self.path, u64::MAX, |line| {
            let Some(record) = object::<TranscriptRecord>(line) else { return };
            is_meant |= record.uuid.as_deref() == Some(prompt);
            if is_meant {
                record.add_to(&mut written);
                prompts.extend(record.prompt_id);
            }
        });
        let beside = fs::read_dir(self.path.with_extension("").join("subagents"));
        for path in beside.into_iter().flatten().flatten().map(|entry| entry.path()) {
            is_meant = false;
            let _ = each_line(&path, u64::MAX, |line| {
                let Some(record) = object::<TranscriptRecord>(line) else { return };
                is_meant = record.prompt_id.as_ref().map_or(is_meant, |id| prompts.contains(id));
                if is_meant {
                    record.add_to(&mut written);
                }
            });
        }
        written
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The transcript of session `id`, if it has one. Ids are unique, so the directory, whose name Claude
    /// derives from the working directory, need not be known.
    pub(super) fn find(config_dir: &Path, id: &SessionId) -> Option<Self> {
        let projects = fs::read_dir(config_dir.join("projects")).ok()?;
        let name = format!("{id}.jsonl");
        let mut paths = projects.flatten().map(|project| project.path().join(&name));
        paths.find(|path| path.is_file()).map(|path| Self { path })
    }

    /// Whether it contains `prompt` without an answer, with whatever messages of people. The same prompt may occur several
    /// times in a session, so only its last occurrence counts.
    pub(super) fn is_left_at(&self, prompt: &str) -> bool {
        let mut is_left = false;
        let prompt = before_messages(prompt);
        let is_meant = |text: &str| {
            let before = before_messages(text);
            before == prompt || before.is_empty() && !text.is_empty()
        };
        let read = each_line(&self.path, u64::MAX, |line| {
            let Some(record) = object::<TranscriptRecord>(line) else { return };
            match record.kind.as_str() {
                _ if record.is_aside => {}
                // A message of a person is a prompt of its own if the one before was just answered.
                "user" if text_of(&record.message["content"]).is_some_and(is_meant) => {
                    is_left = true;
                }
                _ if record.ends_turn() => is_left = false,
                _ => {}
            }
        });
        read.is_ok() && is_left
    }

    /// Those of these messages that the model does not get when the session is resumed: Claude may tell that the model has a
    /// message before it has written that down. Of a turn that was killed, it resumes only the prompt, so that what came with
    /// the result of a tool is lost although it is written down.
    pub(super) fn lacks<'a>(&self, messages: &'a [Message], was_killed: bool) -> Vec<&'a Message> {
        let mut lacking: Vec<_> = messages.iter().collect();
        let mut unanswered = Vec::new();
        if lacking.is_empty() {
            return lacking;
        }
        let _ = each_line(&self.path, u64::MAX, |line| {
            let Some(record) = object::<TranscriptRecord>(line) else { return };
            if record.ends_turn() {
                unanswered.clear();
            }
            let is_lost = was_killed && record.kind == "attachment";
            lacking.retain(|message| {
                let has = record.has(message);
                if has && is_lost {
                    unanswered.push(*message);
                }
                !has
            });
        });
        messages.iter().filter(|one| lacking.contains(one) || unanswered.contains(one)).collect()
    }
}

impl TranscriptRecord {
    /// Adds the call of a model, or what the session has cost.
    fn add_to(&self, written: &mut Written) {
        if let Some(message) = self.message.as_object().filter(|_| self.kind == "assistant") {
            written.calls.see(&ClaudeMessage::deserialize(message).unwrap_or_default());
        }
        if let Some(dollars) = self.total_cost_usd {
            written.saved = Some(Total::saved(dollars, &self.model_usage));
        }
    }

    /// Whether it is the answer of a turn: the last message of a model, or the structured output that is asked of the turn.
    fn ends_turn(&self) -> bool {
        let is_answer = match self.kind.as_str() {
            "assistant" => self.message["stop_reason"] == "end_turn",
            "attachment" => self.attachment["type"] == "structured_output",
            _ => false,
        };
        is_answer && !self.is_aside
    }

    /// Whether it hands `message` to the model: by itself, with the result of a tool, or in a prompt.
    fn has(&self, message: &Message) -> bool {
        match self.kind.as_str() {
            "attachment" => self.attachment["source_uuid"] == *message.id,
            "user" => {
                let text = text_of(&self.message["content"]).unwrap_or_default();
                self.uuid.as_ref() == Some(&message.id)
                    || text.contains(&prompt::message(&message.text))
            }
            _ => false,
        }
    }
}

/// The text of a message that consists of a text.
fn text_of(content: &Value) -> Option<&str> {
    let block =
        content.as_array().filter(|blocks| blocks.len() == 1).map(|blocks| &blocks[0]["text"]);
    block.unwrap_or(content).as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_session_lie_below_the_name_of_its_directory() {
        let id = SessionId::new("5f0c");
        let parts = parts(Path::new("/home/u/.claude"), "/work/a.b", &id);
        let paths: Vec<_> = parts.iter().map(|part| part.path.to_str().unwrap()).collect();
        let project = "/home/u/.claude/projects/-work-a-b/5f0c";
        assert_eq!(paths, [&format!("{project}.jsonl"), project, "/home/u/.claude/tasks/5f0c"]);
    }

    #[test]
    fn transcript_is_found_in_any_project_and_shows_unanswered_prompts() {
        let folder = tempfile::tempdir().unwrap();
        let id = SessionId::new("5f0c");
        assert!(SessionFile::find(folder.path(), &id).is_none());
        let project = folder.path().join("projects/-some-where");
        fs::create_dir_all(&project).unwrap();
        assert!(SessionFile::find(folder.path(), &id).is_none());
        let line = r#"{"isSidechain":false,"message":{"content":[{"type":"text","text":"say \"hi\"\nto ünïcode"}]},"type":"user"}"#;
        let path = project.join("5f0c.jsonl");
        fs::write(&path, line).unwrap();
        let transcript = SessionFile::find(folder.path(), &id).unwrap();
        let prompt = "say \"hi\"\nto ünïcode";
        assert!(transcript.is_left_at(prompt));
        assert!(!transcript.is_left_at("say"));
        let add = |more: &str| {
            let known = fs::read_to_string(&path).unwrap();
            fs::write(&path, format!("{known}\n{more}")).unwrap();
        };
        add(
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use"}],"stop_reason":"tool_use"}}"#,
        );
        add(r#"{"type":"user","message":{"content":"a \"stop_reason\":\"end_turn\""}}"#);
        add(r#"{"type":"assistant","isSidechain":true,"message":{"stop_reason":"end_turn"}}"#);
        add("not json");
        assert!(transcript.is_left_at(prompt));
        add(
            r#"{"type":"assistant","message":{"content":[{"text":"hi"}],"stop_reason":"end_turn"}}"#,
        );
        assert!(!transcript.is_left_at(prompt));
        add(
            r#"{"type":"user","message":{"content":"A message for you from the user, sent while you were at work:\n\nhalt"}}"#,
        );
        assert!(transcript.is_left_at(prompt), "a message after the answer has no answer yet");
        add(r#"{"type":"assistant","message":{"content":[],"stop_reason":"end_turn"}}"#);
        // Newer versions repeat the prompt after its answer.
        add(r#"{"type":"last-prompt","lastPrompt":"say \"hi\"\nto ünïcode"}"#);
        assert!(!transcript.is_left_at(prompt));
        add(line);
        assert!(transcript.is_left_at(prompt));
    }

    #[test]
    fn session_had_cost_what_the_last_process_said_that_left_it_before_the_prompt() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let left = |dollars: f64, input: u64| {
            let usage = serde_json::json!({ "m": { "inputTokens": input, "costUSD": dollars } });
            serde_json::json!({ "modelUsage": usage, "totalCostUSD": dollars, "type": "cost-state" })
                .to_string()
        };
        let prompt = |id: &str| format!(r#"{{"uuid":"{id}","type":"user"}}"#);
        let lines =
            [prompt("a"), left(0.25, 1000), prompt("b"), prompt("c"), left(0.5, 2000), prompt("d")];
        fs::write(&path, lines.join("\n")).unwrap();
        let before = |prompt| saved_total(&path, prompt);
        let saved = |dollars: f64, input: u64| {
            let usage = serde_json::json!({ "m": { "inputTokens": input } });
            Some(Total::saved(dollars, &usage))
        };
        assert_eq!(before(Some("a")), None);
        assert_eq!(before(Some("b")), saved(0.25, 1000));
        assert_eq!(before(Some("c")), saved(0.25, 1000), "the process of b was killed");
        assert_eq!(before(Some("d")), saved(0.5, 2000));
        assert_eq!(before(Some("of a branch")), saved(0.5, 2000));
        assert_eq!(saved_total(&folder.path().join("none"), None), None);
    }

    #[test]
    fn message_is_in_a_transcript_only_where_the_model_got_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let message = |id: &str, text: &str| Message {
            id: id.to_owned(),
            text: text.to_owned(),
            by: "anna".to_owned(),
        };
        let messages = [message("u1", "one"), message("u2", "two"), message("u3", "three")];
        let in_prompt = prompt::with_messages("do it".to_owned(), [&messages[2]]);
        let lines = [
            r#"{"type":"queue-operation","operation":"enqueue","content":"one","uuid":"u1"}"#
                .to_owned(),
            r#"{"type":"attachment","attachment":{"type":"queued_command","source_uuid":"u2"}}"#
                .to_owned(),
            serde_json::json!({ "type": "user", "message": { "content": in_prompt } }).to_string(),
        ];
        fs::write(&path, lines.join("\n")).unwrap();
        let file = SessionFile { path: path.clone() };
        assert_eq!(file.lacks(&messages, false), [&messages[0]]);
        assert_eq!(file.lacks(&messages, true), [&messages[0], &messages[1]]);
        let answer = r#"{"type":"assistant","message":{"content":[],"stop_reason":"end_turn"}}"#;
        fs::write(&path, [&lines[..], &[answer.to_owned()]].concat().join("\n")).unwrap();
        assert_eq!(file.lacks(&messages, true), [&messages[0]], "that turn was not killed");
        fs::write(&path, r#"{"type":"user","uuid":"u1","message":{"content":"x"}}"#).unwrap();
        assert_eq!(file.lacks(&messages, true), [&messages[1], &messages[2]]);
    }
}
