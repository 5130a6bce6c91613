//! Turns the events of Codex into transcript entries and activities that do not depend on it.

use raymond_flow::text::excerpt;

use super::output::{CodexEvent, CodexItem};
use crate::agent::{
    Activity, DETAIL_BYTES_MAX, Entry, ToolDetail, ToolOutcome, TranscriptReader, cut,
    lines::object,
};

/// How Codex starts a command: the command itself follows in quotes.
const SHELLS: [&str; 2] = ["/bin/bash -lc ", "bash -lc "];

/// Reads the output of one turn.
pub(super) struct CodexReader;

impl TranscriptReader for CodexReader {
    fn line(&mut self, line: &[u8]) -> Vec<Entry> {
        let Some(event) = object::<CodexEvent>(line) else {
            return Vec::new();
        };
        let is_done = event.kind == "item.completed";
        let entry = match (event.kind.as_str(), event.item.kind.as_str()) {
            ("error", _) => Some(Entry::Note { text: event.message }),
            ("item.started" | "item.completed", _) => entry(event.item, is_done),
            _ => None,
        };
        entry.into_iter().collect()
    }
}

fn entry(item: CodexItem, is_done: bool) -> Option<Entry> {
    match item.kind.as_str() {
        "agent_message" => Some(Entry::Text { text: item.text }),
        "reasoning" if is_done => Some(Entry::Thinking { text: item.text }),
        "error" => Some(Entry::Note { text: item.message }),
        _ => {
            let (name, summary) = tool(&item)?;
            let outcome = match (is_done, item.status.as_str(), item.exit_code) {
                (false, ..) => ToolOutcome::Open,
                (_, "declined", _) => {
                    ToolOutcome::Denied { message: excerpt(item.aggregated_output.trim()) }
                }
                (_, _, Some(code)) if code != 0 => {
                    ToolOutcome::Failed { message: format!("exit code {code}") }
                }
                (_, "failed", _) => ToolOutcome::Failed { message: "failed".to_owned() },
                _ => ToolOutcome::Done,
            };
            let detail = detail(&item, is_done);
            Some(Entry::Tool { id: item.id, name, summary, outcome, detail: Box::new(detail) })
        }
    }
}

/// The name of the tool that the item is a use of, and what it is used on.
fn tool(item: &CodexItem) -> Option<(String, String)> {
    let (name, what) = match item.kind.as_str() {
        "command_execution" => ("shell".to_owned(), command(&item.command)),
        "file_change" => {
            let changes = item.changes.iter();
            let paths: Vec<_> =
                changes.map(|change| format!("{} {}", change.kind, change.path)).collect();
            ("edit".to_owned(), paths.join(", "))
        }
        "mcp_tool_call" => (format!("{}.{}", item.server, item.tool), item.arguments.to_string()),
        "web_search" => ("web_search".to_owned(), item.query.clone()),
        _ => return None,
    };
    Some((name, excerpt(what.trim())))
}

fn detail(item: &CodexItem, is_done: bool) -> ToolDetail {
    let given = match item.kind.as_str() {
        "command_execution" => Some(command(&item.command)),
        "mcp_tool_call" => Some(item.arguments.to_string()),
        _ => None,
    };
    let (input, input_cut) = kept(given);
    let output = item.aggregated_output.clone();
    let (output, output_cut) = kept((is_done && !output.is_empty()).then_some(output));
    ToolDetail { input, input_cut, output, output_cut, edit: None }
}

fn kept(text: Option<String>) -> (Option<String>, usize) {
    let Some(text) = text else { return (None, 0) };
    let (kept, rest) = cut(&text, DETAIL_BYTES_MAX);
    (Some(kept.to_owned()), rest)
}

/// The command without the shell that runs it.
fn command(line: &str) -> String {
    let inner = SHELLS.iter().find_map(|shell| line.strip_prefix(shell)).unwrap_or(line);
    let quoted = |quote: char| inner.strip_prefix(quote)?.strip_suffix(quote);
    quoted('\'').or_else(|| quoted('"')).unwrap_or(inner).to_owned()
}

