//! `join-without-fork` (warning): a join that no fork leads to.
//!
//! `<join>` waits for the workers that its own agent has forked. No path leads from a fork to this state, so the
//! agent has no workers, and the join hands over an empty list at once.
//!
//! Fork before the join, in the same agent: the workers of a worker are not those of its parent.

use crate::{
    graph::{EdgeKind, Named},
    source::Severity,
    tag::TagKind,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "join-without-fork",
    severity: Severity::Warning,
    source: include_str!("join_without_fork.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let graph = report.graph;
    if graph.has_uncertain_states() {
        return;
    }
    let ways = graph.states.values().flat_map(|state| &state.ways);
    let forks = ways.filter(|way| way.tag == TagKind::Fork);
    let after: Vec<_> = forks.filter_map(|way| way.continuation.as_ref()?.state()).collect();
    let may_join = graph.reachable(after, EdgeKind::stays_in_agent);
    for state in report.states().filter(|state| !may_join.contains(&state.name)) {
        for way in state.ways.iter().filter(|way| way.tag == TagKind::Join) {
            let span = way.target.as_ref().map_or(way.span, |Named { written, .. }| written.span);
            report.at(state, span, "no fork leads here, so this join has no worker to wait for");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn join_without_fork_is_found_if_only_a_worker_joins() {
        let files = [
            ("START.sh", "echo '<fork next=\"LAST\">WORK</fork>'"),
            ("WORK.sh", "echo '<join>LAST</join>'"),
            ("LAST.sh", "echo '<result>x</result>'"),
        ];
        let said = "no fork leads here, so this join has no worker to wait for";
        assert_eq!(found(&RULE, files), [format!("WORK.sh:1:13: {said}")]);
    }

    #[test]
    fn join_without_fork_is_silent_if_a_fork_comes_before() {
        let files = [
            ("START.sh", "echo '<fork next=\"MORE\">WORK</fork>'"),
            ("MORE.sh", "echo '<call return=\"WAIT\">WORK</call>'"),
            ("WAIT.sh", "echo '<join>LAST</join>'"),
            ("WORK.sh", "echo '<result>x</result>'"),
            ("LAST.sh", "echo '<result>x</result>'"),
        ];
        assert!(found(&RULE, files).is_empty());
    }
}
