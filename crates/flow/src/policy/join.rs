//! What a join waits for.

use serde::{Deserialize, Serialize};

use crate::{formats::is_default, id::StateName};

/// A `<join>` that can be followed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Join {
    /// Where to go on with the workers' results.
    pub target: StateName,
    /// How many workers must have ended; `None` is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u32>,
    /// What a failed worker means.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failed: OnFailed,
    /// A text for the target state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

/// What a failed worker means to a join.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnFailed {
    /// The join waits until the worker is repaired.
    #[default]
    Hold,
    /// Its failure is handed over like a result.
    Pass,
}

impl OnFailed {
    /// The words for it in a tag.
    pub const WORDS: [&'static str; 2] = ["hold", "pass"];

    /// The word for it in a tag.
    pub fn word(self) -> &'static str {
        match self {
            Self::Hold => "hold",
            Self::Pass => "pass",
        }
    }

    /// What `word` means in a tag.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Hold, Self::Pass].into_iter().find(|failed| failed.word() == word)
    }
}

/// A whole number from 1, as `limit` and `count` have it.
pub(crate) fn number(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && *number > 0)
}
