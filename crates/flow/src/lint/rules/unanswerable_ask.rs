//! `unanswerable-ask` (error): a question to a person that cannot be asked.
//!
//! Every answer of an `<ask>` must lead to a state: a choice names its own (`approve=SHIP`), or `next` is for all
//! others. `timeout` and `default` need each other, and the default must be one of the choices.
//!
//! ```text
//! <ask next="PLAN" choices="approve=SHIP|revise">Is this plan right?</ask>
//! ```
//!
//! `timeout` and `default` in the text of a prompt are a warning: a coding agent that writes them is reminded,
//! because a model must not answer for a person. Put them into `allowed_transitions`, which completes the tag.

use crate::{
    graph::{State, Way, WayOrigin, is_open},
    policy::{AskProblem, check_default},
    source::Severity,
    tag::{TagKind, choices},
};

use super::super::{
    Rule,
    finding::{Report, by_origin},
};

pub(super) const RULE: Rule = Rule {
    name: "unanswerable-ask",
    severity: Severity::Error,
    source: include_str!("unanswerable_ask.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        for way in state.said().filter(|way| way.tag == TagKind::Ask) {
            if let Some(problem) = problem(state, way) {
                let severity = if matches!(problem, AskProblem::ForAuthors { .. }) {
                    Severity::Warning
                } else {
                    by_origin(state, way)
                };
                report.at(state, way.span, problem.to_string()).severity(severity);
            }
        }
    }
}

/// What is wrong with a question, as far as that is known before run time.
fn problem(state: &State, way: &Way) -> Option<AskProblem> {
    let value = |name: &str| {
        let found = way.attributes.iter().find(|(own, _)| own.value == name);
        found.map(|(_, value)| value.value.as_str())
    };
    let [timeout, default] = ["timeout", "default"].map(value);
    if way.origin == WayOrigin::Prose {
        let name = [("timeout", timeout), ("default", default)];
        if let Some((name, _)) = name.into_iter().find(|(_, value)| value.is_some()) {
            return Some(AskProblem::ForAuthors { name });
        }
    }
    let text = value("choices").filter(|text| !is_open(text));
    let written = match text.map(choices).transpose() {
        Ok(written) => written.unwrap_or_default(),
        Err(error) => return Some(error.into()),
    };
    let is_known = [timeout, default].into_iter().flatten().all(|value| !is_open(value));
    let is_open_choice = value("choices").is_some() && text.is_none();
    if is_known
        && !is_open_choice
        && let Err(problem) = check_default(timeout, default, &written)
    {
        return Some(problem);
    }
    // What a tag leaves out, an entry of the policy may give; and an entry without a question leaves it to the tag.
    let is_completed = match way.origin {
        WayOrigin::Prose => state.entries().any(|entry| entry.value.tag == TagKind::Ask),
        WayOrigin::Policy | WayOrigin::Evaluator => value("question").is_none(),
        WayOrigin::Script => false,
    };
    if is_completed || is_open_choice || way.continuation.is_some() || !way.needs_continuation() {
        return None;
    }
    let bare = way.choices.iter().find(|choice| choice.state.is_none());
    Some(match bare {
        Some(choice) => AskProblem::NoState { label: choice.label.clone() },
        None => AskProblem::NoNext,
    })
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, prompt},
        RULE,
    };

    #[test]
    fn unanswerable_ask_is_found_in_scripts_policies_and_prose() {
        let gate = prompt(&["tag: ask, question: Go?, choices: yes=START|no"], "x");
        let files = [
            ("START.sh", "echo '<ask choices=\"yes=START|no\">Go?</ask>'"),
            ("A.sh", "echo '<ask>Go?</ask>'"),
            ("B.sh", "echo '<ask next=\"START\" timeout=\"1h\">Go?</ask>'"),
            (
                "C.sh",
                "echo '<ask next=\"START\" choices=\"a|b\" timeout=\"1h\" default=\"c\">Go?</ask>'",
            ),
            ("D.sh", "echo '<ask next=\"START\" choices=\"a||b\">Go?</ask>'"),
            ("E.md", &*gate),
            ("F.md", "Say <ask next=\"START\" timeout=\"1h\" default=\"x\">Go?</ask>"),
        ];
        let said = found(&RULE, files);
        let expected = [
            "A.sh:1:7: <ask> lacks the attribute `next`: the state that the answer leads to",
            "B.sh:1:7: <ask> has `timeout` without `default`: after `timeout` the answer is `default`",
            "C.sh:1:7: the default `c` is not one of the choices",
            "D.sh:1:7: `choices`: a label is empty",
            "E.md:3:5: the choice `no` leads nowhere: name a state (`no=STATE`) or give `next`",
            "F.md:1:5: `timeout` is not for coding agents: only a script or an entry of `allowed_transitions` may set it",
            "START.sh:1:7: the choice `no` leads nowhere: name a state (`no=STATE`) or give `next`",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn unanswerable_ask_is_silent_about_what_is_complete_or_decided_at_run_time() {
        let policy = prompt(
            &["tag: ask, choices: yes=START|no=START, timeout: 1h, default: no"],
            "Say <ask>…</ask>",
        );
        let files = [
            (
                "START.sh",
                "echo \"<ask choices=\\\"$choices\\\" timeout=\\\"$t\\\" default=\\\"$d\\\">Go?</ask>\"",
            ),
            ("A.md", &*policy),
            (
                "B.sh",
                "echo '<ask next=\"START\" choices=\"a|b\" timeout=\"1h\" default=\"a\">Go?</ask>'",
            ),
        ];
        assert!(found(&RULE, files).is_empty());
    }
}
