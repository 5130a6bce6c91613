//! `missing-target` (error): a transition leads to a state that does not exist.
//!
//! Names are looked up in the workflow's own directory, byte for byte: `REVIEW` means `REVIEW.md` or
//! the script `REVIEW.sh`, never `review.md`. An agent that asks for a state that does not exist is
//! reminded, which does not help, or fails.
//!
//! In the text of a prompt with `allowed_transitions` this is a warning, because it may be an example
//! and the agent is reminded. Instead of a name in an example, write dots: `<goto>…</goto>`.

use crate::{
    graph::{Meaning, Named, State},
    scope::ResolveError,
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
    let (message, suggestion, candidates) = match &named.meaning {
        // The suggestion is the help of the finding.
        Meaning::Wrong(ResolveError::NotFound { name, suggestion, candidates }) => {
            (format!("state `{name}` not found"), suggestion.as_deref(), &candidates[..])
        }
        Meaning::Wrong(error @ ResolveError::Unsupported(_)) => (error.to_string(), None, &[][..]),
        Meaning::Wrong(ResolveError::Ambiguous { .. } | ResolveError::WrongPlatform { .. })
        | Meaning::State(_)
        | Meaning::Open
        | Meaning::Path => return,
    };
    let finding = report.at(state, named.written.span, message);
    if !candidates.is_empty() {
        finding.help(format!("create {}", candidates.join(" or ")));
    }
    finding.severity(severity).meant(suggestion);
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
}
