//! The grammar of `choices`: labels separated by `|`, each alone or with a state, as `LABEL=STATE`.

use thiserror::Error;

/// The most choices of a question: each has a key.
pub const CHOICES_MAX: usize = 9;
/// The longest label. It stands on one line of a terminal, beside its key.
pub const LABEL_CHARS_MAX: usize = 100;

/// One choice as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrittenChoice<'t> {
    /// What a person chooses.
    pub label: &'t str,
    /// The state that it leads to, and the byte at which that name starts in the text. `None` for a bare
    /// label, which leads to `next`.
    pub state: Option<(usize, &'t str)>,
}

/// Why a text is not a list of choices.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChoicesError {
    /// Nothing between two bars, or nothing at all.
    #[error("a label is empty")]
    Empty,
    /// A label that cannot be shown.
    #[error(
        "`{label}…` is too long or has more than one line: a label has at most {LABEL_CHARS_MAX} characters"
    )]
    Label {
        /// The beginning of it.
        label: String,
    },
    /// The same label twice.
    #[error("the label `{label}` occurs twice")]
    Twice {
        /// The label.
        label: String,
    },
    /// An `=` without a state after it.
    #[error("the label `{label}` has an `=` but no state")]
    NoState {
        /// The label.
        label: String,
    },
    /// More labels than keys.
    #[error("there are {count} choices, and at most {CHOICES_MAX} can be offered")]
    TooMany {
        /// How many.
        count: usize,
    },
}

/// Reads the choices of a question. Space around labels and states does not matter.
pub fn choices(text: &str) -> Result<Vec<WrittenChoice<'_>>, ChoicesError> {
    let mut read: Vec<WrittenChoice<'_>> = Vec::new();
    let mut at = 0;
    for part in text.split('|') {
        let start = at;
        at += part.len() + 1;
        let (label, state) = match part.split_once('=') {
            Some((label, state)) => (label, Some(state)),
            None => (part, None),
        };
        let state = state.map(|state| {
            let indent = state.len() - state.trim_start().len();
            (start + part.len() - state.len() + indent, state.trim())
        });
        let label = label.trim();
        if label.is_empty() {
            return Err(ChoicesError::Empty);
        }
        if label.chars().count() > LABEL_CHARS_MAX || label.chars().any(char::is_control) {
            return Err(ChoicesError::Label { label: label.chars().take(20).collect() });
        }
        if read.iter().any(|choice| choice.label == label) {
            return Err(ChoicesError::Twice { label: label.to_owned() });
        }
        if state.is_some_and(|(_, state)| state.is_empty()) {
            return Err(ChoicesError::NoState { label: label.to_owned() });
        }
        read.push(WrittenChoice { label, state });
    }
    match read.len() {
        count if count > CHOICES_MAX => Err(ChoicesError::TooMany { count }),
        _ => Ok(read),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_have_labels_and_states_with_their_places() {
        let read = choices("approve=SHIP| revise |stop now = END.md").unwrap();
        assert_eq!(
            read,
            [
                WrittenChoice { label: "approve", state: Some((8, "SHIP")) },
                WrittenChoice { label: "revise", state: None },
                WrittenChoice { label: "stop now", state: Some((33, "END.md")) },
            ]
        );
        assert_eq!(choices("a=b=c").unwrap()[0].state, Some((2, "b=c")));
    }

    #[test]
    fn choices_that_cannot_be_offered_are_refused() {
        let said = |text: &str| choices(text).unwrap_err().to_string();
        assert_eq!(said(""), "a label is empty");
        assert_eq!(said("a||b"), "a label is empty");
        assert_eq!(said("=X"), "a label is empty");
        assert_eq!(said("a=|b"), "the label `a` has an `=` but no state");
        assert_eq!(said("a|b|a=X"), "the label `a` occurs twice");
        assert_eq!(
            said("1|2|3|4|5|6|7|8|9|10"),
            "there are 10 choices, and at most 9 can be offered"
        );
        assert!(said("a\nb").contains("more than one line"));
        assert!(said(&"x".repeat(101)).contains("too long"));
    }
}
