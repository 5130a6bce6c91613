//! `evaluator-not-a-prompt` (error): an evaluator that is a script.
//!
//! `prompt` of an evaluator names a markdown state: it is carried out by a coding agent, which
//! gets `{{output}}` and `{{transition}}`. A script cannot be an evaluator. To judge by a pattern, use
//! `match` with `then`.

use crate::{
    graph::Named,
    source::{Severity, StateKind},
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "evaluator-not-a-prompt",
    severity: Severity::Error,
    source: include_str!("evaluator_not_a_prompt.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        for asked in &state.evaluators {
            let evaluator = asked.state().and_then(|name| report.graph.state(name));
            if evaluator.is_some_and(|evaluator| evaluator.kind == StateKind::Script) {
                let Named { written, .. } = asked;
                let said = format!("the evaluator `{}` is a script", written.value);
                report.at(state, written.span, said);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    const START: &str = "---\nevaluators:\n  - prompt: JUDGE\n---\n<result>x</result>";

    #[test]
    fn evaluator_not_a_prompt_is_found_where_a_script_is_named() {
        let said = found(&RULE, [("START.md", START), ("JUDGE.sh", "")]);
        assert_eq!(said, ["START.md:3:13: the evaluator `JUDGE` is a script"]);
    }

    #[test]
    fn evaluator_not_a_prompt_is_silent_about_a_prompt() {
        assert!(found(&RULE, [("START.md", START), ("JUDGE.md", "")]).is_empty());
    }
}
