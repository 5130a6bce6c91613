//! DOT output, for Graphviz and compatible programs.

use std::fmt::Write as _;

use crate::graph::EdgeKind;

use super::{Diagram, Link, LinkKind, Node, NodeKind};

impl Diagram {
    /// The diagram in DOT.
    pub fn dot(&self) -> String {
        let mut text = format!(
            "digraph {} {{\n  rankdir=TB;\n  \
             node [fontname=\"monospace\", style=\"filled,rounded\", shape=box];\n  \
             edge [fontname=\"monospace\", fontsize=10];\n",
            quoted(&self.title)
        );
        // Writing to a String cannot fail, here and below.
        let node = |text: &mut String, indent: &str, index: usize| {
            let node = &self.nodes[index];
            let _ = writeln!(text, "{indent}n{index} [label={}, {}];", label(node), style(node));
        };
        let open = |text: &mut String, indent: &str, number: usize, folder: &str| {
            let label = quoted(folder);
            let _ =
                writeln!(text, "{indent}subgraph cluster_{number} {{\n{indent}  label={label};");
        };
        self.clustered(&mut text, node, open, "}\n");
        for (index, Link { from, to, kind }) in self.links.iter().enumerate() {
            let (label, style) = (quoted(&self.link_label(index)), line(*kind));
            let taken = match self.is_taken(index) {
                Some(true) => ", penwidth=3",
                Some(false) => ", color=\"#999999\"",
                None => "",
            };
            let _ = writeln!(text, "  n{from} -> n{to} [label={label}{style}{taken}];");
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
        NodeKind::Missing => ("#fef3c7", "#b45309"),
        NodeKind::Open => ("#ffffff", "#888888"),
        NodeKind::End => ("#eeeeee", "#666666"),
    };
    let (line, width) = match &node.visit {
        Some(visit) if visit.failures > 0 => ("#dc2626", ", penwidth=4"),
        Some(_) => (line, ", penwidth=3"),
        None if node.is_entry => (line, ", penwidth=2"),
        None => (line, ""),
    };
    let shape = match node.kind {
        NodeKind::Script => ", shape=component",
        NodeKind::Evaluator => ", shape=hexagon",
        NodeKind::Open => ", shape=circle",
        NodeKind::End => ", shape=oval",
        NodeKind::Prompt | NodeKind::Missing => "",
    };
    format!("fillcolor=\"{fill}\", color=\"{line}\"{shape}{width}")
}

fn line(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Way(EdgeKind::Return | EdgeKind::Next | EdgeKind::Evaluate)
        | LinkKind::Result => ", style=dashed",
        LinkKind::Way(EdgeKind::Ask) => ", style=dotted, arrowhead=dot",
        LinkKind::Way(EdgeKind::Reset | EdgeKind::Join) => ", style=bold",
        LinkKind::Way(EdgeKind::Goto | EdgeKind::Call | EdgeKind::Function | EdgeKind::Fork) => "",
    }
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{text}\"")
}
