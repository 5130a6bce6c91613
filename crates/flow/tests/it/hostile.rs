//! Lint and diagrams accept hostile files: users look at a workflow before they trust it.

use proptest::prelude::*;
use raymond_flow::{
    diagram::Diagram,
    graph::Graph,
    lint::{Finding, Known, lint},
    source::{Platform, Severity, StateFile, StateFileError, StateSource},
    world::MemoryWorld,
};

/// Pieces of state files, also of malformed ones.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("---\n".to_owned()),
        Just("allowed_transitions:\n".to_owned()),
        "  - \\{ tag: (goto|reset|call|function|fork|result), target: [A-C], return: [A-C] \\}\n",
        "  - \\{ tag: (goto|fork), target: [A-D](/x)?, next: [A-C], [a-z-]{1,4}: é \\}\n",
        "evaluators:\n  - (prompt: [A-C]|\\{ match: '[a(]', then: \\{ tag: result \\} \\})\n",
        "<(goto|reset|result)>[A-C]?</(goto|reset|result)>",
        "<(call|fork) (return|next)=(\"|'|\\\\\")[A-C$]{1,2}(\"|'|\\\\\") ?[a-z]?>[A-C]</(call|fork)>",
        "\\{\\{ ?[a-z_]{0,5} ?\\}\\}",
        "[\\^\\\\#'\"<>é€\u{feff}\u{1b}\r\n\t ]{0,4}",
        "\\PC{0,8}",
    ]
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(piece(), 0..14), prop::option::of(any::<u8>())).prop_map(
        |(pieces, last)| {
            let mut bytes = pieces.concat().into_bytes();
            bytes.extend(last);
            bytes
        },
    )
}

fn linted(files: &[(&str, &str)]) -> Vec<Finding> {
    let world = MemoryWorld::new(files.iter().copied());
    lint(&Graph::of(&world, None).unwrap(), &Known::default())
}

fn count(found: &[Finding], rule: &str) -> usize {
    found.iter().filter(|finding| finding.rule == rule).count()
}

fn last<'f>(found: &'f [Finding], rule: &str) -> &'f Finding {
    found.iter().rfind(|finding| finding.rule == rule).unwrap()
}

#[test]
fn lint_reports_a_hundred_findings_of_a_kind_and_counts_the_rest() {
    let variables = (0..20_000).map(|n| format!("{{{{v{n}}}}} ")).collect::<Vec<_>>().concat();
    let found = linted(&[("START.md", &format!("<result>x</result> {variables}"))]);
    assert_eq!(count(&found, "unknown-variable"), 102);
    let rest = last(&found, "unknown-variable");
    assert_eq!(rest.message, "and 19899 more like this in this file");
    assert_eq!(rest.position.to_string(), "1:819");
}

#[test]
fn lint_never_leaves_an_error_out_with_the_rest() {
    let prose = "<fork next=\"START\" data-x=\"1\">START</fork>\n".repeat(200);
    let entry = "---\nallowed_transitions:\n  - { tag: fork, attributes: [PATH] }\n---\n";
    let found = linted(&[("START.md", &format!("{entry}{prose}"))]);
    let is_rest = |finding: &&Finding| finding.message.starts_with("and ");
    let rest = found.iter().filter(is_rest).find(|f| f.rule == "unsafe-attribute").unwrap();
    assert_eq!(rest.severity, Severity::Error);
    assert_eq!(count(&found, "unsafe-attribute"), 102);
}

#[test]
fn lint_quotes_only_the_beginning_of_a_long_name() {
    let name = "v".repeat(100_000);
    let found = linted(&[("START.md", &format!("<result>x</result> {{{{{name}}}}}"))]);
    assert_eq!(count(&found, "unknown-variable"), 1);
    for finding in &found {
        assert!(finding.message.chars().count() <= 301, "{}", finding.message);
        assert!(finding.help.as_ref().is_none_or(|help| help.chars().count() <= 301));
    }
}

