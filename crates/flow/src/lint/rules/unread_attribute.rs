//! `unread-attribute` (warning): an attribute of a fork that no state of the worker reads.
//!
//! Attributes other than `next` and `cd` become variables of the worker: `{{item}}` in its prompts
//! and `$item` in its scripts. Here none of its states uses the name, so the worker does not know
//! what it should work on. Mostly the name differs by a letter.

use crate::{
    graph::{EdgeKind, Named, State},
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
    for state in report.states() {
        for way in state.said().filter(|way| way.tag == TagKind::Fork) {
            let Some(worker) = way.target.as_ref().and_then(Named::state) else { continue };
            let states = graph.reachable([worker], EdgeKind::stays_in_agent);
            let states: Vec<&State> = states.iter().filter_map(|name| graph.state(name)).collect();
            if states.iter().any(|state| state.is_open) {
                continue;
            }
            for (name, _) in way.attributes.iter().filter(|(name, _)| name.value != "cd") {
                if !states.iter().any(|state| reads(state, &name.value)) {
                    let said = format!("no state of the worker reads `{}`", name.value);
                    let known = read_by(&states);
                    let meant = did_you_mean(&name.value, known.iter().map(String::as_str));
                    report.at(state, name.span, said).meant(meant);
                }
            }
        }
    }
}

fn reads(state: &State, name: &str) -> bool {
    match (state.kind, state.prompt()) {
        (StateKind::Script, _) => state.has_word(name),
        (_, Some(prompt)) => placeholders(&prompt.body).iter().any(|found| found.value == name),
        (_, None) => true,
    }
}

/// The variables that the worker's prompts ask for.
fn read_by(states: &[&State]) -> Vec<String> {
    let prompts = states.iter().filter_map(|state| state.prompt());
    prompts.flat_map(|prompt| placeholders(&prompt.body)).map(|name| name.value).collect()
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
