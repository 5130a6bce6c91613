//! The transcript of a step as text.

use std::fmt::Write as _;

use raymond_engine::agent::{Entry, Stream, ToolOutcome};
use raymond_flow::id::StepId;

use super::time;
use crate::out::{clipped, one_line, visible};

/// How much of a text is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    /// All of it.
    Full,
    /// The first lines.
    Short,
}

/// How many lines are shown of a prompt and of any other text, if not all are.
const PROMPT_LINES_MAX: usize = 10;
const TEXT_LINES_MAX: usize = 40;
/// The same of a thought, which is rarely what a reader looks for.
const THOUGHT_LINES_MAX: usize = 3;
/// How much is shown of one line.
const LINE_CHARS_MAX: usize = 2000;

/// The line above the entries of a step.
pub(crate) fn heading(id: &StepId, state: &str, at_ms: u64) -> String {
    format!("== {id}  {}  {}\n", one_line(state), time::stamp(at_ms))
}

/// An entry, with a newline at its end. Empty if there is nothing to show.
pub(crate) fn entry(entry: &Entry, length: Length) -> String {
    match entry {
        Entry::Prompt { text } | Entry::Message { text } => {
            lines("> ", text, PROMPT_LINES_MAX, length)
        }
        Entry::Thinking { text } => lines("~ ", text, THOUGHT_LINES_MAX, length),
        Entry::Text { text } | Entry::Answer { text, .. } => {
            let mut shown = lines("  ", text, TEXT_LINES_MAX, length);
            if let Entry::Answer { tag: Some(tag), .. } = entry {
                let _ = writeln!(shown, "=> {}", one_line(tag));
            }
            shown
        }
        Entry::Tool { name, summary, outcome, .. } => tool(name, summary, outcome),
        Entry::Note { text } => format!("~ {}\n", one_line(text)),
        Entry::Output { stream, text, left_out } => {
            let name = match stream {
                Stream::Stdout => "stdout",
                Stream::Stderr => "stderr",
            };
            let cut = match left_out {
                0 => String::new(),
                bytes => format!(" (the end; {bytes} bytes before it are not shown)"),
            };
            format!("{name}{cut}:\n{}", lines("  ", text, TEXT_LINES_MAX, length))
        }
        Entry::Failure { message } => lines("! ", message, TEXT_LINES_MAX, length),
        Entry::Cost { usd, duration_ms, model } => {
            let duration = time::duration(std::time::Duration::from_millis(*duration_ms));
            let model = model.as_ref().map(|model| format!(", {}", one_line(model)));
            format!("-- {duration}, {usd}{}\n", model.unwrap_or_default())
        }
    }
}

fn tool(name: &str, summary: &str, outcome: &ToolOutcome) -> String {
    let (name, summary) = (one_line(name), one_line(summary));
    match outcome {
        ToolOutcome::Open | ToolOutcome::Done => format!("* {name}: {summary}\n"),
        ToolOutcome::Failed { message } => {
            format!("! {name}: {summary}  failed: {}\n", one_line(message))
        }
        ToolOutcome::Denied { message } => {
            format!("! {name}: {summary}  denied: {}\n", one_line(message))
        }
    }
}

/// A text with `mark` before every line, so that no line of it can be taken for one of ours.
fn lines(mark: &str, text: &str, lines_max: usize, length: Length) -> String {
    let text = text.trim_end();
    let all = text.lines().count();
    let most = if length == Length::Full { usize::MAX } else { lines_max };
    let mut shown = String::new();
    for line in text.lines().take(most) {
        let line = if length == Length::Full { line.into() } else { clipped(line, LINE_CHARS_MAX) };
        let _ = writeln!(shown, "{mark}{}", visible(&line));
    }
    if all > most {
        let _ = writeln!(shown, "{mark}… {} more lines", all - most);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_marked_and_cut_unless_all_is_asked_for() {
        let text = "a\n\u{1b}[2J\n".repeat(8);
        let prompt = Entry::Prompt { text };
        let short = entry(&prompt, Length::Short);
        assert!(short.starts_with("> a\n> \\u{1b}[2J\n"), "{short}");
        assert!(short.ends_with("> … 6 more lines\n"), "{short}");
        assert_eq!(entry(&prompt, Length::Full).lines().count(), 16);
    }

    #[test]
    fn tools_take_one_line_and_say_what_was_denied() {
        let denied = ToolOutcome::Denied { message: "not\ngranted".to_owned() };
        assert_eq!(tool("Bash", "rm x", &denied), "! Bash: rm x  denied: not\\ngranted\n");
        assert_eq!(tool("Bash", "a\nb", &ToolOutcome::Done), "* Bash: a\\nb\n");
    }
}