/// What a line says about the running turn.
pub(super) fn activity(line: &[u8]) -> Option<Activity> {
    let event: CodexEvent = object(line)?;
    match event.kind.as_str() {
        "error" => Some(Activity::Waits(excerpt(event.message.trim()))),
        "item.started" => {
            let (tool, what) = tool(&event.item)?;
            Some(Activity::Uses { tool, what })
        }
        "item.completed" if event.item.kind == "agent_message" => {
            Some(Activity::Says(excerpt(event.item.text.trim())))
        }
        "item.completed" if event.item.kind == "file_change" => {
            let (tool, what) = tool(&event.item)?;
            Some(Activity::Uses { tool, what })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = r#"{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"/bin/bash -lc 'cat a.txt'","aggregated_output":"","exit_code":null,"status":"in_progress"}}"#;

    fn ended(exit_code: i32) -> String {
        STARTED
            .replace("item.started", "item.completed")
            .replace("\"aggregated_output\":\"\"", "\"aggregated_output\":\"hi\"")
            .replace("null", &exit_code.to_string())
            .replace("in_progress", if exit_code == 0 { "completed" } else { "failed" })
    }

    fn read(lines: &[&str]) -> Vec<Entry> {
        lines.iter().flat_map(|line| CodexReader.line(line.as_bytes())).collect()
    }

    #[test]
    fn command_has_an_entry_when_it_begins_and_when_it_ends() {
        let tool = |outcome, output: Option<&str>| Entry::Tool {
            id: "item_1".to_owned(),
            name: "shell".to_owned(),
            summary: "cat a.txt".to_owned(),
            outcome,
            detail: Box::new(ToolDetail {
                input: Some("cat a.txt".to_owned()),
                output: output.map(str::to_owned),
                ..ToolDetail::default()
            }),
        };
        let failed = ToolOutcome::Failed { message: "exit code 3".to_owned() };
        assert_eq!(
            read(&[STARTED, &ended(0), &ended(3)]),
            [
                tool(ToolOutcome::Open, None),
                tool(ToolOutcome::Done, Some("hi")),
                tool(failed, Some("hi"))
            ]
        );
    }

    #[test]
    fn messages_thoughts_changes_and_warnings_are_told() {
        let item = |fields: &str| format!("{{\"type\":\"item.completed\",\"item\":{{{fields}}}}}");
        let entries = read(&[
            &item("\"type\":\"agent_message\",\"text\":\"hello\""),
            &item("\"type\":\"reasoning\",\"text\":\"hm\""),
            &item("\"type\":\"error\",\"message\":\"careful\""),
            r#"{"type":"error","message":"Reconnecting... 1/5"}"#,
            "not json",
            r#"{"type":"turn.started"}"#,
        ]);
        let text = |text: &str| text.to_owned();
        assert_eq!(
            entries,
            [
                Entry::Text { text: text("hello") },
                Entry::Thinking { text: text("hm") },
                Entry::Note { text: text("careful") },
                Entry::Note { text: text("Reconnecting... 1/5") },
            ]
        );
        let change = item(
            "\"id\":\"i\",\"type\":\"file_change\",\"status\":\"completed\",\"changes\":[{\"path\":\"a.rs\",\"kind\":\"update\"}]",
        );
        assert!(
            matches!(&read(&[&change])[..], [Entry::Tool { name, summary, .. }] if name == "edit" && summary == "update a.rs")
        );
    }

    #[test]
    fn activity_is_the_tool_the_message_or_the_wait() {
        let uses = Activity::Uses { tool: "shell".to_owned(), what: "cat a.txt".to_owned() };
        assert_eq!(activity(STARTED.as_bytes()), Some(uses));
        let wait = br#"{"type":"error","message":"Reconnecting... 1/5"}"#;
        assert_eq!(activity(wait), Some(Activity::Waits("Reconnecting... 1/5".to_owned())));
        assert_eq!(activity(ended(0).as_bytes()), None);
        assert_eq!(activity(b"{}"), None);
    }

    #[test]
    fn transcript_depends_on_no_order_and_no_further_keys_or_lines() {
        let lines = [STARTED, &ended(0), STARTED, &ended(3)];
        let usual = read(&lines);
        crate::agent::variants::each_variant(&lines, |variant| {
            assert_eq!(read(variant), usual, "{variant:#?}");
        });
    }
}
