//! Diagrams of a workflow: Mermaid, DOT, or an HTML page with the graph drawn as SVG.
//!
//! [`Diagram::of`] takes a [`Graph`](crate::graph::Graph) and, if there is a run to show, its
//! [`Trace`](crate::view::Trace). The three formats are [`Diagram::mermaid`], [`Diagram::dot`] and [`Diagram::html`].
//! The page is self-contained: it opens without a network. Text from a workflow is always escaped.

mod dot;
mod frames;
mod geometry;
mod html;
mod labels;
mod layout;
mod mermaid;
mod model;
mod svg;

pub use geometry::{BoxPlace, Geometry, LinePlace};
pub use model::{Diagram, Link, LinkKind, Node, NodeKind};
