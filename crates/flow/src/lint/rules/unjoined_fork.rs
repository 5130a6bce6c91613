//! `unjoined-fork` (note): a subtask forks and returns without a join.
//!
//! The state runs while a caller waits, and no join follows the fork before the subtask returns. The workers then
//! belong to the caller: they go on, and a join of the caller waits for them.
//!
//! If the subtask should wait for its workers, let it `<join>` before its `<result>`.

use crate::{
    graph::{EdgeKind, Named},
    source::Severity,
    tag::TagKind,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unjoined-fork",
    severity: Severity::Note,
    source: include_str!("unjoined_fork.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let graph = report.graph;
    if graph.has_uncertain_states() {
        return;
    }
    let called = graph.called();
    let has_join =
        |state: &&crate::graph::State| state.ways.iter().any(|way| way.tag == TagKind::Join);
    let joins: Vec<_> = graph.states.values().filter(has_join).map(|state| &state.name).collect();
    let joining = graph.leading_to(joins, EdgeKind::stays_in_frame);
    for state in report.states().filter(|state| called.contains(&state.name)) {
        for way in state.ways.iter().filter(|way| way.tag == TagKind::Fork) {
            let next = way.continuation.as_ref().and_then(Named::state);
            if next.is_some_and(|next| !joining.contains(next)) {
                let said = "this subtask returns without a join: its workers fall to the caller";
                report.at(state, way.span, said);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    const START: (&str, &str) = ("START.sh", "echo '<call return=\"LAST\">SUB</call>'");
    const SUB: (&str, &str) = ("SUB.sh", "echo '<fork next=\"NEXT\">LAST</fork>'");
    const LAST: (&str, &str) = ("LAST.sh", "echo '<result>x</result>'");

    #[test]
    fn unjoined_fork_is_found_in_a_subtask() {
        let next = ("NEXT.sh", "echo '<result>x</result>'");
        let said = "this subtask returns without a join: its workers fall to the caller";
        assert_eq!(found(&RULE, [START, SUB, next, LAST]), [format!("SUB.sh:1:7: {said}")]);
    }

    #[test]
    fn unjoined_fork_is_silent_about_a_join_and_about_what_is_not_called() {
        let next = ("NEXT.sh", "echo '<join>LAST</join>'");
        assert!(found(&RULE, [START, SUB, next, LAST]).is_empty());
        let start = ("START.sh", "echo '<fork next=\"LAST\">LAST</fork>'");
        assert!(found(&RULE, [start, LAST]).is_empty());
    }
}
