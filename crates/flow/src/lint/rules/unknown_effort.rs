//! `unknown-effort` (warning): an effort that Claude Code does not know.
//!
//! Efforts are passed on as written. Claude Code knows `low`, `medium`, `high`, `xhigh`, `max` and, in newer versions,
//! `ultracode`; with another word it warns and uses its default. States that name an `agent` are not reported.

use crate::source::{Severity, did_you_mean};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unknown-effort",
    severity: Severity::Warning,
    source: include_str!("unknown_effort.rs"),
    check,
};

const EFFORTS: [&str; 6] = ["low", "medium", "high", "xhigh", "max", "ultracode"];

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        let frontmatter = state.prompt().map(|prompt| &prompt.frontmatter);
        let Some(frontmatter) = frontmatter.filter(|f| f.agent.is_none()) else { continue };
        if let Some(effort) = &frontmatter.effort
            && !EFFORTS.contains(&effort.value.as_str())
        {
            let said = format!("`{}` is not an effort that is known here", effort.value);
            let meant = did_you_mean(&effort.value, EFFORTS);
            let help = "low, medium, high, xhigh, max or ultracode";
            report.at(state, effort.span, said).help(help).meant(meant);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn unknown_effort_is_found_where_it_stands() {
        let said = found(&RULE, [("START.md", "---\neffort: hihg\n---\nx")]);
        assert_eq!(said, ["START.md:2:9: `hihg` is not an effort that is known here"]);
    }

    #[test]
    fn unknown_effort_is_silent_about_known_ones() {
        for effort in ["max", "ultracode"] {
            let state = format!("---\neffort: {effort}\n---\nx");
            assert!(found(&RULE, [("START.md", &*state)]).is_empty(), "{effort}");
        }
    }
}
