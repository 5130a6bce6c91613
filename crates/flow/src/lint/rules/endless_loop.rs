//! `endless-loop` (warning): states that lead to each other and never to an end.
//!
//! No state of the loop, and none that it leads to, ends with a `<result>`. The agent loops
//! until the budget or `--max-iterations` stops it. Give one of the states a transition out of the loop.
//!
//! The rule `never-returns` reports a loop inside a call.

use std::collections::BTreeSet;

use crate::{
    graph::{EdgeKind, Named, State},
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
    let ends: Vec<_> = graph.states.values().filter(|state| may_end(state)).collect();
    let saved = graph.leading_to(ends.iter().map(|state| &state.name), EdgeKind::goes_on);
    let called = graph.called();
    let mut told: BTreeSet<StateName> = BTreeSet::new();
    for name in graph.live().difference(&called) {
        if told.contains(name) || saved.contains(name) {
            continue;
        }
        let Some(state) = graph.state(name) else { continue };
        // Those from which one comes back are the loop; the others only lead into one.
        let back = graph.leading_to([name], EdgeKind::goes_on);
        if !next_states(state).any(|next| back.contains(next)) {
            continue;
        }
        let ahead = graph.reachable([name], EdgeKind::goes_on);
        let members: Vec<&StateName> = ahead.intersection(&back).collect();
        let names: Vec<_> = members.iter().map(|member| member.as_str()).collect();
        let said = format!("no way leads out of this loop to a result: {}", names.join(", "));
        let span = state.ways.first().map_or(state.first_line(), |way| way.span);
        report.at(state, span, said);
        told.extend(members.into_iter().cloned());
    }
}

/// The states at which the same agent continues.
fn next_states(state: &State) -> impl Iterator<Item = &StateName> {
    state.ways.iter().flat_map(|way| {
        let goes_on = EdgeKind::of_target(way.tag).goes_on();
        way.target.iter().filter(move |_| goes_on).chain(&way.continuation).filter_map(Named::state)
    })
}

/// Whether a state can end, or has a problem that another rule reports.
fn may_end(state: &State) -> bool {
    state.has_result() || state.is_uncertain() || state.leads_nowhere()
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
