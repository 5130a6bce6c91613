//! `path-in-target` (error): a transition names a state by a path.
//!
//! A state names the states of its own folder by their file names alone. A `call`, `function` or `fork` may
//! enter a subworkflow, a folder beside the state: `review/` is its entry state, `review/PLAN` another one.
//! No other tag can, because only a subtask and a worker have a folder of their own, and no name leads up,
//! through several folders or out of the workflow.

use crate::{
    graph::{Content, Meaning},
    scope::{OR_IN_FOLDER, ResolveError},
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
            for named in way.named() {
                let name = &named.written.value;
                let said = match &named.meaning {
                    Meaning::Path => {
                        let is_target = way.target.as_ref() == Some(named);
                        let is_entry = is_target && way.tag.enters_subworkflows();
                        let or = if is_entry { OR_IN_FOLDER } else { "" };
                        format!("`{name}` is a path: a state is named by its file name alone{or}")
                    }
                    Meaning::Wrong(error @ ResolveError::Subworkflow { .. }) => error.to_string(),
                    Meaning::Wrong(_) | Meaning::State(_) | Meaning::Open => continue,
                };
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
        let policy = prompt(&["tag: goto, target: sub/deep/NEXT.md"], "x");
        let calls = prompt(&["tag: call, target: ../sub/, return: A"], "x");
        let files = [
            ("CALL.md", &*calls),
            ("FORK.sh", "echo '<fork next=\"../A\">sub//B</fork>'"),
            ("START.md", &*policy),
            ("RUN.sh", "echo '<goto>../OTHER</goto>'"),
        ];
        let alone = "is a path: a state is named by its file name alone";
        let or = ", or `FOLDER/STATE` in a subworkflow";
        assert_eq!(
            found(&RULE, files),
            [
                format!("CALL.md:3:26: `../sub/` {alone}{or}"),
                format!("FORK.sh:1:19: `../A` {alone}"),
                format!("FORK.sh:1:25: `sub//B` {alone}{or}"),
                format!("RUN.sh:1:13: `../OTHER` {alone}"),
                format!("START.md:3:26: `sub/deep/NEXT.md` {alone}")
            ]
        );
    }

    #[test]
    fn path_in_target_is_found_where_a_subworkflow_cannot_be_entered() {
        let policy = prompt(
            &["tag: reset, target: review/", "tag: fork, target: review/, next: review/A"],
            "x",
        );
        let text =
            "<goto>review/</goto> <call return=\"review/A\">review/</call> <join>review/A</join>";
        let files =
            [("START.md", text), ("P.md", &*policy), ("review/START.md", ""), ("review/A.md", "")];
        let said = "a subworkflow, which only";
        let found = found(&RULE, files);
        assert_eq!(found.len(), 5, "{found:?}");
        assert!(found.iter().all(|finding| finding.contains(said)), "{found:?}");
    }

    #[test]
    fn path_in_target_is_silent_about_other_paths() {
        let text = "<reset cd=\"a/b\">START</reset> or <result>a/b</result>";
        assert!(found(&RULE, [("START.md", text)]).is_empty());
    }
}
