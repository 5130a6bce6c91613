//! `unable-agent` (error): a state asks for a coding agent that is not there, or for what its coding agent cannot do.
//!
//! `agent:` names a coding agent of the settings: `claude`, or a table `[agents.NAME]`. A state whose agent is
//! not there fails when it is entered, and so does one that is entered by `<call>` and whose agent cannot
//! branch a session (`can_branch = false`); `<function>` starts a fresh session instead. Not every coding agent can do
//! what each key of frontmatter asks for: `raymond help agents` says which can. Checked only
//! where the settings of a project are known.

use crate::{
    graph::{EdgeKind, Graph},
    id::StateName,
    source::Severity,
    text::Spanned,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unable-agent",
    severity: Severity::Error,
    source: include_str!("unable_agent.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let Some(agents) = &report.known.coding_agents else { return };
    let graph = report.graph;
    for state in report.states() {
        if let Some(name) = agent(graph, &state.name)
            && let Err(error) = agents.get(Some(&name.value))
        {
            report.at(state, name.span, error.to_string());
        }
        if let Some(prompt) = state.prompt()
            && let Ok(can) = agents.get(agent(graph, &state.name).map(|name| name.value.as_str()))
        {
            let name = agent(graph, &state.name)
                .map_or("the default coding agent".to_owned(), |name| format!("`{}`", name.value));
            let demands = prompt.frontmatter.demands().into_iter();
            for Spanned { value: key, span } in demands.filter(|key| !can.can_do(key.value)) {
                report.at(state, span, format!("{name} cannot do what `{key}` asks for"));
            }
        }
        let calls =
            graph.edges().filter(|edge| edge.from == state.name && edge.kind == EdgeKind::Call);
        for edge in
            calls.filter(|edge| graph.state(&edge.to).is_some_and(|to| to.prompt().is_some()))
        {
            let name = agent(graph, &edge.to).map(|name| name.value.as_str());
            if agents.get(name).is_ok_and(|can| !can.can_branch) {
                let name =
                    name.map_or("the default coding agent".to_owned(), |name| format!("`{name}`"));
                let said = format!("{name} cannot branch a session, which <call> needs");
                report.at(state, edge.span, said).help("<function> starts a fresh session");
            }
        }
    }
}

fn agent<'g>(graph: &'g Graph, name: &StateName) -> Option<&'g Spanned<String>> {
    graph.state(name)?.prompt()?.frontmatter.agent.as_ref()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::RULE;
    use crate::{
        coding_agent::{Capabilities, CodingAgents},
        graph::Graph,
        lint::Known,
        world::MemoryWorld,
    };

    fn found<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
        let linear = Capabilities { can_branch: false, ..Capabilities::FULL };
        let named = [("claude".to_owned(), Capabilities::FULL), ("line".to_owned(), linear)];
        let agents = CodingAgents::new(Capabilities::FULL, BTreeMap::from(named));
        let known = Known { coding_agents: Some(agents), ..Known::default() };
        let graph = Graph::of(&MemoryWorld::new(files), None).unwrap();
        RULE.findings(&graph, &known).into_iter().map(|finding| finding.message).collect()
    }

    const LINE: &str = "---\nagent: line\n---\n<result>x</result>";

    #[test]
    fn unable_agent_is_found_if_it_is_unknown_or_called() {
        let files = [
            ("START.md", "---\nagent: oracle\n---\n<call return=\"END\">A</call>"),
            ("A.md", LINE),
            ("END.md", "<result>x</result>"),
        ];
        assert_eq!(
            found(files),
            [
                "there is no coding agent `oracle`; known: claude, line",
                "`line` cannot branch a session, which <call> needs"
            ]
        );
    }

    #[test]
    fn unable_agent_is_found_where_a_key_asks_for_what_it_cannot_do() {
        let unlimited = Capabilities { can_limit: false, ..Capabilities::FULL };
        let agents = CodingAgents::new(unlimited, BTreeMap::new());
        let known = Known { coding_agents: Some(agents), ..Known::default() };
        let files = [("START.md", "---\nbudget: 2\ntools: [Edit]\n---\n<result>x</result>")];
        let graph = Graph::of(&MemoryWorld::new(files), None).unwrap();
        let found: Vec<_> = RULE.findings(&graph, &known).into_iter().map(|f| f.message).collect();
        assert_eq!(found, ["the default coding agent cannot do what `budget` asks for"]);
    }

    #[test]
    fn unable_agent_is_silent_about_fresh_sessions() {
        let files = [
            ("START.md", "<function return=\"END\">A</function>"),
            ("A.md", LINE),
            ("END.md", LINE),
        ];
        assert!(found(files).is_empty());
    }
}
