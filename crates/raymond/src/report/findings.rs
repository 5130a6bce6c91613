//! The findings of lint: as text, as JSON, and for CI systems.

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
};

use raymond_flow::{
    graph::Graph,
    id::StateName,
    lint::{self, Finding},
    source::Severity,
};
use serde::Serialize;
use serde_json::json;

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

impl Sources<'_> {
    /// The file that a finding is about: of the workflow as a whole its directory, of a one-file workflow that file.
    pub(crate) fn file(&self, finding: &Finding) -> PathBuf {
        match (&finding.file, self.yaml) {
            (Some(file), None) => self.path.join(file),
            _ => self.path.to_owned(),
        }
    }
}

/// A finding and where its file is.
#[derive(Debug, Serialize)]
pub(crate) struct Placed {
    /// The file, as the user would type it.
    pub(crate) path: PathBuf,
    #[serde(flatten)]
    pub(crate) finding: Finding,
}

/// A JSON array, one object for each finding.
pub(crate) fn as_json(found: &[Placed]) -> String {
    let text = serde_json::to_string_pretty(found).unwrap_or_else(|_| "[]".to_owned());
    format!("{}\n", out::escaped(&text))
}

/// A command of GitHub's workflows for each finding: it annotates the line in a pull request.
pub(crate) fn as_github(found: &[Placed]) -> String {
    let mut text = String::new();
    for Placed { path, finding } in found {
        let level = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "notice",
        };
        let (file, title) = (github_property(&path.to_string_lossy()), finding.rule);
        let (line, column) = (finding.position.line, finding.position.column);
        let message = match &finding.help {
            Some(help) => format!("{}\n{help}", finding.message),
            None => finding.message.clone(),
        };
        let message = github_message(&message);
        let _ = writeln!(
            text,
            "::{level} file={file},line={line},col={column},title={title}::{message}"
        );
    }
    text
}

/// Escapes what would end a message: GitHub decodes it.
fn github_message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

fn github_property(text: &str) -> String {
    github_message(text).replace(':', "%3A").replace(',', "%2C")
}

/// A log of code scanning, with the rules that found something.
pub(crate) fn as_sarif(found: &[Placed]) -> String {
    let rules: std::collections::BTreeSet<_> =
        found.iter().map(|placed| placed.finding.rule).collect();
    let rules: Vec<_> = rules
        .into_iter()
        .map(|name| {
            let manual = lint::rule(name).map(lint::Rule::manual).unwrap_or_default();
            let title = manual.lines().next().unwrap_or(name);
            json!({ "id": name, "shortDescription": { "text": title }, "fullDescription": { "text": manual } })
        })
        .collect();
    let results: Vec<_> = found
        .iter()
        .map(|Placed { path, finding }| {
            let level = match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            let (line, column) = (finding.position.line, finding.position.column);
            let help = finding.help.as_deref().map(|help| format!("\n{help}")).unwrap_or_default();
            json!({
                "ruleId": finding.rule,
                "level": level,
                "message": { "text": format!("{}{help}", finding.message) },
                "locations": [{ "physicalLocation": {
                    "artifactLocation": { "uri": uri(path) },
                    "region": { "startLine": line, "startColumn": column },
                } }],
            })
        })
        .collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "raymond", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "results": results,
        }],
    });
    format!("{}\n", out::escaped(&format!("{log:#}")))
}

/// A path as a relative reference: slashes, and everything else that is no plain character in percent notation.
fn uri(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.to_string_lossy().replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                text.push(char::from(byte));
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
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
        let _ = writeln!(text, "  --> {}", shown(&sources.file(finding)));
        push_help(text, "   ", help.as_deref());
        return;
    };
    let number = position.line.to_string();
    let margin = " ".repeat(number.len());
    let path = sources.file(finding);
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

    #[test]
    fn github_annotates_the_line_and_no_text_ends_the_command() {
        let mut finding = finding_of("---\nmodle: opus\n---\n<result>x</result>");
        finding.message = "50 % of\nit: wrong".to_owned();
        finding.help = None;
        let path = PathBuf::from("a,b/START.md");
        assert_eq!(
            as_github(&[Placed { path, finding }]),
            "::warning file=a%2Cb/START.md,line=2,col=1,title=unknown-key::50 %25 of%0Ait: wrong\n"
        );
    }

    #[test]
    fn sarif_names_rule_file_and_place() {
        let finding = finding_of("---\nmodle: opus\n---\n<result>x</result>");
        let path = PathBuf::from("my flow/START.md");
        let log: serde_json::Value =
            serde_json::from_str(&as_sarif(&[Placed { path, finding }])).unwrap();
        let run = &log["runs"][0];
        assert_eq!(run["tool"]["driver"]["rules"][0]["id"], run["results"][0]["ruleId"]);
        let place = &run["results"][0]["locations"][0]["physicalLocation"];
        assert_eq!(place["artifactLocation"]["uri"], "my%20flow/START.md");
        assert_eq!(place["region"]["startLine"], 2);
    }

    fn finding_of(start: &str) -> Finding {
        let graph = Graph::of(&MemoryWorld::new([("START.md", start)]), None).unwrap();
        lint(&graph, &raymond_flow::lint::Known::default()).swap_remove(0)
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
