//! `no-entry` (error): the workflow has no entry state.
//!
//! A directory or an archive starts at the state that `1_START` or `START` resolves to: `START.md`,
//! `START.sh` or, on Windows, `START.bat`. Without one, `raymond start DIR` fails. Rename
//! the first state, or start the workflow by naming the file.
//!
//! A file that only another platform can run does not count.

use crate::{scope::EntryError, scope::ResolveError, source::Severity};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "no-entry",
    severity: Severity::Error,
    source: include_str!("no_entry.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    match &report.graph.entry {
        Err(error @ EntryError::None { suggestion, .. }) => {
            report.whole(error.to_string()).meant(suggestion.as_deref());
        }
        Err(EntryError::Unusable(
            error @ (ResolveError::WrongPlatform { .. }
            | ResolveError::Unsupported(_)
            | ResolveError::NotFound { .. }),
        )) => {
            report.whole(format!("no entry state: {error}"));
        }
        Ok(_) | Err(EntryError::Both { .. } | EntryError::Unusable(_)) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn no_entry_is_found_in_a_directory_without_start() {
        let said = found(&RULE, [("STRAT.md", "x")]);
        assert_eq!(
            said,
            ["no entry state: expected 1_START or START, with the extension .md or .sh"]
        );
        let said = found(&RULE, [("START.bat", "x")]);
        assert_eq!(
            said,
            ["no entry state: state `START` cannot run on Unix: START.bat is for Windows"]
        );
    }

    #[test]
    fn no_entry_is_silent_about_a_directory_with_start() {
        assert!(found(&RULE, [("START.md", "x")]).is_empty());
        assert!(found(&RULE, [("1_START.sh", "x"), ("START.bat", "x")]).is_empty());
    }
}
