//! One transition tag as the agent wrote it, with the span of every part.

use crate::text::Spanned;

use super::{Attribute, TagKind};

/// A state as a tag names it: trimmed, without path separators, not yet resolved to a file.
pub type Target = Spanned<String>;

/// One of the tags, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tag {
    /// `<goto input="…">TARGET</goto>`
    Goto {
        /// The state to continue at.
        target: Target,
        /// A text for that state.
        input: Option<Spanned<String>>,
    },
    /// `<reset cd="DIR">TARGET</reset>`
    Reset {
        /// The state to continue at, in a fresh session.
        target: Target,
        /// The agent's working directory from now on.
        cd: Option<Spanned<String>>,
        /// A text for the target state.
        input: Option<Spanned<String>>,
    },
    /// `<call return="NEXT" cd="DIR" file="…">TARGET</call>`
    Call {
        /// The state that does the subtask.
        target: Target,
        /// The state to continue at with its result.
        return_to: Target,
        /// The working directory until the subtask returns.
        cd: Option<Spanned<String>>,
        /// A text for the target state.
        input: Option<Spanned<String>>,
        /// All other attributes: variables until the subtask returns.
        arguments: Vec<Attribute>,
    },
    /// `<function return="NEXT" cd="DIR" model="MODEL" file="…">TARGET</function>`
    Function {
        /// The state that does the subtask.
        target: Target,
        /// The state to continue at with its result.
        return_to: Target,
        /// The working directory until the subtask returns.
        cd: Option<Spanned<String>>,
        /// The model for the function's states that do not name one themselves.
        model: Option<Spanned<String>>,
        /// A text for the target state.
        input: Option<Spanned<String>>,
        /// All other attributes: variables until the subtask returns.
        arguments: Vec<Attribute>,
    },
    /// `<fork next="NEXT" cd="DIR" item="…">TARGET</fork>`
    Fork {
        /// The worker's first state.
        target: Target,
        /// The state at which the parent continues.
        next: Target,
        /// The worker's working directory.
        cd: Option<Spanned<String>>,
        /// How many workers of the parent may be under way.
        limit: Option<Spanned<String>>,
        /// What the worker's worktree is called.
        worktree: Option<Spanned<String>>,
        /// A text for the worker's first state.
        input: Option<Spanned<String>>,
        /// All other attributes: the worker's variables.
        attributes: Vec<Attribute>,
        /// The further forks of the same answer, each without forks of its own.
        more: Vec<Spanned<Tag>>,
    },
    /// `<join count="N" failed="pass">TARGET</join>`
    Join {
        /// The state to continue at with the workers' results.
        target: Target,
        /// How many workers must have ended; all if it is not given.
        count: Option<Spanned<String>>,
        /// What a failed worker means.
        failed: Option<Spanned<String>>,
        /// A text for the target state.
        input: Option<Spanned<String>>,
    },
    /// `<ask next="NEXT" choices="A=STATE|B" attach="FILE|FILE">QUESTION</ask>`
    Ask(Box<AskTag>),
    /// `<result>PAYLOAD</result>`
    Result {
        /// The text between the tags, verbatim.
        payload: Spanned<String>,
    },
}

/// The parts of an `<ask>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskTag {
    /// The question, without the space around it. Empty: an entry of the policy has it.
    pub question: Spanned<String>,
    /// The state to continue at with the answer.
    pub next: Option<Target>,
    /// The answers that can be chosen.
    pub choices: Option<Spanned<String>>,
    /// The files to show.
    pub attach: Option<Spanned<String>>,
    /// How long to wait for an answer.
    pub timeout: Option<Spanned<String>>,
    /// The answer when the time is up.
    pub default: Option<Spanned<String>>,
}

impl Tag {
    /// The kind of tag.
    pub fn kind(&self) -> TagKind {
        match self {
            Self::Goto { .. } => TagKind::Goto,
            Self::Reset { .. } => TagKind::Reset,
            Self::Call { .. } => TagKind::Call,
            Self::Function { .. } => TagKind::Function,
            Self::Fork { .. } => TagKind::Fork,
            Self::Join { .. } => TagKind::Join,
            Self::Ask(_) => TagKind::Ask,
            Self::Result { .. } => TagKind::Result,
        }
    }
}
