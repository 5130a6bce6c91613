//! `unread-attribute` (warning): an attribute of a fork, call or function that no state reads.
//!
//! Attributes that the tag does not define become variables of the worker or subtask: `{{item}}` in its prompts
//! and `$item` in its scripts. Here none of its states uses the name, so it does not know what it should
//! work on. Usually the name is misspelled.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    graph::{EdgeKind, Graph, Named, State},
    id::StateName,
    prompt::placeholders,
    source::{Severity, StateKind, did_you_mean},
    tag::TagKind,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unread-attribute",
    severity: Severity::Warning,
    source: include_str!("unread_attribute.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let graph = report.graph;
    let mut workers: BTreeMap<&StateName, WorkerReads<'_>> = BTreeMap::new();
    for state in report.states() {
        for way in state.said().filter(|way| way.tag.spec().takes_variables) {
            let Some(target) = way.target.as_ref().and_then(Named::state) else { continue };
            let worker = workers.entry(target).or_insert_with(|| WorkerReads::of(graph, target));
            if worker.may_read_anything {
                continue;
            }
            for (name, _) in way.variables() {
                let is_read = worker.words.contains(name.value.as_str())
                    || worker.variables.contains(&name.value);
                if !is_read {
                    let is_full = report.is_full(state);
                    let whose = if way.tag == TagKind::Fork { "worker" } else { "subtask" };
                    let said = format!("no state of the {whose} reads `{}`", name.value);
                    let finding = report.at(state, name.span, said);
                    if !is_full {
                        let known = worker.variables.iter().map(String::as_str);
                        finding.meant(did_you_mean(&name.value, known));
                    }
                }
            }
        }
    }
}

/// What the states of a worker read.
struct WorkerReads<'g> {
    /// A state may lead anywhere, or cannot be read.
    may_read_anything: bool,
    /// The variables that its prompts ask for.
    variables: BTreeSet<String>,
    /// The words of its scripts.
    words: BTreeSet<&'g str>,
}

impl<'g> WorkerReads<'g> {
    fn of(graph: &'g Graph, first: &StateName) -> Self {
        let states = graph.reachable([first], EdgeKind::stays_in_agent);
        let states: Vec<&State> = states.iter().filter_map(|name| graph.state(name)).collect();
        let unusable = |state: &&State| state.kind == StateKind::Prompt && state.prompt().is_none();
        let prompts = states.iter().filter_map(|state| state.prompt());
        let scripts = states.iter().filter(|state| state.kind == StateKind::Script);
        Self {
            may_read_anything: states.iter().any(|state| state.is_uncertain() || unusable(state)),
            variables: prompts.flat_map(|p| placeholders(&p.body)).map(|name| name.value).collect(),
            words: scripts.flat_map(|state| state.words()).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn unread_attribute_is_found_if_the_worker_asks_for_another_name() {
        let files = [
            ("START.sh", "echo \"<fork next=\\\"START\\\" itme=\\\"$1\\\">WORK</fork>\""),
            ("WORK.md", "{{item}} <result>x</result>"),
        ];
        assert_eq!(found(&RULE, files), ["START.sh:1:28: no state of the worker reads `itme`"]);
    }

    #[test]
    fn unread_attribute_is_silent_if_a_later_prompt_or_script_reads_it() {
        let files = [
            ("START.md", "<fork next=\"START\" cd=\"x\" one=\"1\" two=\"2\">WORK</fork>"),
            ("WORK.md", "<goto>MORE</goto> {{one}}"),
            ("MORE.sh", "echo \"<result>${two}</result>\""),
        ];
        assert!(found(&RULE, files).is_empty());
    }
}
