//! The catalogue of tags: their names, content and attributes.
//!
//! To add a tag, start here. Every match on [`TagKind`] is exhaustive, so the compiler then reports
//! each place that must handle it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::source::did_you_mean;

/// One of the transition tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TagKind {
    /// Continue in the same session.
    Goto,
    /// Continue in a fresh session; pending returns are discarded.
    Reset,
    /// Do a subtask in a branch of the session, then return.
    Call,
    /// Do a subtask in a fresh session, then return.
    Function,
    /// Start an independent agent and continue.
    Fork,
    /// Wait for workers, then continue in the same session.
    Join,
    /// Ask a person, and continue with the answer in the same session.
    Ask,
    /// Return a value to the caller, or end the agent.
    Result,
}

/// The grammar of one tag. Scanner, policy, graph, messages and the test of the JSON Schema all read
/// it from here.
#[derive(Debug)]
pub struct TagSpec {
    /// The name between the angle brackets.
    pub name: &'static str,
    /// What must be between the opening and the closing tag.
    pub content: TagContent,
    /// The attributes that the protocol defines.
    pub attributes: &'static [(&'static str, AttributeRole)],
    /// Whether other attributes are allowed and become variables. If not, they are errors.
    pub takes_variables: bool,
}

/// The kind of text between the opening and the closing tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagContent {
    /// The name of a state.
    State,
    /// Free text, passed on unchanged.
    Payload,
}

/// The meaning of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributeRole {
    /// The state at which the agent itself continues. Required, except by `ask`.
    Continuation,
    /// A directory. Optional.
    Directory,
    /// A model, passed to the coding agent as an argument. Optional.
    Model,
    /// A text for the target state alone. Optional.
    Input,
    /// A whole number from 1. Optional.
    Number,
    /// A worktree of the worker's own: `true`, or what its name ends with. Optional, also where a policy names it.
    Worktree,
    /// What a failed worker means to a join: `hold` or `pass`. Optional.
    OnFailed,
    /// The answers that can be chosen, each with a state or without. Optional.
    Choices,
    /// Files under the agent's directory. Optional.
    Files,
    /// How long to wait for an answer. Only the author of a workflow may give it.
    Duration,
    /// The answer when the time is up. Only the author of a workflow may give it.
    Default,
    /// The content of the tag, as an entry of a policy gives it. Not an attribute of the tag itself.
    Question,
}

impl TagKind {
    /// All tags, in the order of the protocol document.
    pub const ALL: [Self; 8] = [
        Self::Goto,
        Self::Reset,
        Self::Call,
        Self::Function,
        Self::Fork,
        Self::Join,
        Self::Ask,
        Self::Result,
    ];

    /// The entry of this tag in the catalogue.
    #[expect(clippy::too_many_lines, reason = "a table")]
    pub fn spec(self) -> &'static TagSpec {
        use AttributeRole::{
            Choices, Continuation, Default, Directory, Duration, Files, Input, Model, Number,
            OnFailed, Question, Worktree,
        };
        use TagContent::{Payload, State};
        match self {
            Self::Goto => &TagSpec {
                name: "goto",
                content: State,
                attributes: &[("input", Input)],
                takes_variables: false,
            },
            Self::Reset => &TagSpec {
                name: "reset",
                content: State,
                attributes: &[("cd", Directory), ("input", Input)],
                takes_variables: false,
            },
            Self::Call => &TagSpec {
                name: "call",
                content: State,
                attributes: &[("return", Continuation), ("cd", Directory), ("input", Input)],
                takes_variables: true,
            },
            Self::Function => &TagSpec {
                name: "function",
                content: State,
                attributes: &[
                    ("return", Continuation),
                    ("cd", Directory),
                    ("model", Model),
                    ("input", Input),
                ],
                takes_variables: true,
            },
            Self::Fork => &TagSpec {
                name: "fork",
                content: State,
                attributes: &[
                    ("next", Continuation),
                    ("cd", Directory),
                    ("limit", Number),
                    ("worktree", Worktree),
                    ("input", Input),
                ],
                takes_variables: true,
            },
            Self::Join => &TagSpec {
                name: "join",
                content: State,
                attributes: &[("count", Number), ("failed", OnFailed), ("input", Input)],
                takes_variables: false,
            },
            Self::Ask => &TagSpec {
                name: "ask",
                content: Payload,
                attributes: &[
                    ("next", Continuation),
                    ("choices", Choices),
                    ("attach", Files),
                    ("timeout", Duration),
                    ("default", Default),
                    ("question", Question),
                ],
                takes_variables: false,
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

    /// The tag with this name. Names are case-sensitive and lower case.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Whether the content is the name of a state.
    pub fn has_target(self) -> bool {
        self.spec().content == TagContent::State
    }

    /// Whether the target may lie in a subworkflow: a subtask and a worker have a folder of their own.
    pub fn enters_subworkflows(self) -> bool {
        matches!(self, Self::Call | Self::Function | Self::Fork)
    }

    /// The meaning of attribute `name`; `None` for a variable, and for an unknown attribute.
    pub fn role_of(self, name: &str) -> Option<AttributeRole> {
        self.spec().attributes.iter().find(|(known, _)| *known == name).map(|(_, role)| *role)
    }

    /// The attribute that names the state at which the agent itself continues, if the tag has one.
    pub fn continuation_attribute(self) -> Option<&'static str> {
        let mut attributes = self.spec().attributes.iter();
        attributes.find(|(_, role)| *role == AttributeRole::Continuation).map(|(name, _)| *name)
    }

    /// Whether the tag is malformed without its [continuation attribute](Self::continuation_attribute). The
    /// choices of an `ask` may name states of their own.
    pub fn needs_continuation(self) -> bool {
        self != Self::Ask && self.continuation_attribute().is_some()
    }

    /// Whether an entry of a policy may have attribute `name`, and so may the tag, except for a question.
    pub fn takes_attribute(self, name: &str) -> bool {
        self.role_of(name).is_some() || (self.spec().takes_variables && !self.refuses(name))
    }

    /// Whether attribute `name` has a meaning on other tags, so that on this one it is a mistake and not
    /// an argument.
    fn refuses(self, name: &str) -> bool {
        matches!(self, Self::Call | Self::Function) && matches!(name, "model" | "next")
    }
}

impl TagKind {
    /// The required attribute that `name` was probably meant to be, on a tag of a subtask that lacks it. A
    /// fork's `next` is too like other words.
    pub(crate) fn meant_continuation(self, name: &str) -> Option<&'static str> {
        let is_subtask = matches!(self, Self::Call | Self::Function);
        let continuation = self.continuation_attribute().filter(|_| is_subtask)?;
        did_you_mean(name, [continuation]).filter(|meant| *meant != name)
    }
}

impl fmt::Display for TagKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
