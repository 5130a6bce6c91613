//! What is wrong with an answer, as the agent is told in a reminder.

use thiserror::Error;

use crate::{id::StateName, scope::ResolveError, tag::TagError, world::WorldError};

use super::{AskProblem, UnsafeName};

/// What is wrong with an answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The answer does not have exactly one complete tag.
    #[error(transparent)]
    Tag(#[from] TagError),
    /// The structured output is missing, or does not fit the schema.
    #[error("the structured output {0}")]
    Output(String),
    /// A complete tag that this state does not allow.
    #[error("`{tag}` is not among the transitions that this state allows")]
    NotAllowed {
        /// The tag.
        tag: String,
    },
    /// A state that does not exist.
    #[error(transparent)]
    Unresolved(#[from] ResolveError),
    /// A variable that may not be set.
    #[error("the attribute {0}")]
    UnsafeAttribute(#[from] UnsafeName),
    /// A `cd` to a directory that does not exist.
    #[error("`cd` names `{path}`, which is not a directory")]
    NoSuchDirectory {
        /// The path, made absolute.
        path: String,
    },
    /// An empty `cd`.
    #[error("`cd` is empty: leave it out to stay in the same directory")]
    EmptyDirectory,
    /// A `model` that is not a valid name.
    #[error("`{model}` in `model` is not a model: one word that does not begin with a dash")]
    NotAModel {
        /// The beginning of it.
        model: String,
    },
    /// Several forks where the state allows one.
    #[error("{count} <fork> tags were found where exactly one transition tag is allowed")]
    SeveralForks {
        /// How many.
        count: usize,
    },
    /// Several forks that do not agree where their parent goes on.
    #[error("the forks of one answer must have the same `next`, not `{one}` and `{other}`")]
    DifferentNext {
        /// That of the first.
        one: StateName,
        /// That of a later one.
        other: StateName,
    },
    /// A `limit` or `count` that cannot be one.
    #[error("`{text}` in `{attribute}` is not a whole number from 1")]
    NotANumber {
        /// The attribute.
        attribute: &'static str,
        /// The beginning of it.
        text: String,
    },
    /// A `worktree` that cannot be part of a name.
    #[error(
        "`{text}` in `worktree` is neither `true` nor a name: at most 60 letters, digits, `-` and `_`; leave it out for no worktree"
    )]
    NotAWorktree {
        /// The beginning of it.
        text: String,
    },
    /// A worktree cannot be made from the directory.
    #[error("the worker cannot have a worktree: {why}")]
    NoWorktree {
        /// The reason, with what to do about it.
        why: String,
    },
    /// A `failed` that means nothing.
    #[error("`{text}` in `failed` is neither `hold` nor `pass`")]
    NotOnFailed {
        /// The beginning of it.
        text: String,
    },
    /// A question that cannot be asked.
    #[error(transparent)]
    Ask(#[from] AskProblem),
    /// The scope could not be read.
    #[error(transparent)]
    World(#[from] WorldError),
}
