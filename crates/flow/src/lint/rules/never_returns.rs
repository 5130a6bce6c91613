//! `never-returns` (warning): a call whose subtask never returns a result.
//!
//! `<call>` and `<function>` wait for a `<result>`. No state that ends with one can be reached from
//! the called state, so the caller never continues at `return`.
//!
//! Let the last state of the subtask end with `<result>…</result>`. If it should not return, use
//! `<goto>` or `<reset>`.

use crate::{
    graph::{EdgeKind, State},
    source::Severity,
    tag::TagKind,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "never-returns",
    severity: Severity::Warning,
    source: include_str!("never_returns.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let graph = report.graph;
    let ends: Vec<_> = graph.states.values().filter(|state| may_return(state)).collect();
    let returning =
        graph.leading_to(ends.iter().map(|state| &state.name), EdgeKind::stays_in_frame);
    for state in report.states() {
        for way in &state.ways {
            if !matches!(way.tag, TagKind::Call | TagKind::Function) {
                continue;
            }
            let Some(target) = way.target.as_ref() else { continue };
            let Some(callee) = target.state() else { continue };
            if graph.state(callee).is_some() && !returning.contains(callee) {
                let said = format!("{callee} never hands a result back, so this never returns");
                report.at(state, target.written.span, said);
            }
        }
    }
}

/// Whether a state ends with a result, or has a problem that another rule reports.
fn may_return(state: &State) -> bool {
    let resets = state.ways.iter().any(|way| way.tag == TagKind::Reset);
    state.has_result() || state.is_uncertain() || state.leads_nowhere() || resets
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn never_returns_is_found_if_the_subtask_only_loops() {
        let files = [
            ("START.md", "Do <call return=\"END\">A</call>."),
            ("A.md", "<goto>B</goto>"),
            ("B.md", "<goto>A</goto>"),
            ("END.md", "<result>x</result>"),
        ];
        let said = "A.md never hands a result back, so this never returns";
        assert_eq!(found(&RULE, files), [format!("START.md:1:23: {said}")]);
    }

    #[test]
    fn never_returns_is_silent_if_a_later_state_returns_a_result() {
        let files = [
            ("START.md", "Do <function return=\"END\">A</function>."),
            ("A.md", "<call return=\"B\">END</call>"),
            ("B.sh", "echo '<result>x</result>'"),
            ("END.md", "<result>x</result>"),
        ];
        assert!(found(&RULE, files).is_empty());
    }
}
