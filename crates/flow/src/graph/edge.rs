//! The lines of the picture.

use std::fmt;

use crate::{id::StateName, tag::TagKind, text::Span};

use super::{Graph, Origin};

/// A line from one state to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The state that it leaves.
    pub from: StateName,
    /// The state that it enters.
    pub to: StateName,
    /// What it means.
    pub kind: EdgeKind,
    /// Where it was found.
    pub origin: Origin,
    /// Where it stands in the file of `from`.
    pub span: Span,
}

/// What a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// On, in the same session.
    Goto,
    /// On, in a fresh one.
    Reset,
    /// Into a subtask that knows the session.
    Call,
    /// Into a subtask that knows nothing.
    Function,
    /// Where the caller goes on when the subtask has ended.
    Return,
    /// An independent agent starts.
    Fork,
    /// Where the one that started it goes on.
    Next,
    /// An evaluator is asked.
    Ask,
}

impl EdgeKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goto => "goto",
            Self::Reset => "reset",
            Self::Call => "call",
            Self::Function => "function",
            Self::Return => "return",
            Self::Fork => "fork",
            Self::Next => "next",
            Self::Ask => "ask",
        }
    }

    /// What the line from a tag to its target means.
    pub fn of_target(tag: TagKind) -> Self {
        kinds(tag).0
    }

    /// Whether the same agent goes on with the same return stack: what a caller waits for.
    pub fn stays_in_frame(self) -> bool {
        matches!(self, Self::Goto | Self::Next | Self::Return)
    }

    /// Whether the same agent goes on, in this frame or without any.
    pub fn goes_on(self) -> bool {
        self.stays_in_frame() || self == Self::Reset
    }

    /// Whether the state that is entered belongs to the same agent.
    pub fn stays_in_agent(self) -> bool {
        self != Self::Fork
    }
}

impl fmt::Display for EdgeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Graph {
    /// All lines, by the state that they leave and then in the order of its file.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        self.states.values().flat_map(|state| {
            let mut edges = Vec::new();
            let mut add = |named: Option<&super::Named>, kind, origin, span| {
                let to = named.and_then(super::Named::state).cloned();
                let from = state.name.clone();
                edges.extend(to.map(|to| Edge { from, to, kind, origin, span }));
            };
            for way in &state.ways {
                let (enters, goes_on) = kinds(way.tag);
                add(way.target.as_ref(), enters, way.origin, way.span);
                add(way.continuation.as_ref(), goes_on, way.origin, way.span);
            }
            for asked in &state.asks {
                add(Some(asked), EdgeKind::Ask, Origin::Evaluator, asked.written.span);
            }
            edges
        })
    }
}

/// What the line to a tag's target means, and the one to its `return` or `next`.
pub(super) fn kinds(tag: TagKind) -> (EdgeKind, EdgeKind) {
    match tag {
        TagKind::Goto | TagKind::Result => (EdgeKind::Goto, EdgeKind::Goto),
        TagKind::Reset => (EdgeKind::Reset, EdgeKind::Reset),
        TagKind::Call => (EdgeKind::Call, EdgeKind::Return),
        TagKind::Function => (EdgeKind::Function, EdgeKind::Return),
        TagKind::Fork => (EdgeKind::Fork, EdgeKind::Next),
    }
}
