//! Turns the events of Claude Code into transcript entries that do not depend on it.

use std::{collections::HashMap, path::Path};

use serde_json::Value;

use raymond_flow::{prompt::message_text, text::excerpt};

use super::{
    super::{
        Activity, CHANGE_BYTES_MAX, CHANGES_MAX, Change, DETAIL_BYTES_MAX, Edit, Entry, ToolDetail,
        ToolOutcome, TranscriptReader, cut,
    },
    output::{activity, tool_words},
    permits,
};

/// The text in a tool's result if the tool was not allowed.
const DENIED: [&str; 7] = [
    "requires approval",
    "require approval",
    "needs approval",
    "haven't granted",
    "permission to use",
    "' was blocked",
    permits::DENIED,
];

/// Reads the output of one turn.
pub(super) struct ClaudeReader {
    /// The id of the turn's prompt, until Claude begins it. What a kept process printed before that belongs
    /// to no turn.
    waits_for: Option<String>,
    /// Tools that are at work, by the ids of their use.
    tools: HashMap<String, Tool>,
    /// Whether the turn is over: what follows was not asked for.
    is_over: bool,
}

/// A tool that is at work: its name, its summary, and what it was given.
type Tool = (String, String, Box<ToolDetail>);

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
            "thinking" => {
                let text = text("thinking").filter(|text| !text.trim().is_empty())?;
                Some(Entry::Thinking { text })
            }
            "tool_use" => {
                let (id, name) = (text("id")?, text("name")?);
                let summary = tool_words(&block["input"]);
                let detail = Box::new(given(&block["input"]));
                self.tools.insert(id.clone(), (name.clone(), summary.clone(), detail.clone()));
                Some(Entry::Tool { id, name, summary, outcome: ToolOutcome::Open, detail })
            }
            "tool_result" => {
                let id = text("tool_use_id")?;
                let (name, summary, mut detail) = self.tools.remove(&id)?;
                let text = result_text(block);
                let (kept, rest) = cut(&text, DETAIL_BYTES_MAX);
                (detail.output, detail.output_cut) = (Some(kept.to_owned()), rest);
                Some(Entry::Tool { id, name, summary, outcome: outcome(block), detail })
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
        // Claude repeats a message when the model gets it. If the model had just answered, the turn goes on.
        if kind == "user"
            && let Some(text) = told(&event)
        {
            self.is_over = false;
            return vec![Entry::Message { text }];
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

/// The message of a person that an event repeats.
fn told(event: &Value) -> Option<String> {
    let text = event["message"]["content"][0]["text"].as_str()?;
    message_text(text).filter(|_| event["isReplay"] == true).map(str::to_owned)
}

/// What a tool is given: all of it as JSON, and what it changes in a file.
fn given(input: &Value) -> ToolDetail {
    let text = serde_json::to_string_pretty(input).unwrap_or_default();
    let (kept, rest) = cut(&text, DETAIL_BYTES_MAX);
    ToolDetail {
        input: Some(kept.to_owned()),
        input_cut: rest,
        edit: edit(input),
        ..ToolDetail::default()
    }
}

/// What Claude's tools for files change: `Edit` one part, `MultiEdit` several, `Write` the whole file.
fn edit(input: &Value) -> Option<Edit> {
    fn pair(value: &Value) -> Option<(&str, &str)> {
        Some((value["old_string"].as_str()?, value["new_string"].as_str()?))
    }
    let path = input["file_path"].as_str().or_else(|| input["notebook_path"].as_str())?.to_owned();
    let several = input["edits"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut pairs: Vec<_> = several.iter().take(CHANGES_MAX).filter_map(pair).collect();
    pairs.extend(pair(input));
    pairs.extend(
        input["content"].as_str().or_else(|| input["new_source"].as_str()).map(|new| ("", new)),
    );
    let mut left_out = 0;
    let mut kept = |text| {
        let (kept, rest) = cut(text, CHANGE_BYTES_MAX);
        left_out += rest;
        kept.to_owned()
    };
    let changes = pairs.into_iter().map(|(old, new)| Change { old: kept(old), new: kept(new) });
    let changes: Vec<_> = changes.collect();
    (!changes.is_empty()).then_some(Edit { path, changes, cut: left_out })
}

/// The text of a tool's result.
fn result_text(block: &Value) -> String {
    let content = &block["content"];
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let parts = content.as_array().map(Vec::as_slice).unwrap_or_default();
    let texts = parts.iter().map(|part| match part["text"].as_str() {
        Some(text) => text.to_owned(),
        None => format!("[{}]", part["type"].as_str().unwrap_or("something else")),
    });
    texts.collect::<Vec<_>>().join("\n")
}

fn outcome(block: &Value) -> ToolOutcome {
    if block["is_error"] != Value::Bool(true) {
        return ToolOutcome::Done;
    }
    let text = result_text(block);
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

    fn tool(outcome: ToolOutcome, output: Option<&str>) -> Entry {
        let (id, name) = ("t1".to_owned(), "Bash".to_owned());
        let detail = ToolDetail {
            input: Some("{\n  \"command\": \"cargo test\"\n}".to_owned()),
            output: output.map(str::to_owned),
            ..ToolDetail::default()
        };
        let detail = Box::new(detail);
        Entry::Tool { id, name, summary: "cargo test".to_owned(), outcome, detail }
    }

    #[test]
    fn tool_call_has_an_entry_when_it_begins_and_when_it_ends() {
        let denied = "This command requires approval";
        for (is_error, text, outcome) in [
            (false, "ok", ToolOutcome::Done),
            (true, "exit 1", ToolOutcome::Failed { message: "exit 1".to_owned() }),
            (true, denied, ToolOutcome::Denied { message: denied.to_owned() }),
        ] {
            let line = ended(is_error, text);
            let entries = read(&mut ClaudeReader::new(None), &[TOOL, &line]);
            assert_eq!(entries, [tool(ToolOutcome::Open, None), tool(outcome, Some(text))]);
        }
    }

    #[test]
    fn tool_that_was_not_allowed_is_denied_in_all_words_of_claude() {
        for text in [
            "Claude requested permissions to write to /etc/x, but you haven't granted it yet.",
            "This Bash command contains multiple operations. The following parts require approval: touch a, curl x",
            "cat in '/etc/hostname' was blocked. For security, Claude Code may only concatenate files from the allowed working directories for this session: '/work'.",
            "Write to /etc/x needs approval. The path is outside the working directories of this session.",
        ] {
            let block = serde_json::json!({ "is_error": true, "content": text });
            assert!(matches!(outcome(&block), ToolOutcome::Denied { .. }), "{text}");
        }
        let failed =
            serde_json::json!({ "is_error": true, "content": "Exit code 1\nthe port was blocked" });
        assert!(matches!(outcome(&failed), ToolOutcome::Failed { .. }));
    }

    #[test]
    fn edits_of_files_are_told_as_changes_and_long_texts_are_cut() {
        let used = |input: &str| {
            let line = format!(
                r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"t","name":"Edit","input":{input}}}]}}}}"#
            );
            let entries = read(&mut ClaudeReader::new(None), &[&line]);
            let Some(Entry::Tool { detail, .. }) = entries.into_iter().next() else { panic!() };
            detail
        };
        let change = |old: &str, new: &str| Change { old: old.to_owned(), new: new.to_owned() };
        let changes = |input: &str| used(input).edit.map(|edit| (edit.path, edit.changes));
        let one = changes(r#"{"file_path":"a.rs","old_string":"x","new_string":"y"}"#);
        assert_eq!(one, Some(("a.rs".to_owned(), vec![change("x", "y")])));
        let written = changes(r#"{"file_path":"a.rs","content":"all"}"#);
        assert_eq!(written, Some(("a.rs".to_owned(), vec![change("", "all")])));
        assert_eq!(changes(r#"{"file_path":"a.rs"}"#), None, "only read");
        let long = "ä".repeat(CHANGE_BYTES_MAX);
        let cut = used(&format!(r#"{{"file_path":"a.rs","content":"{long}"}}"#));
        assert!(cut.input.is_some_and(|text| text.len() <= DETAIL_BYTES_MAX));
        assert!(cut.input_cut > CHANGE_BYTES_MAX);
        assert_eq!(cut.edit.map(|edit| edit.cut), Some(CHANGE_BYTES_MAX));
    }

    #[test]
    fn thinking_is_told() {
        let line = r#"{"type":"assistant","message":{"content":[{"type":"thinking","thinking":"hm"},{"type":"thinking","thinking":" "}]}}"#;
        let entries = read(&mut ClaudeReader::new(None), &[line]);
        assert_eq!(entries, [Entry::Thinking { text: "hm".to_owned() }]);
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
    fn message_of_a_person_is_told_and_continues_a_turn_that_was_over() {
        let message = serde_json::json!({
            "type": "user", "uuid": "m", "isReplay": true,
            "message": { "content": [{ "type": "text", "text": raymond_flow::prompt::message("halt") }] },
        });
        let say = r#"{"type":"assistant","message":{"content":[{"type":"text","text":"yes"}]}}"#;
        let lines = [say, r#"{"type":"result"}"#, &message.to_string(), say];
        let (said, told) = ("yes".to_owned(), "halt".to_owned());
        assert_eq!(
            read(&mut ClaudeReader::new(None), &lines),
            [
                Entry::Text { text: said.clone() },
                Entry::Message { text: told },
                Entry::Text { text: said }
            ]
        );
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
