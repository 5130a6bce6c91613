//! A workflow as a picture: Mermaid, DOT, or a page with the graph drawn as SVG.
//!
//! [`Diagram::of`] takes a [`Graph`](crate::graph::Graph) and, if there is a run to show, its
//! [`Trace`]. The three forms are [`Diagram::mermaid`], [`Diagram::dot`] and [`Diagram::html`].
//! The page is complete in itself: it opens without a network, and nothing from a workflow in it
//! is ever markup.

mod dot;
mod html;
mod labels;
mod layout;
mod mermaid;
mod model;
mod svg;
mod trace;

pub use model::{Diagram, Link, LinkKind, Node, NodeKind};
pub use trace::{TakenWay, Trace, Visit};
