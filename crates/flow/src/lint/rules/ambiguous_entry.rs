//! `ambiguous-entry` (error): the workflow could start at several states.
//!
//! Only one of `1_START` and `START` may exist, and only once: not both `START.md` and `START.sh`. A
//! script of the other platform does not count, so a workflow may have both `START.sh` and `START.bat`.
//!
//! Rename the files that should not come first.

use crate::{scope::EntryError, scope::ResolveError, source::Severity};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "ambiguous-entry",
    severity: Severity::Error,
    source: include_str!("ambiguous_entry.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    match &report.graph.entry {
        Err(error @ EntryError::Both { .. }) => {
            report.whole(error.to_string());
        }
        Err(EntryError::Unusable(error @ ResolveError::Ambiguous { .. })) => {
            report.whole(format!("two entry states: {error}"));
        }
        Ok(_) | Err(EntryError::None { .. } | EntryError::Unusable(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn ambiguous_entry_is_found_where_two_files_could_start() {
        let said = found(&RULE, [("1_START.md", "x"), ("START.md", "x")]);
        assert_eq!(said, ["two entry states, 1_START.md and START.md: keep only one"]);
        let said = found(&RULE, [("START.md", "x"), ("START.sh", "x")]);
        assert_eq!(
            said,
            ["two entry states: state `START` is ambiguous: START.md, START.sh all match"]
        );
    }

    #[test]
    fn ambiguous_entry_is_silent_about_scripts_of_two_platforms() {
        assert!(found(&RULE, [("START.sh", "x"), ("START.bat", "x")]).is_empty());
    }
}
