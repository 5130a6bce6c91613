//! The findings of lint as text or as JSON.

use std::{fmt::Write as _, path::Path};

use raymond_flow::{graph::Graph, id::StateName, lint::Finding, source::Severity};

use crate::out::{self, clipped, one_line, visible};

/// The files of the findings.
pub(crate) struct Sources<'a> {
    /// The directory or archive, as the user typed it.
    pub(crate) path: &'a Path,
    /// Their texts.
    pub(crate) graph: &'a Graph,
    /// The text of a one-file workflow, if it is one: the findings are about its lines.
    pub(crate) yaml: Option<&'a str>,
}

/// A JSON array, one object for each finding.
pub(crate) fn as_json(found: &[Finding]) -> String {
    let text = serde_json::to_string_pretty(found).unwrap_or_else(|_| "[]".to_owned());
    format!("{}\n", out::escaped(&text))
}

/// Each finding with its line of source and a caret under the place.
pub(crate) fn as_text(found: &[Finding], sources: &Sources<'_>) -> String {
    let mut text = String::new();
    for finding in found {
        draw(&mut text, finding, sources);
        text.push('\n');
    }
    text
}

fn draw(text: &mut String, finding: &Finding, sources: &Sources<'_>) {
    let Finding { rule, file, position, message, help, .. } = finding;
    let severity = match finding.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    // Writing to a String cannot fail, here and below.
    let _ = writeln!(text, "{severity}[{rule}]: {}", one_line(message));
    let Some(file) = file else {
        let _ = writeln!(text, "  --> {}", shown(sources.path));
        push_help(text, "   ", help.as_deref());
        return;
    };
    let number = position.line.to_string();
    let margin = " ".repeat(number.len());
    let path = match sources.yaml {
        Some(_) => sources.path.to_owned(),
        None => sources.path.join(file),
    };
    let _ = writeln!(text, "{margin} --> {}:{position}", shown(&path));
    let state = sources.graph.state(&StateName::new(file));
    let own = state.map(|state| state.text.as_str()).unwrap_or_default();
    let source = sources.yaml.unwrap_or(own);
    if let Some(line) = MarkedLine::of(source, finding) {
        let _ = writeln!(text, "{margin} |\n{number} | {}", line.text);
        let _ = writeln!(text, "{margin} | {}{}", line.before, line.carets);
    }
    push_help(text, &margin, help.as_deref());
}

fn push_help(text: &mut String, margin: &str, help: Option<&str>) {
    if let Some(help) = help {
        let _ = writeln!(text, "{margin} = help: {}", one_line(help));
    }
}

/// The first line of a finding, ready to be drawn.
struct MarkedLine {
    text: String,
    before: String,
    carets: String,
}

impl MarkedLine {
    fn of(source: &str, finding: &Finding) -> Option<Self> {
        let range = finding.span.range()?;
        let start = range.start.min(source.len());
        let (head, tail) = source.split_at_checked(start)?;
        let head = head.rsplit('\n').next().unwrap_or_default().trim_start_matches('\u{feff}');
        let rest = tail.split('\n').next().unwrap_or_default().trim_end_matches('\r');
        let length = range.end.saturating_sub(start).min(rest.len());
        let marked = rest.get(..length).unwrap_or(rest);
        let (head, rest) = (ending(head, BEFORE_CHARS_MAX), clipped(rest, AFTER_CHARS_MAX));
        let marked = clipped(marked, AFTER_CHARS_MAX);
        // Tabs stay tabs, so that the carets are aligned.
        let before = visible(&head).chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
        let carets = "^".repeat(visible(&marked).chars().count().max(1));
        Some(Self { text: visible(&format!("{head}{rest}")).into_owned(), before, carets })
    }
}

/// How much of a line is shown before the place of a finding, and from there on. A line can be as long as its
/// file.
const BEFORE_CHARS_MAX: usize = 60;
const AFTER_CHARS_MAX: usize = 100;

/// The last `chars_max` characters of a line, with an ellipsis where it was cut.
fn ending(text: &str, chars_max: usize) -> String {
    match text.char_indices().rev().nth(chars_max) {
        Some((cut, c)) => format!("…{}", text.split_at(cut + c.len_utf8()).1),
        None => text.to_owned(),
    }
}

