//! The six names of the protocol.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which of the six transition tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TagKind {
    /// Go on in the same conversation.
    Goto,
    /// Go on in a fresh conversation; pending returns are discarded.
    Reset,
    /// Do a subtask in a branch of the conversation, then return.
    Call,
    /// Do a subtask in a fresh conversation, then return.
    Function,
    /// Start an independent agent and go on.
    Fork,
    /// Hand a value back to the caller, or end.
    Result,
}

impl TagKind {
    /// All six, in the order of the protocol document.
    pub const ALL: [Self; 6] =
        [Self::Goto, Self::Reset, Self::Call, Self::Function, Self::Fork, Self::Result];

    /// The name between the angle brackets.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goto => "goto",
            Self::Reset => "reset",
            Self::Call => "call",
            Self::Function => "function",
            Self::Fork => "fork",
            Self::Result => "result",
        }
    }

    /// The tag of this name. Names are lower case; anything else is not of the protocol.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The attribute that names the state where the agent itself goes on, if the tag needs one.
    pub fn continuation_attribute(self) -> Option<&'static str> {
        match self {
            Self::Call | Self::Function => Some("return"),
            Self::Fork => Some("next"),
            Self::Goto | Self::Reset | Self::Result => None,
        }
    }

    /// Whether the tag takes attribute `name`. A fork takes every attribute: those that the
    /// protocol does not know become variables of the worker.
    pub fn takes_attribute(self, name: &str) -> bool {
        match self {
            Self::Goto | Self::Result => false,
            Self::Reset => name == "cd",
            Self::Call => name == "return",
            Self::Function => matches!(name, "return" | "model"),
            Self::Fork => true,
        }
    }
}

impl fmt::Display for TagKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
