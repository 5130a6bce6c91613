//! What a coding agent asks with a tool of its own, as a question to a person.
//!
//! Unlike `<ask>`, it interrupts a turn: the answer enters no state, but continues the turn in its session.

use std::fmt::Write as _;

use crate::{
    id::StateName,
    machine::Visit,
    policy::{ALLOW, Choice, Question},
    tag::{CHOICES_MAX, LABEL_CHARS_MAX},
};

/// The choice for a person whose answer is not among those that the coding agent offers: the comment has it.
const OTHER: &str = "something else";

/// The longest text of a question: in no encoding longer than that of an `<ask>`.
const TEXT_CHARS_MAX: usize = 16 * 1024;

/// One question of a coding agent. One call of its tool may have several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnQuestion {
    /// The question itself.
    pub text: String,
    /// The answers that are proposed. Any other answer is possible, too.
    pub options: Vec<OwnOption>,
    /// Whether several of them may be chosen.
    pub takes_several: bool,
    /// The tool that the coding agent wants to use, if that is the question.
    pub grants: Option<String>,
}

impl OwnQuestion {
    /// Whether the coding agent may use a tool; `what` says for what.
    pub fn of_tool(tool: &str, what: &str) -> Self {
        let option = |label: &str| OwnOption { label: label.to_owned(), ..OwnOption::default() };
        Self {
            text: format!("May the coding agent use `{tool}`?\n\n{what}"),
            options: vec![option(ALLOW), option("refuse")],
            takes_several: false,
            grants: Some(tool.to_owned()),
        }
    }
}

/// An answer that a coding agent proposes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnOption {
    /// What is chosen.
    pub label: String,
    /// What that means; may be empty.
    pub description: String,
}

/// What a person is asked. The only question with one answer gets choices. Everything else is answered by a text: a
/// person may choose several options of one question and none of another.
pub(super) fn question(asked: &[OwnQuestion], state: &StateName, visit: Visit) -> Question {
    let labels = match asked {
        [only] if !only.takes_several => labels(&only.options),
        _ => None,
    };
    let choice = |label: &str| Choice { label: label.to_owned(), target: state.clone() };
    let choices: Vec<_> = labels.into_iter().flatten().map(choice).collect();
    Question {
        text: text(asked),
        next: choices.is_empty().then(|| state.clone()),
        choices,
        attach: Vec::new(),
        timeout: None,
        default: None,
        deadline_ms: None,
        continues: Some(Box::new(visit)),
        grants: asked.iter().find_map(|question| question.grants.clone()),
    }
}

/// The labels of choices, if a person can choose among these options by key.
fn labels(options: &[OwnOption]) -> Option<Vec<&str>> {
    let mut labels: Vec<_> = options.iter().map(|option| option.label.trim()).collect();
    labels.push(OTHER);
    let is_label = |label: &&str| {
        !label.is_empty() && !label.contains('\n') && label.chars().count() <= LABEL_CHARS_MAX
    };
    let is_unique = (1..labels.len()).all(|at| !labels[at..].contains(&labels[at - 1]));
    let can_be_offered = labels.len() <= CHOICES_MAX && is_unique && labels.iter().all(is_label);
    (!options.is_empty() && can_be_offered).then_some(labels)
}

fn text(asked: &[OwnQuestion]) -> String {
    let mut text = String::new();
    for (number, OwnQuestion { text: question, options, takes_several, .. }) in (1..).zip(asked) {
        // Writing to a String cannot fail.
        if asked.len() > 1 {
            let _ = write!(text, "{number}. ");
        }
        let several = if *takes_several { " (one or several)" } else { "" };
        let _ = writeln!(text, "{}{several}", question.trim());
        for OwnOption { label, description } in options {
            let colon = if description.is_empty() { "" } else { ": " };
            let _ = writeln!(text, "- {label}{colon}{description}");
        }
        text.push('\n');
    }
    text.trim().chars().take(TEXT_CHARS_MAX).collect()
}
