//! Mermaid output, for markdown files.

use std::{collections::BTreeMap, fmt::Write as _};

use crate::{graph::EdgeKind, view::StateTotals};

use super::{Diagram, Link, LinkKind, Node, NodeKind};

impl Diagram {
    /// The diagram in Mermaid.
    pub fn mermaid(&self) -> String {
        let mut text = "flowchart TD\n".to_owned();
        // Writing to a String cannot fail, here and below.
        let node = |text: &mut String, indent: &str, index: usize| {
            let node = &self.nodes[index];
            let (open, close) = shape(node.kind);
            let class = class(node.kind);
            let _ = writeln!(text, "{indent}n{index}{open}\"{}\"{close}:::{class}", label(node));
        };
        let open = |text: &mut String, indent: &str, number: usize, folder: &str| {
            let _ = writeln!(text, "{indent}subgraph s{number} [\"{}\"]", escaped(folder));
        };
        self.clustered(&mut text, node, open, "end\n");
        for (index, Link { from, to, kind }) in self.links.iter().enumerate() {
            let (arrow, label) = (arrow(*kind), self.link_label(index));
            let label = if label.is_empty() { label } else { format!("|{}|", escaped(&label)) };
            let _ = writeln!(text, "  n{from} {arrow}{label} n{to}");
        }
        text.push_str(STYLES);
        if let Some(taken) = &self.taken {
            self.mark_run(&mut text, taken);
        }
        text
    }

    /// Marks what a run did by borders and thick lines; the fill still shows the kind of a box.
    fn mark_run(&self, text: &mut String, taken: &BTreeMap<usize, u64>) {
        text.push_str(RUN_STYLES);
        let is_failed = |visit: &StateTotals| visit.failures > 0;
        for (index, visit) in self.nodes.iter().enumerate().map(|(at, node)| (at, &node.visit)) {
            let class = match visit {
                Some(visit) if is_failed(visit) => "failed",
                Some(_) => "visited",
                None => continue,
            };
            let _ = writeln!(text, "  class n{index} {class}");
        }
        for index in taken.keys() {
            let _ = writeln!(text, "  linkStyle {index} stroke:#111,stroke-width:3px");
        }
    }
}

const STYLES: &str = "  classDef prompt fill:#dbeafe,stroke:#2563eb,color:#111\n  \
    classDef script fill:#dcfce7,stroke:#16a34a,color:#111\n  \
    classDef evaluator fill:#f3e8ff,stroke:#9333ea,color:#111\n  \
    classDef missing fill:#fef3c7,stroke:#b45309,color:#111,stroke-dasharray:4 3\n  \
    classDef open fill:#fff,stroke:#888,color:#111,stroke-dasharray:4 3\n  \
    classDef finish fill:#eee,stroke:#666,color:#111\n";

/// Red is used only for failures.
const RUN_STYLES: &str = "  classDef visited stroke-width:3px\n  \
    classDef failed stroke:#dc2626,stroke-width:4px\n";

fn shape(kind: NodeKind) -> (&'static str, &'static str) {
    match kind {
        NodeKind::Prompt | NodeKind::Missing => ("[", "]"),
        NodeKind::Script => ("[[", "]]"),
        NodeKind::Evaluator => ("{{", "}}"),
        NodeKind::Open => ("((", "))"),
        NodeKind::End => ("([", "])"),
    }
}

fn class(kind: NodeKind) -> &'static str {
    match kind {
        // `end` is a keyword of Mermaid.
        NodeKind::End => "finish",
        NodeKind::Prompt
        | NodeKind::Script
        | NodeKind::Evaluator
        | NodeKind::Open
        | NodeKind::Missing => kind.name(),
    }
}

fn label(node: &Node) -> String {
    let mut text = escaped(&node.label);
    if node.is_entry {
        text.insert_str(0, "▶ ");
    }
    if let Some(visit) = &node.visit {
        text.push_str("<br/>");
        text.push_str(&visit.label());
    }
    text
}

fn arrow(kind: LinkKind) -> &'static str {
    match kind {
        LinkKind::Way(EdgeKind::Reset | EdgeKind::Join) => "==>",
        LinkKind::Way(EdgeKind::Return | EdgeKind::Next | EdgeKind::Evaluate)
        | LinkKind::Result => "-.->",
        // A person is asked before it is followed.
        LinkKind::Way(EdgeKind::Ask) => "--o",
        LinkKind::Way(EdgeKind::Goto | EdgeKind::Call | EdgeKind::Function | EdgeKind::Fork) => {
            "-->"
        }
    }
}

/// Escapes every character that has a meaning in Mermaid or HTML, as a numeric entity.
fn escaped(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '.' | '-' | '×');
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) })
        .collect()
}
