//! `ambiguous-target` (error): a name in a transition matches several files.
//!
//! `NEXT` means `NEXT.md` or the script `NEXT.sh`, whichever exists. If both exist, the name is
//! ambiguous. Write the extension, or rename one of the files.

use crate::{scope::ResolveError, source::Severity};

use super::super::{
    Rule,
    finding::{Report, by_origin},
};

pub(super) const RULE: Rule = Rule {
    name: "ambiguous-target",
    severity: Severity::Error,
    source: include_str!("ambiguous_target.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        let said = state
            .said()
            .flat_map(|way| way.named().map(move |named| (named, by_origin(state, way))));
        let asked = state.evaluators.iter().map(|named| (named, Severity::Error));
        for (named, severity) in said.chain(asked) {
            let Some(error) = named.error() else { continue };
            if let ResolveError::Ambiguous { candidates, .. } = error.in_its_folder().1 {
                report
                    .at(state, named.written.span, error.to_string())
                    .severity(severity)
                    .help(format!("write `{}`", candidates.join("` or `")));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn ambiguous_target_is_found_where_a_prompt_and_a_script_share_a_name() {
        let files = [("START.sh", "echo '<goto>NEXT</goto>'"), ("NEXT.md", ""), ("NEXT.sh", "")];
        let said = found(&RULE, files);
        assert_eq!(said, ["START.sh:1:13: state `NEXT` is ambiguous: NEXT.md, NEXT.sh all match"]);
    }

    #[test]
    fn ambiguous_target_is_silent_where_the_extension_is_written() {
        let files = [("START.sh", "echo '<goto>NEXT.md</goto>'"), ("NEXT.md", ""), ("NEXT.sh", "")];
        assert!(found(&RULE, files).is_empty());
    }
}
