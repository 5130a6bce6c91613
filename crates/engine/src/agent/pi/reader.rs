//! Turns the events of pi into transcript entries and activities that do not depend on it.

use std::collections::HashMap;

use raymond_flow::text::excerpt;
use serde_json::Value;

use super::output::{PiBlock, PiEvent};
use crate::agent::{
    Activity, Change, DETAIL_BYTES_MAX, Edit, Entry, ToolDetail, ToolOutcome, TranscriptReader,
    cut, lines::object,
};

/// Reads the output of one turn.
#[derive(Default)]
pub(super) struct PiReader {
    /// What the tools at work were given, by the ids of their calls.
    tools: HashMap<String, (String, Box<ToolDetail>)>,
}

impl TranscriptReader for PiReader {
    fn line(&mut self, line: &[u8]) -> Vec<Entry> {
        let Some(event) = object::<PiEvent>(line) else {
            return Vec::new();
        };
        match event.kind.as_str() {
            "message_end" if event.message.role == "assistant" => {
                event.message.blocks().iter().filter_map(said).collect()
            }
            "tool_execution_start" => {
                let (id, name) = (event.tool_call_id, event.tool_name);
                let (summary, detail) = (summary(&event.args), Box::new(given(&event.args)));
                self.tools.insert(id.clone(), (summary.clone(), detail.clone()));
                vec![Entry::Tool { id, name, summary, outcome: ToolOutcome::Open, detail }]
            }
            "tool_execution_end" => {
                let (id, name) = (event.tool_call_id, event.tool_name);
                let (summary, mut detail) = self.tools.remove(&id).unwrap_or_default();
                let texts: Vec<_> =
                    event.result.content.iter().map(|block| block.text.as_str()).collect();
                let text = texts.join("\n");
                let (kept, rest) = cut(&text, DETAIL_BYTES_MAX);
                (detail.output, detail.output_cut) = (Some(kept.to_owned()), rest);
                let first = text.trim().lines().next().unwrap_or_default();
                let outcome = if event.is_error {
                    ToolOutcome::Failed { message: excerpt(first) }
                } else {
                    ToolOutcome::Done
                };
                vec![Entry::Tool { id, name, summary, outcome, detail }]
            }
            "auto_retry_start" => vec![Entry::Note { text: event.error_message }],
            _ => Vec::new(),
        }
    }
}

fn said(block: &PiBlock) -> Option<Entry> {
    match block.kind.as_str() {
        "text" if !block.text.is_empty() => Some(Entry::Text { text: block.text.clone() }),
        "thinking" if !block.thinking.trim().is_empty() => {
            Some(Entry::Thinking { text: block.thinking.clone() })
        }
        _ => None,
    }
}

/// What a tool is used on, in one line.
fn summary(arguments: &Value) -> String {
    const TELLING: [&str; 4] = ["command", "path", "pattern", "url"];
    let telling = TELLING.iter().find_map(|name| arguments.get(name)?.as_str());
    excerpt(telling.unwrap_or_default())
}

fn given(arguments: &Value) -> ToolDetail {
    let text = serde_json::to_string_pretty(arguments).unwrap_or_default();
    let (kept, rest) = cut(&text, DETAIL_BYTES_MAX);
    let written = arguments["content"].as_str().zip(arguments["path"].as_str());
    let edit = written.map(|(new, path)| {
        let (kept, rest) = cut(new, crate::agent::CHANGE_BYTES_MAX);
        let change = Change { old: String::new(), new: kept.to_owned() };
        Edit { path: path.to_owned(), changes: vec![change], cut: rest }
    });
    ToolDetail { input: Some(kept.to_owned()), input_cut: rest, edit, ..ToolDetail::default() }
}

/// What a line says about the running turn.
pub(super) fn activity(line: &[u8]) -> Option<Activity> {
    let event: PiEvent = object(line)?;
    match event.kind.as_str() {
        "tool_execution_start" => {
            let what = summary(&event.args);
            Some(Activity::Uses { tool: event.tool_name, what })
        }
        "message_end" if event.message.role == "assistant" => {
            let text = event.message.text();
            let text = text.trim();
            (!text.is_empty()).then(|| Activity::Says(excerpt(text)))
        }
        "auto_retry_start" => Some(Activity::Waits(excerpt(&event.error_message))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = r#"{"type":"tool_execution_start","toolCallId":"t1","toolName":"bash","args":{"command":"echo hi"}}"#;
    const ENDED: &str = r#"{"type":"tool_execution_end","toolCallId":"t1","toolName":"bash","result":{"content":[{"type":"text","text":"hi\n"}]},"isError":false}"#;

    fn read(lines: &[&str]) -> Vec<Entry> {
        let mut reader = PiReader::default();
        lines.iter().flat_map(|line| reader.line(line.as_bytes())).collect()
    }

    #[test]
    fn tool_has_an_entry_when_it_begins_and_when_it_ends() {
        let tool = |outcome, output: Option<&str>| Entry::Tool {
            id: "t1".to_owned(),
            name: "bash".to_owned(),
            summary: "echo hi".to_owned(),
            outcome,
            detail: Box::new(ToolDetail {
                input: Some("{\n  \"command\": \"echo hi\"\n}".to_owned()),
                output: output.map(str::to_owned),
                ..ToolDetail::default()
            }),
        };
        let failed = ENDED.replace("false", "true");
        assert_eq!(
            read(&[STARTED, ENDED, STARTED, &failed]),
            [
                tool(ToolOutcome::Open, None),
                tool(ToolOutcome::Done, Some("hi\n")),
                tool(ToolOutcome::Open, None),
                tool(ToolOutcome::Failed { message: "hi".to_owned() }, Some("hi\n")),
            ]
        );
    }

    #[test]
    fn texts_and_thoughts_are_told() {
        let line = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"hello"}]}}"#;
        let (hm, hello) = ("hm".to_owned(), "hello".to_owned());
        let expected = [Entry::Thinking { text: hm }, Entry::Text { text: hello.clone() }];
        assert_eq!(read(&[line]), expected);
        assert_eq!(read(&[&line.replace("assistant", "user"), "garbage"]), []);
        assert_eq!(activity(line.as_bytes()), Some(Activity::Says(hello)));
    }

    #[test]
    fn transcript_depends_on_no_order_and_no_further_keys_or_lines() {
        let usual = read(&[STARTED, ENDED]);
        crate::agent::variants::each_variant(&[STARTED, ENDED], |variant| {
            assert_eq!(read(variant), usual, "{variant:#?}");
        });
    }
}
