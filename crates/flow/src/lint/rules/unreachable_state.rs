//! `unreachable-state` (warning): a state that no other state leads to.
//!
//! Every `.md` file in a workflow's directory is a state, and so is every script for this platform.
//! A state that cannot be reached is left over, or another file misspells its name. A README does
//! not belong in the directory of a workflow.
//!
//! A folder beside the states with an entry state is a subworkflow, and is reported once as a whole if
//! nothing enters it.
//!
//! Nothing is reported if the target of some state is known only at run time (`<goto>$NEXT</goto>`), or
//! if the workflow is started by naming a file: the other states may belong to another entry.

use std::collections::BTreeSet;

use crate::{
    graph::{Graph, Named, State, Way},
    id::StateName,
    scope::ResolveError,
    source::Severity,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unreachable-state",
    severity: Severity::Warning,
    source: include_str!("unreachable_state.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let graph = report.graph;
    let Ok(entry) = &graph.entry else { return };
    if graph.is_entry_given || graph.has_open_states() {
        return;
    }
    let live = graph.live();
    let misspelt: Vec<_> = live
        .iter()
        .filter_map(|name| graph.state(name))
        .flat_map(|state| meant(graph, state))
        .collect();
    let live = graph.reachable(live.iter().chain(&misspelt), |_| true);
    let entered: BTreeSet<_> = live.iter().map(StateName::folder).collect();
    let mut told = BTreeSet::new();
    for state in report.states().filter(|state| !live.contains(&state.name)) {
        let folder = state.name.folder();
        let said = if folder.is_empty() || entered.contains(folder) {
            format!("no way leads from {entry} to {}", state.name)
        } else if told.insert(folder) {
            format!("no way leads from {entry} into the subworkflow {folder}")
        } else {
            continue;
        };
        let finding = report.at(state, state.first_line(), said);
        if state.name.as_str().eq_ignore_ascii_case("readme.md") {
            finding.help("every .md file here is a state: keep texts about a workflow elsewhere");
        }
    }
}

/// The states that a state probably means by names that do not resolve: another rule reports those.
fn meant<'g>(graph: &'g Graph, state: &'g State) -> impl Iterator<Item = StateName> {
    let named = state.said().flat_map(Way::named).chain(&state.evaluators);
    named.filter_map(Named::error).flat_map(|error| {
        let own = state.name.folder();
        let (folder, cause) = error.in_its_folder();
        if let ResolveError::NotFound { suggestion: Some(name), .. } = cause {
            let folder = if folder.is_empty() { own } else { folder };
            vec![StateName::new(format!("{folder}{name}"))]
        } else if let ResolveError::NoFolder { suggestion: Some(meant), .. } = cause {
            let meant = format!("{own}{meant}");
            graph.states.keys().filter(|name| name.folder() == meant).cloned().collect()
        } else {
            Vec::new()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn unreachable_state_is_found_if_nothing_leads_to_it() {
        let files = [("START.md", "<result>x</result>"), ("README.md", "\nAbout\n")];
        assert_eq!(found(&RULE, files), ["README.md:2:1: no way leads from START.md to README.md"]);
    }

    #[test]
    fn unreachable_state_is_silent_about_states_behind_every_kind_of_way() {
        let start = "---\nevaluators:\n  - prompt: JUDGE\n---\n\
                     <call return=\"A\">B</call> <fork next=\"C\">D</fork> <reset>E</reset>";
        let files = [
            ("START.md", start),
            ("JUDGE.md", "x"),
            ("A.md", "x"),
            ("B.md", "x"),
            ("C.md", "x"),
            ("D.sh", "echo '<result>x</result>'"),
            ("D.bat", "x"),
            ("E.md", "x"),
        ];
        assert!(found(&RULE, files).is_empty());
    }

    #[test]
    fn unreachable_state_is_found_beside_other_mistakes() {
        let start = "Say <goto>sub/A</goto>, <goto>GONE</goto> or <goto>TWO</goto>";
        let files = [("START.md", start), ("TWO.md", ""), ("TWO.sh", ""), ("LEFT.md", "x")];
        let said = found(&RULE, files);
        assert!(said.contains(&"LEFT.md:1:1: no way leads from START.md to LEFT.md".to_owned()));
    }

    #[test]
    fn unreachable_state_is_silent_about_one_whose_name_is_misspelt() {
        let files =
            [("START.md", "<goto>REVEIW</goto>"), ("REVIEW.md", "<goto>B</goto>"), ("B.md", "x")];
        assert!(found(&RULE, files).is_empty());
    }

    #[test]
    fn unreachable_state_is_found_in_subworkflows() {
        let files = [
            (
                "START.md",
                "<call return=\"START\">review/</call> <call return=\"START\">plna/</call>",
            ),
            ("review/START.md", "x"),
            ("review/LEFT.md", "x"),
            ("other/START.md", "x"),
            ("other/A.md", "x"),
            ("plan/START.md", "x"),
            ("docs/A.md", "no state, because nothing can enter it"),
        ];
        assert_eq!(
            found(&RULE, files),
            [
                "other/A.md:1:1: no way leads from START.md into the subworkflow other/",
                "review/LEFT.md:1:1: no way leads from START.md to review/LEFT.md",
            ]
        );
    }

    #[test]
    fn unreachable_state_is_silent_if_a_script_may_lead_anywhere() {
        let files = [("START.sh", "echo \"<goto>$NEXT</goto>\""), ("A.md", "x")];
        assert!(found(&RULE, files).is_empty());
    }
}
