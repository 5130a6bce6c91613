//! DOT: for Graphviz and everything that reads it.

use std::fmt::Write as _;

use crate::graph::EdgeKind;

use super::{Diagram, Link, LinkKind, Node, NodeKind};

impl Diagram {
    /// The picture in Graphviz's language.
    pub fn dot(&self) -> String {
        let mut text = format!(
            "digraph {} {{\n  rankdir=TB;\n  \
             node [fontname=\"monospace\", style=\"filled,rounded\", shape=box];\n  \
             edge [fontname=\"monospace\", fontsize=10];\n",
            quoted(&self.title)
        );
        // Writing to a String cannot fail, here and below.
        for (index, node) in self.nodes.iter().enumerate() {
            let _ = writeln!(text, "  n{index} [label={}, {}];", label(node), style(node));
        }
        for Link { from, to, kind } in &self.links {
            let _ = writeln!(text, "  n{from} -> n{to} [{}];", line(*kind));
        }
        text.push_str("}\n");
        text
    }
}

fn label(node: &Node) -> String {
    match &node.visit {
        Some(visit) => quoted(&format!("{}\n{}", node.label, visit.label())),
        None => quoted(&node.label),
    }
}

fn style(node: &Node) -> String {
    let (fill, line) = match node.kind {
        NodeKind::Prompt => ("#dbeafe", "#2563eb"),
        NodeKind::Script => ("#dcfce7", "#16a34a"),
        NodeKind::Evaluator => ("#f3e8ff", "#9333ea"),
        NodeKind::Missing => ("#fee2e2", "#dc2626"),
        NodeKind::Open => ("#ffffff", "#888888"),
        NodeKind::End => ("#eeeeee", "#666666"),
    };
    let fill = if node.visit.is_some() { "#fde68a" } else { fill };
    let shape = match node.kind {
        NodeKind::Script => ", shape=component",
        NodeKind::Evaluator => ", shape=hexagon",
        NodeKind::Open => ", shape=circle",
        NodeKind::End => ", shape=oval",
        NodeKind::Prompt | NodeKind::Missing => "",
    };
    let entry = if node.is_entry { ", penwidth=2" } else { "" };
    format!("fillcolor=\"{fill}\", color=\"{line}\"{shape}{entry}")
}

fn line(kind: LinkKind) -> String {
    let style = match kind {
        LinkKind::Way(EdgeKind::Return | EdgeKind::Next | EdgeKind::Ask) => ", style=dashed",
        LinkKind::Way(EdgeKind::Reset) => ", style=bold",
        LinkKind::Way(_) | LinkKind::Result => "",
    };
    let label = match kind {
        LinkKind::Way(EdgeKind::Goto) | LinkKind::Result => "",
        LinkKind::Way(kind) => kind.name(),
    };
    format!("label=\"{label}\"{style}")
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}
