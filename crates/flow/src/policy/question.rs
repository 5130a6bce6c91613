//! A question to a person whose answers can be followed: its states exist, its files can be shown.

use serde::{Deserialize, Serialize};

use crate::{formats::is_default, id::StateName, machine::Visit, source::Timeout};

/// The answer that allows a coding agent to use a tool.
pub const ALLOW: &str = "allow";

/// What a person is asked, and where each answer leads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The question itself.
    pub text: String,
    /// Where a free text leads. `None` if there are choices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<StateName>,
    /// The answers that can be chosen; with none, the answer is a free text.
    #[serde(default, skip_serializing_if = "is_default")]
    pub choices: Vec<Choice>,
    /// Files to show, relative to the agent's directory.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attach: Vec<String>,
    /// How long to wait for an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// The answer when the time is up: a label, or a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// When the time is up, in milliseconds since 1970. Set when the question is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    /// The turns that the answer continues, if a coding agent asked with a tool of its own. Then no state is entered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continues: Option<Box<Visit>>,
    /// The tool that these turns may use if the answer is [`ALLOW`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grants: Option<String>,
}

/// One answer that can be chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What a person chooses.
    pub label: String,
    /// The state that it leads to.
    pub target: StateName,
}

impl Question {
    /// The state that `result` leads to: the label of a choice, or any text where there are no choices.
    /// `None` if that is not an answer to this question.
    pub fn target(&self, result: &str) -> Option<&StateName> {
        if self.choices.is_empty() {
            return self.next.as_ref();
        }
        let chosen = self.choices.iter().find(|choice| choice.label == result);
        chosen.map(|choice| &choice.target)
    }

    /// Sets the deadline of a question that is asked at `now_ms`.
    pub(crate) fn ask_at(&mut self, now_ms: u64) {
        let ms = |timeout: Timeout| u64::from(timeout).saturating_mul(1000);
        self.deadline_ms = self.timeout.map(|timeout| now_ms.saturating_add(ms(timeout)));
    }
}
