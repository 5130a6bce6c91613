//! What is wrong or odd about a workflow, found without running it.
//!
//! [`lint`] takes a [`Graph`] and returns [`Finding`]s. Each rule is a file in `rules`: its first comment is
//! its manual page, which [`Rule::manual`] prints, and its tests show one workflow that it reports and one
//! that it does not.
//!
//! A rule reports nothing that depends on a target known only at run time. A false alarm costs more than a
//! missed finding.

mod finding;
mod rules;
#[cfg(test)]
mod testing;

pub use finding::Finding;
pub use rules::RULES;

use std::collections::BTreeSet;

use crate::{
    coding_agent::CodingAgents,
    graph::Graph,
    id::StateName,
    source::{Severity, did_you_mean},
};
use finding::Report;

/// A lint rule.
#[derive(Debug)]
pub struct Rule {
    /// Its name, in words joined by hyphens.
    pub name: &'static str,
    /// Its usual severity.
    pub severity: Severity,
    /// The source of its file.
    source: &'static str,
    check: fn(&mut Report<'_>),
}

/// What the files of a workflow do not tell, given by the user or by the project's settings.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// The variables that runs are started with (`--var`).
    pub variables: BTreeSet<String>,
    /// The coding agents of the project, if its settings are known.
    pub coding_agents: Option<CodingAgents>,
}

/// Everything that the rules find, in the order of files and places.
pub fn lint(graph: &Graph, known: &Known) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        RULES.iter().flat_map(|rule| rule.findings(graph, known)).collect();
    if graph.is_entry_given && !graph.has_uncertain_states() {
        // The other files of the directory belong to another entry state.
        let live = graph.live();
        let is_live = |file: &String| live.contains(&StateName::new(file));
        found.retain(|finding| finding.file.as_ref().is_none_or(is_live));
    }
    found.sort_by(|one, other| one.key().cmp(&other.key()));
    found.dedup();
    found
}

/// The rule of this name.
pub fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().copied().find(|rule| rule.name == name)
}

/// The rule that the user probably meant by `name`.
pub fn suggest_rule(name: &str) -> Option<&'static str> {
    did_you_mean(name, RULES.iter().map(|rule| rule.name))
}

impl Rule {
    /// The findings of this rule alone.
    pub fn findings(&'static self, graph: &Graph, known: &Known) -> Vec<Finding> {
        let mut report = Report::new(graph, known, self);
        (self.check)(&mut report);
        report.finish()
    }

    /// Its manual page: the first comment of its own file, so it cannot become outdated.
    pub fn manual(&self) -> String {
        let lines = self.source.lines().map_while(|line| line.strip_prefix("//!"));
        let mut page: String =
            lines.flat_map(|line| [line.strip_prefix(' ').unwrap_or(line), "\n"]).collect();
        page.truncate(page.trim_end().len());
        page.push('\n');
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::MemoryWorld;

    #[test]
    fn rule_has_a_manual_page_that_begins_with_its_name() {
        for rule in RULES {
            let page = rule.manual();
            let title = format!("`{}` ({}): ", rule.name, severity_word(rule.severity));
            assert!(page.starts_with(&title), "{title} in {page}");
            assert!(page.lines().count() > 3, "{page}");
        }
    }

    #[test]
    fn rule_names_are_sorted_and_unique() {
        assert!(RULES.windows(2).all(|pair| pair[0].name < pair[1].name));
    }

    #[test]
    fn rule_is_found_by_its_name_and_suggested_by_a_slip_of_it() {
        assert_eq!(rule("dead-end").map(|rule| rule.name), Some("dead-end"));
        assert_eq!(suggest_rule("dead-ends"), Some("dead-end"));
    }

    #[test]
    fn lint_of_a_state_ignores_states_of_other_entries() {
        let world = MemoryWorld::new([
            ("START.md", "{{input}} <goto>GONE</goto>"),
            ("OTHER.md", "{{input}} <goto>NEXT</goto>"),
            ("NEXT.md", "{{input}} <result>x</result>"),
        ]);
        let graph = Graph::of(&world, Some("OTHER.md")).unwrap();
        let found = lint(&graph, &Known::default());
        let files: Vec<_> = found.iter().filter(|f| f.rule == "unknown-variable").collect();
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!(files[0].file.as_deref(), Some("NEXT.md"));
        assert!(found.iter().all(|finding| finding.file.as_deref() != Some("START.md")));
    }

    #[test]
    fn tag_that_cannot_be_followed_is_an_error_if_it_is_the_only_one_and_no_agent_is_reminded() {
        let mistakes = ["<goto>GONE</goto>", "<goto>TWO</goto>", "<call>START</call>"];
        let list =
            "---\nallowed_transitions: [{ tag: result }, { tag: goto }, { tag: call }]\n---\n";
        let severities = |start: String| {
            let files = [("START.md", &*start), ("TWO.md", ""), ("TWO.sh", "")];
            let graph = Graph::of(&MemoryWorld::new(files), None).unwrap();
            let mut found = lint(&graph, &Known::default());
            found.retain(|f| {
                ["missing-target", "ambiguous-target", "missing-attribute"].contains(&f.rule)
            });
            found.into_iter().map(|finding| finding.severity).collect::<Vec<_>>()
        };
        for mistake in mistakes {
            assert_eq!(severities(mistake.to_owned()), [Severity::Error], "{mistake}");
            assert_eq!(severities(format!("{list}{mistake}")), [Severity::Warning], "{mistake}");
        }
        assert_eq!(severities(mistakes.concat()), [Severity::Warning; 3]);
    }

    fn severity_word(severity: Severity) -> &'static str {
        match severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}
