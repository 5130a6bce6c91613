//! `missing-target` (error): a transition leads to a state that does not exist.
//!
//! Names are looked up in the folder of the state that writes them, byte for byte: `REVIEW` means `REVIEW.md` or
//! the script `REVIEW.sh`, never `review.md`. An agent that asks for a state that does not exist is
//! reminded, which does not help, or fails.
//!
//! In the text of a prompt with `allowed_transitions` this is a warning, because it may be an example
//! and the agent is reminded. Instead of a name in an example, write dots: `<goto>…</goto>`.

use crate::{
    graph::{Named, State},
    scope::{FOLDER_DEPTH_MAX, ResolveError},
    source::Severity,
};

use super::super::{
    Rule,
    finding::{Report, by_origin},
};

pub(super) const RULE: Rule = Rule {
    name: "missing-target",
    severity: Severity::Error,
    source: include_str!("missing_target.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        for way in state.said() {
            for named in way.named() {
                look(report, state, named, by_origin(state, way));
            }
        }
        for asked in &state.evaluators {
            look(report, state, asked, Severity::Error);
        }
    }
}

fn look(report: &mut Report<'_>, state: &State, named: &Named, severity: Severity) {
    let Some(error) = named.error() else { return };
    let (folder, cause) = error.in_its_folder();
    let (message, suggestion, help) = match cause {
        // The suggestion is the help of the finding.
        ResolveError::NotFound { name, suggestion, candidates } => {
            let own = state.name.folder();
            let files = candidates.iter().map(|file| format!("{own}{folder}{file}"));
            let files: Vec<_> = files.collect();
            let help = format!("create {}", files.join(" or "));
            let meant = suggestion.as_ref().map(|name| format!("{folder}{name}"));
            (format!("state `{folder}{name}` not found"), meant, Some(help))
        }
        // A listing has no folders that lie too deep.
        ResolveError::NoFolder { folder, .. } if is_too_deep(state) => {
            let folder = format!("{}{folder}", state.name.folder());
            (ResolveError::TooDeep { folder }.to_string(), None, None)
        }
        ResolveError::NoFolder { folder, suggestion } => {
            // The folder may be there, without an entry state: lint sees only the folders that are subworkflows.
            let own = state.name.folder();
            let help = format!(
                "a subworkflow is a folder with an entry state: create {own}{folder}START.md or {own}{folder}START.sh"
            );
            (format!("there is no subworkflow `{folder}`"), suggestion.clone(), Some(help))
        }
        ResolveError::Unsupported(_)
        | ResolveError::NoStart { .. }
        | ResolveError::TooDeep { .. }
        | ResolveError::Unlisted(_) => (error.to_string(), None, None),
        // Other rules report these.
        ResolveError::Ambiguous { .. }
        | ResolveError::WrongPlatform { .. }
        | ResolveError::Subworkflow { .. }
        | ResolveError::InFolder { .. } => return,
    };
    let finding = report.at(state, named.written.span, message);
    if let Some(help) = help {
        finding.help(help);
    }
    let suggestion = suggestion.as_deref();
    finding.severity(severity).meant(suggestion);
}

