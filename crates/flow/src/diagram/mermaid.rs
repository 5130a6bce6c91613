//! Mermaid: for markdown files and wherever they are shown.

use std::fmt::Write as _;

use crate::graph::EdgeKind;

use super::{Diagram, Link, LinkKind, Node, NodeKind};

impl Diagram {
    /// The picture in Mermaid's language.
    pub fn mermaid(&self) -> String {
        let mut text = "flowchart TD\n".to_owned();
        // Writing to a String cannot fail, here and below.
        for (index, node) in self.nodes.iter().enumerate() {
            let (open, close) = shape(node.kind);
            let class = class(self.shows_run, node);
            let _ = writeln!(text, "  n{index}{open}\"{}\"{close}:::{class}", label(node));
        }
        for Link { from, to, kind } in &self.links {
            let _ = writeln!(text, "  n{from} {} n{to}", arrow(*kind));
        }
        text.push_str(STYLES);
        text
    }
}

const STYLES: &str = "  classDef prompt fill:#dbeafe,stroke:#2563eb,color:#111\n  \
    classDef script fill:#dcfce7,stroke:#16a34a,color:#111\n  \
    classDef evaluator fill:#f3e8ff,stroke:#9333ea,color:#111\n  \
    classDef missing fill:#fee2e2,stroke:#dc2626,color:#111,stroke-dasharray:4 3\n  \
    classDef open fill:#fff,stroke:#888,color:#111,stroke-dasharray:4 3\n  \
    classDef finish fill:#eee,stroke:#666,color:#111\n  \
    classDef visited fill:#fde68a,stroke:#b45309,color:#111,stroke-width:2px\n";

fn shape(kind: NodeKind) -> (&'static str, &'static str) {
    match kind {
        NodeKind::Prompt | NodeKind::Missing => ("[", "]"),
        NodeKind::Script => ("[[", "]]"),
        NodeKind::Evaluator => ("{{", "}}"),
        NodeKind::Open => ("((", "))"),
        NodeKind::End => ("([", "])"),
    }
}

fn class(shows_run: bool, node: &Node) -> &'static str {
    if shows_run && node.visit.is_some() {
        return "visited";
    }
    match node.kind {
        // `end` is a word of Mermaid's own.
        NodeKind::End => "finish",
        kind => kind.name(),
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

fn arrow(kind: LinkKind) -> String {
    match kind {
        LinkKind::Way(EdgeKind::Goto) | LinkKind::Result => "-->".to_owned(),
        LinkKind::Way(EdgeKind::Reset) => "==>|reset|".to_owned(),
        LinkKind::Way(kind @ (EdgeKind::Return | EdgeKind::Next | EdgeKind::Ask)) => {
            format!("-.->|{kind}|")
        }
        LinkKind::Way(kind) => format!("-->|{kind}|"),
    }
}

/// Whatever could mean something to Mermaid or to a browser is written as a number.
fn escaped(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, ' ' | '_' | '.' | '-');
    text.chars()
        .map(|c| if is_plain(c) { c.to_string() } else { format!("#{};", u32::from(c)) })
        .collect()
}