#[test]
fn unknown_keys_are_reported_a_hundred_times_and_then_counted() {
    let keys = (0..20_000).map(|n| format!("k{n}: 1\n")).collect::<Vec<_>>().concat();
    let text = format!("---\n{keys}---\n<result>x</result>");
    let StateSource::Prompt(prompt) =
        StateFile::read("A.md", text.as_bytes(), Platform::Unix).unwrap().source
    else {
        panic!("a prompt");
    };
    assert_eq!(prompt.warnings.len(), 101);
    let rest = prompt.warnings.last().unwrap();
    assert_eq!(rest.to_string(), "A.md:102:1: and 19900 more like this in this file");
    let found = linted(&[("START.md", &text)]);
    assert_eq!(count(&found, "unknown-key"), 101);
    assert_eq!(last(&found, "unknown-key").message, "and 19900 more like this in this file");
}

#[test]
fn errors_that_are_only_counted_still_make_a_file_unusable() {
    let entries = "  - { tag: goto, target: [] }\n".repeat(150);
    let text = format!("---\nallowed_transitions:\n{entries}---\nx");
    let Err(StateFileError::Frontmatter { diagnostics }) =
        StateFile::read("A.md", text.as_bytes(), Platform::Unix)
    else {
        panic!("no entry can be read");
    };
    assert_eq!(diagnostics.len(), 101);
    assert_eq!(diagnostics[100].message, "and 50 more like this in this file");
}

#[test]
fn oversized_frontmatter_is_rejected_without_parsing() {
    let text = format!("---\nmodel: opus\n# {}\n---\nx", "x".repeat(256 * 1024));
    let error = StateFile::read("A.md", text.as_bytes(), Platform::Unix).unwrap_err();
    assert_eq!(error.to_string(), "A.md:2:1: frontmatter has at most 262144 bytes");
}

#[test]
fn patterns_of_a_state_have_a_size_together() {
    let one = "  - { match: '(\\w{20}){3}', then: { tag: result } }\n";
    let read = |evaluators: &str| {
        let text = format!("---\nevaluators:\n{evaluators}---\nx");
        StateFile::read("A.md", text.as_bytes(), Platform::Unix)
    };
    assert!(read(one).is_ok());
    let error = read(&one.repeat(300)).unwrap_err().to_string();
    assert!(error.contains("the patterns of this state are too large"), "{error}");
    let error = read("  - { match: '((a{90}){90}){90}', then: { tag: result } }\n").unwrap_err();
    let expected = "A.md:3:14: the patterns of this state are too large: use lower repeat counts";
    assert_eq!(error.to_string(), expected);
}

proptest! {
    #[test]
    fn lint_and_diagrams_take_any_files(
        texts in prop::collection::vec(text(), 4),
        is_windows in any::<bool>(),
    ) {
        let names = ["START.md", "A.md", "B.sh", "C.bat"];
        let mut world = MemoryWorld::new([]);
        world.platform = if is_windows { Platform::Windows } else { Platform::Unix };
        world.files = names.iter().map(|name| (*name).to_owned()).zip(texts).collect();
        let graph = Graph::of(&world, None).unwrap();
        for finding in lint(&graph, &Known::default()) {
            if let Some(state) = graph.states.values().find(|s| finding.file.as_deref() == Some(s.name.as_str())) {
                prop_assert!(finding.span.end <= state.text.len() as u64, "{finding:?}");
                prop_assert!(finding.span.slice(&state.text).is_some(), "{finding:?}");
            }
        }
        let diagram = Diagram::of("any", &graph, None);
        for link in &diagram.links {
            prop_assert!(link.from < diagram.nodes.len() && link.to < diagram.nodes.len());
        }
        let page = diagram.html();
        prop_assert_eq!(page.matches("</script>").count(), 2);
        prop_assert!(!page.contains("=\"NaN") && !page.contains("=\"inf"));
        diagram.mermaid();
        diagram.dot();
    }
}
