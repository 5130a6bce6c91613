//! The catalogue of tags: their names, and what may be written in them.
//!
//! A new tag begins here. The compiler then leads to every place that must say what it does.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which of the six transition tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TagKind {
    /// Go on in the same session.
    Goto,
    /// Go on in a fresh session; pending returns are discarded.
    Reset,
    /// Do a subtask in a branch of the session, then return.
    Call,
    /// Do a subtask in a fresh session, then return.
    Function,
    /// Start an independent agent and go on.
    Fork,
    /// Hand a value back to the caller, or end.
    Result,
}

/// What may be written in a tag of one kind. Scanner, policy, graph, messages and the test of the JSON
/// Schema all read it here.
#[derive(Debug)]
pub struct TagSpec {
    /// The name between the angle brackets.
    pub name: &'static str,
    /// What stands between the opening and the closing tag.
    pub content: TagContent,
    /// The attributes that the protocol gives a meaning.
    pub attributes: &'static [(&'static str, AttributeRole)],
    /// Whether any other attribute is a variable. Without that it is an error.
    pub takes_variables: bool,
}

/// What stands between the opening and the closing tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagContent {
    /// The name of a state.
    State,
    /// A text that is handed on as it is.
    Payload,
}

/// What an attribute means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeRole {
    /// The state where the agent itself goes on. Required.
    Continuation,
    /// A directory. Optional.
    Directory,
    /// A model, which becomes an argument of the coding agent. Optional.
    Model,
}

impl TagKind {
    /// All six, in the order of the protocol document.
    pub const ALL: [Self; 6] =
        [Self::Goto, Self::Reset, Self::Call, Self::Function, Self::Fork, Self::Result];

    /// Its entry in the catalogue.
    pub fn spec(self) -> &'static TagSpec {
        use AttributeRole::{Continuation, Directory, Model};
        use TagContent::{Payload, State};
        match self {
            Self::Goto => {
                &TagSpec { name: "goto", content: State, attributes: &[], takes_variables: false }
            }
            Self::Reset => &TagSpec {
                name: "reset",
                content: State,
                attributes: &[("cd", Directory)],
                takes_variables: false,
            },
            Self::Call => &TagSpec {
                name: "call",
                content: State,
                attributes: &[("return", Continuation)],
                takes_variables: false,
            },
            Self::Function => &TagSpec {
                name: "function",
                content: State,
                attributes: &[("return", Continuation), ("model", Model)],
                takes_variables: false,
            },
            Self::Fork => &TagSpec {
                name: "fork",
                content: State,
                attributes: &[("next", Continuation), ("cd", Directory)],
                takes_variables: true,
            },
            Self::Result => &TagSpec {
                name: "result",
                content: Payload,
                attributes: &[],
                takes_variables: false,
            },
        }
    }

    /// The name between the angle brackets.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// The tag of this name. Names are lower case; anything else is not of the protocol.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether a state stands between the tags.
    pub fn has_target(self) -> bool {
        self.spec().content == TagContent::State
    }

    /// What attribute `name` means; `None` for a variable, and for one that the tag does not take.
    pub fn role_of(self, name: &str) -> Option<AttributeRole> {
        self.spec().attributes.iter().find(|(known, _)| *known == name).map(|(_, role)| *role)
    }

    /// The attribute that names the state where the agent itself goes on, if the tag needs one.
    pub fn continuation_attribute(self) -> Option<&'static str> {
        let mut attributes = self.spec().attributes.iter();
        attributes.find(|(_, role)| *role == AttributeRole::Continuation).map(|(name, _)| *name)
    }

    /// Whether the tag takes attribute `name`.
    pub fn takes_attribute(self, name: &str) -> bool {
        self.spec().takes_variables || self.role_of(name).is_some()
    }
}

impl fmt::Display for TagKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