/// Whether no subworkflow can lie in the folder of `state`.
fn is_too_deep(state: &State) -> bool {
    state.name.folder().matches('/').count() >= FOLDER_DEPTH_MAX
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, prompt},
        RULE,
    };

    #[test]
    fn missing_target_is_found_in_policies_evaluators_scripts_and_prose() {
        let policy = prompt(&["tag: call, target: REVEIW, return: START"], "x");
        let evaluator = "---\nevaluators:\n  - prompt: JUDGE\n---\n<result>x</result>";
        let said = found(
            &RULE,
            [
                ("START.md", &*policy),
                ("REVIEW.md", evaluator),
                ("RUN.sh", "echo \"<goto>GONE</goto>\""),
                ("TELL.md", "Say <goto>DONE.txt</goto>"),
                ("DONE.txt", ""),
            ],
        );
        assert_eq!(
            said,
            [
                "REVIEW.md:3:13: state `JUDGE` not found",
                "RUN.sh:1:13: state `GONE` not found",
                "START.md:3:26: state `REVEIW` not found",
                "TELL.md:1:11: `DONE.txt` is not a state: states end in .md, .sh or .bat",
            ]
        );
    }

    #[test]
    fn missing_target_is_found_in_subworkflows() {
        let start = "<call return=\"START\">reviw/</call> <fork next=\"START\">docs/</fork> \
                     <function return=\"START\">review/GONE</function>";
        let files = [
            ("START.md", start),
            ("review/START.md", "<goto>PLAN</goto> <goto>OTHER</goto>"),
            ("docs/A.md", ""),
            ("OTHER.md", ""),
        ];
        assert_eq!(
            found(&RULE, files),
            [
                "START.md:1:22: there is no subworkflow `reviw/`",
                "START.md:1:55: `docs/` is not a subworkflow: no entry state: expected 1_START or START, \
                 with the extension .md or .sh",
                "START.md:1:93: state `review/GONE` not found",
                "review/START.md:1:7: state `PLAN` not found",
                "review/START.md:1:25: state `OTHER` not found",
            ]
        );
    }

    #[test]
    fn missing_target_is_silent_about_what_is_there_or_left_open() {
        let script = "# <goto>GONE</goto>\necho \"<goto>$NEXT</goto>\"; printf '<goto>%s</goto>' x";
        let files = [
            ("START.md", "Say <goto>RUN</goto>, <goto>…</goto> or <goto>{{next}}</goto>"),
            ("RUN.sh", script),
        ];
        assert!(found(&RULE, files).is_empty());
    }

    #[test]
    fn missing_target_is_an_error_only_where_it_is_certain_to_fail() {
        use super::super::super::testing::severities;
        use crate::source::Severity;

        for (text, expected) in [
            ("echo '<goto>OLD</goto>'", Severity::Error),
            (
                "if x; then echo '<goto>OLD</goto>'; else echo '<goto>START</goto>'; fi",
                Severity::Error,
            ),
            ("grep -q '<goto>OLD</goto>' log; echo '<goto>START</goto>'", Severity::Warning),
            ("echo '<goto>OLD</goto>' >> notes; echo '<goto>START</goto>'", Severity::Warning),
            ("cat > f <<X\n<goto>OLD</goto>\nX\necho '<goto>START</goto>'", Severity::Warning),
        ] {
            assert_eq!(severities(&RULE, [("START.sh", text)]), [expected], "{text}");
        }
        let prose = "Never write <goto>OLD</goto>, but <goto>START</goto>.";
        assert_eq!(severities(&RULE, [("START.md", prose)]), [Severity::Warning]);
    }

    #[test]
    fn help_names_the_folder_of_the_state_and_a_subworkflow_that_lies_too_deep() {
        let deep = "d/".repeat(crate::scope::FOLDER_DEPTH_MAX);
        let files: Vec<(String, &str)> = (0..=crate::scope::FOLDER_DEPTH_MAX)
            .map(|depth| {
                let text = "<function return=\"START\">d/</function> <result>x</result>";
                (format!("{}START.md", "d/".repeat(depth)), text)
            })
            .chain([("d/ASK.md".to_owned(), "<goto>GONE</goto>")])
            .chain([(format!("{deep}d/START.md"), "<result>x</result>")])
            .collect();
        let files = files.iter().map(|(name, text)| (name.as_str(), *text));
        let said = found(&RULE, files);
        assert_eq!(
            said,
            [
                "d/ASK.md:1:7: state `GONE` not found",
                &*format!(
                    "{deep}START.md:1:26: `{deep}d/` lies too deep: at most 8 folders may lie in each other"
                ),
            ]
        );
    }
}
