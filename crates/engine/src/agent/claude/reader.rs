//! Turns the events of Claude Code into transcript entries that do not depend on it.

use std::{collections::HashMap, path::Path};

use serde_json::Value;

use raymond_flow::text::excerpt;

use super::{
    super::{Activity, Entry, ToolOutcome, TranscriptReader},
    output::{activity, tool_words},
};

/// The text in a tool's result if the tool was not allowed.
const DENIED: [&str; 3] = ["requires approval", "haven't granted", "permission to use"];

/// Reads the output of one turn.
pub(super) struct ClaudeReader {
    /// The id of the turn's prompt, until Claude begins it. What a kept process printed before that belongs
    /// to no turn.
    waits_for: Option<String>,
    /// Running tools, by the ids of their use: name and summary.
    tools: HashMap<String, (String, String)>,
    /// Whether the turn is over: later output belongs to no turn.
    is_over: bool,
}

impl ClaudeReader {
    pub(super) fn new(waits_for: Option<String>) -> Self {
        Self { waits_for, tools: HashMap::new(), is_over: false }
    }

    fn blocks(&mut self, event: &Value) -> Vec<Entry> {
        let content = &event["message"]["content"];
        let blocks = content.as_array().map(Vec::as_slice).unwrap_or_default();
        blocks.iter().filter_map(|block| self.block(block)).collect()
    }

    fn block(&mut self, block: &Value) -> Option<Entry> {
        let text = |name: &str| block[name].as_str().map(str::to_owned);
        match block["type"].as_str()? {
            "text" => Some(Entry::Text { text: text("text")? }),
            "tool_use" => {
                let (id, name) = (text("id")?, text("name")?);
                let summary = tool_words(&block["input"]);
                self.tools.insert(id.clone(), (name.clone(), summary.clone()));
                Some(Entry::Tool { id, name, summary, outcome: ToolOutcome::Open })
            }
            "tool_result" => {
                let id = text("tool_use_id")?;
                let (name, summary) = self.tools.remove(&id)?;
                Some(Entry::Tool { id, name, summary, outcome: outcome(block) })
            }
            _ => None,
        }
    }
}

impl TranscriptReader for ClaudeReader {
    fn line(&mut self, line: &[u8]) -> Vec<Entry> {
        let Ok(event) = serde_json::from_slice::<Value>(line) else {
            return Vec::new();
        };
        let kind = event["type"].as_str().unwrap_or_default();
        if self.waits_for.is_some()
            && kind == "user"
            && event["uuid"].as_str() == self.waits_for.as_deref()
        {
            self.waits_for = None;
            return Vec::new();
        }
        // The work of a subagent is shown as the tool that started it.
        if self.waits_for.is_some() || self.is_over || !event["parent_tool_use_id"].is_null() {
            return Vec::new();
        }
        match kind {
            "assistant" => self.blocks(&event),
            // Claude repeats the prompt; only results of tools are new.
            "user" => {
                let mut entries = self.blocks(&event);
                entries.retain(|entry| matches!(entry, Entry::Tool { .. }));
                entries
            }
            "result" => {
                self.is_over = true;
                Vec::new()
            }
            _ => match activity(line) {
                Some(Activity::Waits(text)) => vec![Entry::Note { text }],
                _ => Vec::new(),
            },
        }
    }
}

fn outcome(block: &Value) -> ToolOutcome {
    if block["is_error"] != Value::Bool(true) {
        return ToolOutcome::Done;
    }
    let content = &block["content"];
    let text = content.as_str().or_else(|| content[0]["text"].as_str()).unwrap_or_default();
    let message = excerpt(text.trim().lines().next().unwrap_or_default());
    if DENIED.iter().any(|words| text.contains(words)) {
        ToolOutcome::Denied { message }
    } else {
        ToolOutcome::Failed { message }
    }
}

/// The text of a prompt, from what was written to standard input.
pub(super) fn prompt(stdin: &str) -> String {
    let message: Value = serde_json::from_str(stdin.trim()).unwrap_or_default();
    let content = &message["message"]["content"];
    let text = content.as_str().or_else(|| content[0]["text"].as_str());
    text.unwrap_or(stdin).to_owned()
}

/// The reader of the turn whose prompt is in the file `stdin`. `is_first` says whether it is the first turn of
/// its process.
pub(super) fn reader(stdin: &Path, is_first: bool) -> ClaudeReader {
    let waits_for = if is_first { None } else { super::command::prompt_id(stdin) };
    ClaudeReader::new(waits_for)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut ClaudeReader, lines: &[&str]) -> Vec<Entry> {
        lines.iter().flat_map(|line| reader.line(line.as_bytes())).collect()
    }

    const TOOL: &str = r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"cargo test"}}]},"parent_tool_use_id":null}"#;

    fn ended(is_error: bool, text: &str) -> String {
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t1","content":"{text}","is_error":{is_error}}}]}},"parent_tool_use_id":null}}"#
        )
    }

    fn tool(outcome: ToolOutcome) -> Entry {
        let (id, name) = ("t1".to_owned(), "Bash".to_owned());
        Entry::Tool { id, name, summary: "cargo test".to_owned(), outcome }
    }

    #[test]
    fn tool_is_told_when_it_begins_and_when_it_ends() {
        let denied = "This command requires approval";
        for (line, outcome) in [
            (ended(false, "ok"), ToolOutcome::Done),
            (ended(true, "exit 1"), ToolOutcome::Failed { message: "exit 1".to_owned() }),
            (ended(true, denied), ToolOutcome::Denied { message: denied.to_owned() }),
        ] {
            let entries = read(&mut ClaudeReader::new(None), &[TOOL, &line]);
            assert_eq!(entries, [tool(ToolOutcome::Open), tool(outcome)]);
        }
    }

    #[test]
    fn later_turn_of_a_process_has_only_what_follows_its_own_prompt() {
        let text = |text: &str| {
            format!(
                r#"{{"type":"assistant","message":{{"content":[{{"type":"text","text":"{text}"}}]}}}}"#
            )
        };
        let lines = [
            text("unasked"),
            r#"{"type":"user","uuid":"p2","isReplay":true,"message":{"content":[{"type":"text","text":"on"}]}}"#.to_owned(),
            text("mine"),
            r#"{"type":"result","result":"mine"}"#.to_owned(),
            text("later"),
        ];
        let lines: Vec<_> = lines.iter().map(String::as_str).collect();
        let entries = read(&mut ClaudeReader::new(Some("p2".to_owned())), &lines);
        assert_eq!(entries, [Entry::Text { text: "mine".to_owned() }]);
    }

    #[test]
    fn subagents_and_garbage_are_passed_over() {
        let inner = TOOL.replace("null", "\"t0\"");
        let lines = [&*inner, "not json", "{}", r#"{"type":"system","subtype":"init"}"#];
        assert_eq!(read(&mut ClaudeReader::new(None), &lines), []);
    }

    #[test]
    fn prompt_is_read_from_what_claude_was_given() {
        let stdin =
            r#"{"uuid":"1","type":"user","message":{"content":[{"type":"text","text":"Do\nit"}]}}"#;
        assert_eq!(prompt(stdin), "Do\nit");
        assert_eq!(prompt("plain words"), "plain words");
    }
}