fn shown(path: &Path) -> String {
    one_line(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use raymond_flow::{lint::lint, world::MemoryWorld};

    use super::*;

    fn text(files: &[(&str, &str)]) -> String {
        let graph = Graph::of(&MemoryWorld::new(files.iter().copied()), None).unwrap();
        let mut found = lint(&graph, &raymond_flow::lint::Known::default());
        found.retain(|finding| finding.severity == Severity::Error);
        as_text(&found, &Sources { path: Path::new("flow"), graph: &graph, yaml: None })
    }

    #[test]
    fn finding_is_drawn_with_its_line_and_a_caret_under_the_text() {
        let start = "---\nallowed_transitions:\n  - { tag: goto, target: REVEIW }\n---\nx";
        let drawn = text(&[("START.md", start), ("REVIEW.md", "<result>x</result>")]);
        assert_eq!(
            drawn,
            "error[missing-target]: state `REVEIW` not found\n\
             \x20 --> flow/START.md:3:26\n\
             \x20 |\n\
             3 |   - { tag: goto, target: REVEIW }\n\
             \x20 |                          ^^^^^^\n\
             \x20 = help: did you mean `REVIEW.md`?\n\n"
        );
    }

    #[test]
    fn finding_in_a_long_line_shows_what_is_around_it() {
        let start =
            format!("{}<goto>GONE</goto>{} <result>x</result>", "ä".repeat(9000), "b".repeat(9000));
        let graph = Graph::of(&MemoryWorld::new([("START.sh", &*start)]), None).unwrap();
        let found = lint(&graph, &raymond_flow::lint::Known::default());
        let drawn =
            as_text(&found, &Sources { path: Path::new("flow"), graph: &graph, yaml: None });
        let line = format!("1 | …{}<goto>GONE</goto>{}…\n", "ä".repeat(54), "b".repeat(89));
        assert!(drawn.contains(&line), "{drawn}");
        assert!(drawn.contains(&format!("  | {}^^^^\n", " ".repeat(61))), "{drawn}");
        let widest = drawn.lines().map(|line| line.chars().count()).max();
        assert!(widest < Some(200), "{drawn}");
    }

    /// Every kind of place: an entry, a word, a whole tag, a line, a tab before it, a wide margin.
    #[test]
    fn findings_of_every_kind_are_drawn() {
        let start = "---\nmodle: opus\nallowed_transitions:\n  - tag: call\n    target: RESEARCH\n    \
                     return: SUMMARISE\n  - { tag: result }\n---\n\n\nLook at {{inptu}}.\n\n\
                     - More is needed: <call return=\"SUMMARIZE\">RESEARCH</call>\n\
                     - Else <goto>SUMMARIZE</goto>\n";
        let files = [
            ("START.md", start),
            ("RESEARCH.md", "Find out more.\n"),
            ("SUMMARIZE.sh", "if true; then\n\techo '<fork item=\"é\">WORKER</fork>'\nfi\n"),
            ("README.md", "About this <result>x</result>"),
        ];
        let graph = Graph::of(&MemoryWorld::new(files), None).unwrap();
        let found = lint(&graph, &raymond_flow::lint::Known::default());
        insta::assert_snapshot!(as_text(
            &found,
            &Sources { path: Path::new("flow"), graph: &graph, yaml: None }
        ));
    }

    #[test]
    fn finding_about_the_whole_workflow_names_its_directory() {
        let drawn = text(&[("STRAT.md", "<result>x</result>")]);
        assert!(drawn.starts_with("error[no-entry]: no entry state"), "{drawn}");
        assert!(drawn.contains("  --> flow\n"), "{drawn}");
    }

    #[test]
    fn finding_cannot_control_the_terminal() {
        let drawn = text(&[("START.sh", "echo '\u{202e}<goto>A\u{1b}[2J</goto>'")]);
        assert!(drawn.contains("1 | echo '\\u{202e}<goto>A\\u{1b}[2J</goto>'\n"), "{drawn}");
        assert!(!drawn.contains('\u{1b}'), "{drawn}");
        // The caret stands under what is shown, not under what is in the file.
        let place = |what: &str| drawn.lines().filter_map(|line| line.find(what)).next_back();
        assert_eq!(place("^"), place("A\\u{1b}"), "{drawn}");
    }
}
