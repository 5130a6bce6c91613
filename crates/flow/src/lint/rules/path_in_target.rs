//! `path-in-target` (error): a transition names a state by a path.
//!
//! A workflow is flat: states are named by their file names alone, and a name with `/` or `\` is
//! rejected. There are no transitions to another directory.

use crate::{
    graph::{Content, Meaning},
    source::{Matter, Severity, StateFileError},
};

use super::super::{
    Rule,
    finding::{Report, by_origin},
};

pub(super) const RULE: Rule = Rule {
    name: "path-in-target",
    severity: Severity::Error,
    source: include_str!("path_in_target.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        if let Content::Unusable(StateFileError::Frontmatter { diagnostics }) = &state.content {
            for found in diagnostics.iter().filter(|found| found.matter == Matter::PathInTarget) {
                report.at(state, found.span, found.message.clone());
            }
        }
        for way in &state.mentions {
            for named in way.named().filter(|named| named.meaning == Meaning::Path) {
                let name = &named.written.value;
                let said = format!("`{name}` is a path: a state is named by its file name alone");
                report.at(state, named.written.span, said).severity(by_origin(state, way));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, prompt},
        RULE,
    };

    #[test]
    fn path_in_target_is_found_in_frontmatter_and_text() {
        let policy = prompt(&["tag: goto, target: sub/NEXT.md"], "x");
        let files = [("START.md", &*policy), ("RUN.sh", "echo '<goto>../OTHER</goto>'")];
        let alone = "is a path: a state is named by its file name alone";
        assert_eq!(
            found(&RULE, files),
            [
                format!("RUN.sh:1:13: `../OTHER` {alone}"),
                format!("START.md:3:26: `sub/NEXT.md` {alone}")
            ]
        );
    }

    #[test]
    fn path_in_target_is_silent_about_other_paths() {
        let text = "<reset cd=\"a/b\">START</reset> or <result>a/b</result>";
        assert!(found(&RULE, [("START.md", text)]).is_empty());
    }
}
