//! The edges of a graph.

use std::fmt;

use crate::{id::StateName, tag::TagKind, text::Span};

use super::{Graph, WayOrigin};

/// An edge from one state to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The state whose file declares the edge.
    pub from: StateName,
    /// The state that the edge leads to.
    pub to: StateName,
    /// The meaning of the edge.
    pub kind: EdgeKind,
    /// Where it was found.
    pub origin: WayOrigin,
    /// The place in the file of `from`.
    pub span: Span,
    /// The answer that leads along an edge of an `ask`; `None` for a free text, and on other edges.
    pub label: Option<String>,
}

/// The meaning of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EdgeKind {
    /// Continue in the same session.
    Goto,
    /// Continue in a fresh session.
    Reset,
    /// Start a subtask in a branch of the session.
    Call,
    /// Start a subtask in a fresh session.
    Function,
    /// The caller continues here after the subtask.
    Return,
    /// Start an independent agent.
    Fork,
    /// The agent that forked continues here.
    Next,
    /// Wait for workers, then continue in the same session.
    Join,
    /// Ask a person, whose answer leads here.
    Ask,
    /// Ask an evaluator.
    Evaluate,
}

impl EdgeKind {
    /// The name shown in diagrams.
    pub fn name(self) -> &'static str {
        match self {
            Self::Goto => "goto",
            Self::Reset => "reset",
            Self::Call => "call",
            Self::Function => "function",
            Self::Return => "return",
            Self::Fork => "fork",
            Self::Next => "next",
            Self::Join => "join",
            Self::Ask => "ask",
            Self::Evaluate => "evaluate",
        }
    }

    /// The kind of the edge from a tag to its target.
    pub fn of_target(tag: TagKind) -> Self {
        kinds(tag).0
    }

    /// Whether the same agent continues with the same return stack, so that its caller still waits.
    pub fn stays_in_frame(self) -> bool {
        matches!(self, Self::Goto | Self::Next | Self::Join | Self::Return | Self::Ask)
    }

    /// Whether the same agent continues, with the same return stack or an empty one.
    pub fn goes_on(self) -> bool {
        self.stays_in_frame() || self == Self::Reset
    }

    /// Whether the same agent enters the target.
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
    /// All edges, ordered by state and then as in its file.
    pub fn edges(&self) -> impl Iterator<Item = Edge> {
        self.states.values().flat_map(|state| {
            let mut edges = Vec::new();
            let mut add = |named: Option<&super::Named>, kind, origin, span, label| {
                let to = named.and_then(super::Named::state).cloned();
                let from = state.name.clone();
                edges.extend(to.map(|to| Edge { from, to, kind, origin, span, label }));
            };
            for way in &state.ways {
                let (enters, goes_on) = kinds(way.tag);
                add(way.target.as_ref(), enters, way.origin, way.span, None);
                if way.choices.is_empty() {
                    add(way.continuation.as_ref(), goes_on, way.origin, way.span, None);
                }
                for choice in &way.choices {
                    let leads_to = choice.state.as_ref().or(way.continuation.as_ref());
                    let label = Some(choice.label.clone());
                    add(leads_to, goes_on, way.origin, way.span, label);
                }
            }
            for asked in &state.evaluators {
                let span = asked.written.span;
                add(Some(asked), EdgeKind::Evaluate, WayOrigin::Evaluator, span, None);
            }
            edges
        })
    }
}

/// The kinds of the edges to a tag's target and to its `return` or `next`.
pub(super) fn kinds(tag: TagKind) -> (EdgeKind, EdgeKind) {
    match tag {
        TagKind::Goto | TagKind::Result => (EdgeKind::Goto, EdgeKind::Goto),
        TagKind::Reset => (EdgeKind::Reset, EdgeKind::Reset),
        TagKind::Call => (EdgeKind::Call, EdgeKind::Return),
        TagKind::Function => (EdgeKind::Function, EdgeKind::Return),
        TagKind::Fork => (EdgeKind::Fork, EdgeKind::Next),
        TagKind::Join => (EdgeKind::Join, EdgeKind::Join),
        TagKind::Ask => (EdgeKind::Ask, EdgeKind::Ask),
    }
}
