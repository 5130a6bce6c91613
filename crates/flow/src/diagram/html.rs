//! The page: the drawing, and the text of a state beside it.

use serde_json::json;

use super::{Diagram, svg::escaped};

impl Diagram {
    /// A page that needs nothing else: it opens from a file, without a network.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let (svg, states) = (self.svg(), self.states_json());
        let note =
            if self.shows_run { "<li class=\"visited\">visited by the run</li>" } else { "" };
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n\
             <main>\n<header><h1>{title}</h1>\n<ul class=\"legend\">{LEGEND}{note}</ul></header>\n\
             {svg}</main>\n\
             <aside id=\"panel\" hidden><button id=\"close\" aria-label=\"close\">×</button>\
             <h2 id=\"name\"></h2><p id=\"about\"></p><pre id=\"text\"></pre></aside>\n\
             <script type=\"application/json\" id=\"states\">{states}</script>\n\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }

    /// What the page shows of each box. No `<` is left, so nothing can end the element.
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
const LEGEND: &str = "<li class=\"prompt\">prompt</li><li class=\"script\">script</li>\
    <li class=\"evaluator\">evaluator</li>";
