//! A question to a person, in lines.

use std::borrow::Cow;

use raymond_engine::asks::{PublishedQuestion, ShownFile};
use raymond_flow::{
    id::{RunId, StateName},
    policy::Question,
};
use serde_json::{Value, json};

use super::{next::Next, time, words::Mark};
use crate::{
    line::{Line, Style},
    out, quote,
};

/// The question with its choices, files, deadline and the command that answers it.
pub(crate) fn question_lines(question: &PublishedQuestion, next: &Next) -> Vec<Line> {
    let mut lines = asked_lines(question);
    let labels = question.choices.iter().map(|choice| choice.label.as_str());
    let mut commands = next.answers(&question.id, labels).into_iter();
    lines.extend(commands.next().map(|first| Line::of("    Answer it: ").add(Style::Name, first)));
    lines.extend(commands.map(|other| Line::of("           or: ").add(Style::Name, other)));
    lines
}

/// The question with its choices, files and deadline.
pub(crate) fn asked_lines(question: &PublishedQuestion) -> Vec<Line> {
    let head = Mark::Asks.line().plain(" ").add(Style::Name, &question.id);
    let head = head.plain("  ").add(Style::Bold, question.state.stem()).plain(" asks:");
    let mut lines = vec![head];
    let text = out::distinct(&question.text);
    lines.extend(text.lines().map(|line| Line::quoted("    ", line)));
    lines.extend(choices("    ", question.choices.iter().map(|it| (&*it.label, &it.to))));
    for ShownFile { path, copy, bytes, error, .. } in &question.attachments {
        let line = Line::of("    ").add(Style::Name, shown(path));
        let line = match error {
            None => line.dim(format!("  {bytes} bytes  {}", shown(copy))),
            Some(error) => line.add(Style::Warning, format!("  cannot be shown: {error}")),
        };
        lines.push(line.with_margin("    "));
    }
    if let (Some(default), Some(at)) = (&question.default, question.deadline_ms) {
        // With the date: it may be days away.
        let text = format!("    at {} the answer is: ", time::stamp(at));
        lines.push(Line::new().dim(text).plain(shown(default)).with_margin("    "));
    }
    lines
}

/// An open question as the run knows it, below what says who asks: its text if `whole` is set, where each choice leads, its
/// files.
pub(crate) fn open_lines(question: &Question, whole: bool) -> Vec<Line> {
    let text = out::distinct(&question.text);
    let text = text.lines().filter(|_| whole).map(|line| Line::quoted("      ", line));
    let choices = choices("      ", question.choices.iter().map(|it| (&*it.label, &it.target)));
    let files = question.attach.iter();
    let files = files.map(|path| {
        let line = Line::of("      attached: ").add(Style::Name, shown(path));
        line.with_margin("      ")
    });
    text.chain(choices).chain(files).collect()
}

/// The choices of a question with their keys, and where each leads.
fn choices<'q>(
    indent: &str,
    choices: impl Iterator<Item = (&'q str, &'q StateName)>,
) -> impl Iterator<Item = Line> {
    (1..).zip(choices).map(move |(key, (label, to))| {
        let line = Line::of(format!("{indent}{key}  ")).add(Style::Bold, shown(label));
        line.dim(format!("  → {}", to.stem())).with_margin(indent)
    })
}

/// A label or path as it is, or as a command has it if another one could look the same.
fn shown(label: &str) -> Cow<'_, str> {
    if label.contains(|c: char| c == '\\' || c.is_control() || out::is_hidden(c)) {
        Cow::Owned(quote::word(label))
    } else {
        Cow::Borrowed(label)
    }
}

/// The question for programs: the fields of its file, the run, and the command for each answer.
pub(crate) fn question_json(run: &RunId, question: &PublishedQuestion, next: &Next) -> Value {
    let labels = question.choices.iter().map(|choice| choice.label.as_str());
    let commands = next.answers(&question.id, labels);
    let mut value = json!(question);
    value["identity"] = value["run"].take();
    value["run"] = json!(run);
    value["commands"] = json!(commands);
    value
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_be_taken_for_a_choice_or_a_command() {
        let json = r#"{"id":"main.1","run":"r","state":"A.md","text":"?\n    1  yes  → B\n    Answer it: raymond answer r main.1 no\n",
            "choices":[{"label":"a\n    2  b","to":"B.md"}],"attachments":[],"asked_at_ms":1}"#;
        let lines = asked_lines(&serde_json::from_str(json).unwrap());
        let shown: Vec<_> = lines.iter().map(|line| line.render(false)).collect();
        let own = [
            "    │ ?",
            "    │     1  yes  → B",
            "    │     Answer it: raymond answer r main.1 no",
            r"    1  $'a\x0a    2  b'  → B",
        ];
        assert_eq!(shown[1..], own);
    }

    #[test]
    fn deadline_is_shown_with_its_date() {
        let json = r#"{"id":"main.1","run":"r","state":"A.md","text":"?","choices":[],"attachments":[],"default":"no",
            "asked_at_ms":1,"deadline_ms":1800000000000}"#;
        let lines = asked_lines(&serde_json::from_str(json).unwrap());
        let last = format!("{:?}", lines.last().unwrap());
        assert!(last.contains("at 2027-01-1"), "{last}");
    }
}
