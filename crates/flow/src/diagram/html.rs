//! HTML output: the drawing, and the text of the selected state beside it.

use std::fmt::Write as _;

use serde_json::json;

use super::{Diagram, LinkKind, NodeKind, svg::escaped};

impl Diagram {
    /// A self-contained page: it opens from a file, without a network.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let (svg, states) = (self.svg(), self.states_json());
        let legend = self.legend();
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <main>\n<header><h1>{title}</h1>\n<ul class=\"legend\">{legend}</ul></header>\n\
             {svg}</main>\n\
             <aside id=\"panel\" hidden><button id=\"close\" aria-label=\"close\">×</button>\
             <h2 id=\"name\"></h2><p id=\"about\"></p><pre id=\"text\"></pre></aside>\n\
             <script type=\"application/json\" id=\"states\">{states}</script>\n\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }

    /// The legend: the kinds of boxes and lines that occur in the diagram.
    fn legend(&self) -> String {
        let mut legend = String::new();
        for kind in [NodeKind::Prompt, NodeKind::Script, NodeKind::Evaluator, NodeKind::Missing] {
            if self.nodes.iter().any(|node| node.kind == kind) {
                // Writing to a String cannot fail.
                let _ = write!(legend, "<li class=\"box {0}\">{0}</li>", kind.name());
            }
        }
        let line = |class: &str, word: &str| {
            format!(
                "<li><svg class=\"sample\" viewBox=\"0 0 30 10\"><g class=\"link {class}\">\
                 <path d=\"M1 5H28\" marker-end=\"url(#arrow)\"/></g></svg>{word}</li>"
            )
        };
        for kind in LinkKind::ALL {
            if self.links.iter().any(|link| link.kind == kind) {
                legend.push_str(&line(kind.name(), kind.name()));
            }
        }
        if self.taken.is_some() {
            legend.push_str(&line("goto taken", "taken by the run"));
            legend.push_str("<li class=\"box failed\">failed</li>");
        }
        legend
    }

    /// What the page shows of each box, as JSON. It contains no `<`, so it cannot end its `<script>` element.
    fn states_json(&self) -> String {
        let states: Vec<_> = self
            .nodes
            .iter()
            .map(|node| {
                let about = match &node.visit {
                    Some(visit) => format!("{}, {}", node.kind.name(), visit.label()),
                    None => node.kind.name().to_owned(),
                };
                json!({ "name": node.label, "about": about, "text": node.text })
            })
            .collect();
        json!(states).to_string().replace('<', "\\u003c")
    }
}

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
