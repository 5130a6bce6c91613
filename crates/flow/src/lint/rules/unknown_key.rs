//! `unknown-key` (warning): an unknown key in the frontmatter.
//!
//! Unknown keys are ignored, so a typo goes unnoticed: with
//! `alowed_transitions` a state has no policy. The known keys are `allowed_transitions`,
//! `model`, `effort`, `timeout`, `agent` and `evaluators`.

use crate::{
    graph::Content,
    source::{Diagnostic, Matter, Severity, StateFileError},
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unknown-key",
    severity: Severity::Warning,
    source: include_str!("unknown_key.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        let diagnostics: &[Diagnostic] = match &state.content {
            Content::Prompt(prompt) => &prompt.warnings,
            Content::Unusable(StateFileError::Frontmatter { diagnostics }) => diagnostics,
            Content::Script | Content::Unusable(_) => &[],
        };
        for found in diagnostics.iter().filter(|found| found.matter == Matter::UnknownKey) {
            report.at(state, found.span, found.message.clone()).meant(found.suggestion.as_deref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn unknown_key_is_found_where_it_stands() {
        let said = found(&RULE, [("START.md", "---\nmodle: opus\n---\nx")]);
        assert_eq!(said, ["START.md:2:1: unknown key `modle` is ignored"]);
    }

    #[test]
    fn unknown_key_is_silent_about_known_ones() {
        let text =
            "---\nmodel: opus\neffort: high\ntimeout: 5m\nagent: claude\nevaluators: []\n---\nx";
        assert!(found(&RULE, [("START.md", text)]).is_empty());
    }
}
