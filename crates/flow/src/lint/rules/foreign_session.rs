//! `foreign-session` (warning): a state is entered in a session of another coding agent.
//!
//! A session belongs to the coding agent that made it, and no other can resume or branch it. A state with
//! another `agent:` than the state before it therefore fails when it is entered by `<goto>`, `<call>`, a
//! `return` or a `next`. Enter it by `<reset>`, `<function>` or `<fork>`, which start a fresh session.

use std::collections::BTreeSet;

use crate::{
    graph::{EdgeKind, Graph, State},
    id::StateName,
    source::Severity,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "foreign-session",
    severity: Severity::Warning,
    source: include_str!("foreign_session.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let graph = report.graph;
    for state in report.states().filter(|state| state.prompt().is_some() && !state.is_evaluator) {
        let edges =
            graph.edges().filter(|edge| edge.from == state.name && keeps_session(edge.kind));
        for edge in edges {
            let heirs = entered_through_scripts(graph, edge.to);
            let foreign = heirs.iter().filter_map(|name| graph.state(name));
            for other in foreign.filter(|other| agent(other) != agent(state)) {
                let said = format!(
                    "{} is carried out by {}, but enters the session of {}, which belongs to {}",
                    other.name,
                    named(other),
                    state.name,
                    named(state)
                );
                let help = "enter it by <reset>, <function> or <fork>";
                report.at(state, edge.span, said).help(help);
            }
        }
    }
}

/// Whether the state that is entered goes on in the session of the one that is left, or in a branch of it.
fn keeps_session(kind: EdgeKind) -> bool {
    match kind {
        EdgeKind::Goto
        | EdgeKind::Call
        | EdgeKind::Return
        | EdgeKind::Next
        | EdgeKind::Join
        | EdgeKind::Ask => true,
        EdgeKind::Reset | EdgeKind::Function | EdgeKind::Fork | EdgeKind::Evaluate => false,
    }
}

/// The prompts that are entered at `first`, or from there through scripts, which leave the session alone.
fn entered_through_scripts(graph: &Graph, first: StateName) -> BTreeSet<StateName> {
    let (mut seen, mut prompts, mut waiting) = (BTreeSet::new(), BTreeSet::new(), vec![first]);
    while let Some(name) = waiting.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        match graph.state(&name) {
            Some(state) if state.prompt().is_some() => drop(prompts.insert(name)),
            Some(_) | None => waiting.extend(
                graph
                    .edges()
                    .filter(|edge| edge.from == name && keeps_session(edge.kind))
                    .map(|edge| edge.to),
            ),
        }
    }
    prompts
}

fn agent(state: &State) -> Option<&str> {
    state.prompt()?.frontmatter.agent.as_ref().map(|agent| agent.value.as_str())
}

fn named(state: &State) -> String {
    agent(state).map_or_else(|| "the default coding agent".to_owned(), |name| format!("`{name}`"))
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    const CODEX: &str = "---\nagent: codex\n---\nEnd with <result>x</result>";

    #[test]
    fn foreign_session_is_found_directly_through_a_script_and_on_return() {
        let files = [("START.md", "<goto>A</goto>"), ("A.md", CODEX)];
        assert_eq!(
            found(&RULE, files),
            [
                "START.md:1:1: A.md is carried out by `codex`, but enters the session of START.md, which belongs to \
              the default coding agent"
            ]
        );
        let files =
            [("START.md", "<goto>S</goto>"), ("S.sh", "echo '<goto>A</goto>'"), ("A.md", CODEX)];
        assert_eq!(found(&RULE, files).len(), 1);
        let files = [
            ("START.md", "<function return=\"A\">B</function>"),
            ("B.md", "<result>x</result>"),
            ("A.md", CODEX),
        ];
        assert_eq!(found(&RULE, files).len(), 1);
    }

    #[test]
    fn foreign_session_is_silent_about_fresh_sessions_and_the_same_agent() {
        let files = [
            ("START.md", "<fork next=\"B\">A</fork>"),
            ("A.md", CODEX),
            ("B.md", "<function return=\"C\">A</function>"),
            ("C.md", "<reset>D</reset>"),
            ("D.md", "---\nagent: codex\n---\n<goto>A</goto>"),
        ];
        assert!(found(&RULE, files).is_empty());
    }
}
