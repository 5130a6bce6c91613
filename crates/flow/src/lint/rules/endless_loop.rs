//! `endless-loop` (warning): states that lead to each other and never to an end.
//!
//! No state of the loop, and none that it leads to, ends with a `<result>`. The agent goes round
//! until the budget or `--max-iterations` stops it. Give one of the states a way out.
//!
//! A loop inside a call is found by `never-returns`.

use std::collections::BTreeSet;

use crate::{
    graph::{EdgeKind, Graph},
    id::StateName,
    source::Severity,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "endless-loop",
    severity: Severity::Warning,
    source: include_str!("endless_loop.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let graph = report.graph;
    let called = graph.called();
    let mut told: BTreeSet<StateName> = BTreeSet::new();
    for name in graph.live().difference(&called) {
        let ahead = graph.reachable([name], EdgeKind::goes_on);
        if told.contains(name) || may_end(graph, &ahead) {
            continue;
        }
        // Those from which one comes back are the loop; the others only lead into one.
        let round = |other: &&StateName| {
            let next: Vec<_> = steps_from(graph, other);
            graph.reachable(&next, EdgeKind::goes_on).contains(name)
        };
        let members: Vec<&StateName> = ahead.iter().filter(round).collect();
        let Some(state) = graph.state(name).filter(|_| members.contains(&name)) else { continue };
        let names: Vec<_> = members.iter().map(|member| member.as_str()).collect();
        let said = format!("no way leads out of this loop to a result: {}", names.join(", "));
        let span = state.ways.first().map_or(state.first_line(), |way| way.span);
        report.at(state, span, said);
        told.extend(members.into_iter().cloned());
    }
}

fn steps_from(graph: &Graph, state: &StateName) -> Vec<StateName> {
    let edges = graph.edges().filter(|edge| edge.from == *state && edge.kind.goes_on());
    edges.map(|edge| edge.to).collect()
}

/// Whether one of the states can end, or is wrong in a way that has a rule of its own.
fn may_end(graph: &Graph, states: &BTreeSet<StateName>) -> bool {
    let mut states = states.iter().filter_map(|name| graph.state(name));
    states.any(|state| state.has_result() || state.is_open || state.leads_nowhere())
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn endless_loop_is_found_once_with_all_its_states() {
        let files = [
            ("START.md", "<goto>POLL</goto>"),
            ("POLL.sh", "echo '<call return=\"WAIT\">ASK</call>'"),
            ("WAIT.sh", "sleep 1; echo '<reset>POLL</reset>'"),
            ("ASK.md", "<result>x</result>"),
        ];
        let said = "no way leads out of this loop to a result: POLL.sh, WAIT.sh";
        assert_eq!(found(&RULE, files), [format!("POLL.sh:1:7: {said}")]);
    }

    #[test]
    fn endless_loop_is_silent_if_one_state_has_a_way_out() {
        let files = [
            ("START.md", "<goto>POLL</goto>"),
            ("POLL.sh", "test -f x && echo '<result>x</result>' || echo '<goto>POLL</goto>'"),
        ];
        assert!(found(&RULE, files).is_empty());
        assert!(found(&RULE, [("START.sh", "echo \"<goto>$NEXT</goto>\"")]).is_empty());
    }
}
