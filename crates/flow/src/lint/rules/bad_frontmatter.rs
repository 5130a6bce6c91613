//! `bad-frontmatter` (error): a prompt whose frontmatter cannot be used.
//!
//! The YAML between the first line `---` and the next one must be readable, with each key once and
//! values of the right kind, and the file that `schema` names must have a schema that can be checked. An agent that enters such a state fails. This rule also reports a prompt that
//! is not UTF-8 text.
//!
//! `raymond help protocol` lists the keys; `frontmatter.schema.json` of the documents lets editors check them.

use crate::{
    graph::Content,
    source::{Matter, Severity, StateFileError},
    text::Span,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "bad-frontmatter",
    severity: Severity::Error,
    source: include_str!("bad_frontmatter.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        match &state.content {
            Content::Prompt(prompt) => {
                if let (Some(schema), Some(Err(why))) = (&prompt.frontmatter.schema, &state.schema)
                {
                    report.at(state, schema.span, format!("`schema`: {why}"));
                }
            }
            Content::Script => {}
            Content::Unusable(StateFileError::Frontmatter { diagnostics }) => {
                for found in diagnostics.iter().filter(|f| f.matter == Matter::Frontmatter) {
                    report
                        .at(state, found.span, found.message.clone())
                        .meant(found.suggestion.as_deref());
                }
            }
            Content::Unusable(error) => {
                let at = match error {
                    StateFileError::NotUtf8 { offset, .. } => *offset,
                    StateFileError::Kind(_) | StateFileError::Frontmatter { .. } => 0,
                };
                report.at(state, Span::new(at, at), error.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn bad_frontmatter_is_found_with_every_problem_of_a_file() {
        let text = "---\ntimeout: soon\nallowed_transitions:\n  - { tag: gotto }\n---\n";
        let said = found(&RULE, [("START.md", text)]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("START.md:2:10: `timeout`"), "{said:?}");
        assert!(said[1].starts_with("START.md:4:12: `gotto` is not a tag"), "{said:?}");
    }

    #[test]
    fn bad_frontmatter_is_found_in_the_file_of_a_schema() {
        let state = |file: &str| format!("---\nschema: {file}\n---\nx");
        let files = [
            ("START.md", &*state("bad.json")),
            ("NEXT.md", &*state("none.json")),
            ("GOOD.md", &*state("good.json")),
            ("bad.json", r#"{"type": "object", "oneOf": []}"#),
            ("good.json", r#"{"type": "object"}"#),
        ];
        let said = found(&RULE, files);
        assert_eq!(
            said,
            [
                "NEXT.md:2:9: `schema`: cannot read `none.json`: no such file",
                "START.md:2:9: `schema`: `bad.json`: the keyword `oneOf` is not one that Raymond checks",
            ]
        );
    }

    #[test]
    fn bad_frontmatter_is_silent_about_odd_keys_and_rules_in_the_text() {
        assert!(found(&RULE, [("START.md", "---\nmodle: opus\n---\nx\n---\ny: [\n")]).is_empty());
    }
}
