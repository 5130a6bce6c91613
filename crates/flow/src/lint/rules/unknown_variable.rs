//! `unknown-variable` (warning): a `{{name}}` without a value.
//!
//! An unknown name stays in the prompt as it is, including the braces. Variables are:
//!
//! * `{{input}}` in the first state, where a tag gives one, and where frontmatter says `input: optional`;
//! * `{{result}}` and `{{result_file}}` in a state that a call or function returns to, that a join leads to, or that
//!   the answer of a person leads to;
//! * `{{comment}}` and `{{files}}` in a state that the answer of a person leads to;
//! * `{{workflow_id}}`, `{{agent_id}}` and `{{folder}}` everywhere;
//! * `{{output}}` and `{{transition}}` in an evaluator;
//! * the fields of the `schema` of a state, in the states that it leads to;
//! * the attributes of a fork, in all states of the worker, and those of a call or function, in all states
//!   of the subtask;
//! * the variables of the run, `--var NAME=VALUE`. Declare them for lint: `raymond lint --var NAME`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    graph::{EdgeKind, Graph, State},
    id::StateName,
    prompt::placeholders,
    source::{Schema, Severity, did_you_mean},
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unknown-variable",
    severity: Severity::Warning,
    source: include_str!("unknown_variable.rs"),
    check,
};

const EVERYWHERE: [&str; 3] = ["workflow_id", "agent_id", "folder"];

/// Names that have a value in some states only. They are not variables of a run.
const OF_A_PLACE: [&str; 7] =
    ["input", "result", "result_file", "comment", "files", "output", "transition"];

fn check(report: &mut Report<'_>) {
    let graph = report.graph;
    let entered_by = |kind| graph.edges().filter(move |e| e.kind == kind).map(|e| e.to);
    let mut returned_to: BTreeSet<StateName> = entered_by(EdgeKind::Return).collect();
    returned_to.extend(entered_by(EdgeKind::Join));
    let given_input = given_input(graph);
    let answered: BTreeSet<StateName> = entered_by(EdgeKind::Ask).collect();
    let asked: BTreeSet<StateName> = entered_by(EdgeKind::Evaluate).collect();
    let forks = forks(graph);
    let outputs = outputs(graph);
    let has_open_states = graph.has_uncertain_states();
    for state in report.states() {
        let Some(prompt) = state.prompt() else { continue };
        let mut known: BTreeSet<&str> = EVERYWHERE.into();
        known.extend(report.known.variables.iter().map(String::as_str));
        let is_asked = state.is_evaluator || asked.contains(&state.name);
        if is_asked {
            known.extend(["output", "transition"]);
        }
        // An evaluator sees the variables of whichever state it is asked about.
        let may_be_anywhere = is_asked || has_open_states;
        let is_entry = graph.entry.as_ref().is_ok_and(|entry| *entry == state.name);
        let is_given = is_entry || given_input.contains(&state.name);
        if may_be_anywhere || is_given || prompt.frontmatter.is_input_optional {
            known.insert("input");
        }
        let is_answered = may_be_anywhere || answered.contains(&state.name);
        if is_answered || returned_to.contains(&state.name) {
            known.extend(["result", "result_file"]);
        }
        if is_answered {
            known.extend(["comment", "files"]);
        }
        let given = outputs.iter().filter(|(from, to)| {
            let is_returned = returned_to.contains(&state.name) && from.has_result();
            may_be_anywhere || is_returned || to.contains(&state.name) || from.is_uncertain()
        });
        known.extend(given.flat_map(|(from, _)| fields(from)));
        // The text of the state that forks may describe an attribute in words. Its own placeholders are such words,
        // too, so it tells nothing to itself.
        let mut told: BTreeSet<&str> = BTreeSet::new();
        for fork in forks.iter().filter(|f| may_be_anywhere || f.states.contains(&state.name)) {
            known.extend(&fork.attributes);
            if fork.parent.name != state.name {
                told.extend(fork.parent.words());
            }
        }
        for name in placeholders(&prompt.body) {
            let text = name.value.as_str();
            if known.contains(text) || told.contains(text) {
                continue;
            }
            let is_full = report.is_full(state);
            let finding = report.at(state, name.span.shifted(prompt.body_span.start), said(text));
            if !is_full {
                if !OF_A_PLACE.contains(&text) {
                    finding.help(format!("if runs are started with it: --var {text}"));
                }
                finding.meant(did_you_mean(text, known.iter().copied()));
            }
        }
    }
}

fn said(name: &str) -> String {
    let place = match name {
        "input" => "only the first state has it, and one to which a tag gives it",
        "result" | "result_file" => "no call or function returns here, and no join leads here",
        "comment" | "files" => "no ask leads here",
        "output" | "transition" => "only evaluators have it",
        _ => "no fork, call, function or schema gives it to this state",
    };
    format!("nothing gives `{{{{{name}}}}}` a value: {place}")
}

/// The states with a structured output, and those that they lead to.
fn outputs(graph: &Graph) -> Vec<(&State, BTreeSet<StateName>)> {
    let states = graph.states.values().filter(|state| state.schema.is_some());
    let led_to = |from: &State| {
        graph.edges().filter(|edge| edge.from == from.name).map(|edge| edge.to).collect()
    };
    states.map(|state| (state, led_to(state))).collect()
}

fn fields(state: &State) -> impl Iterator<Item = &str> {
    state.schema.iter().flatten().flat_map(Schema::fields)
}

/// The states to which a tag gives an input.
fn given_input(graph: &Graph) -> BTreeSet<StateName> {
    let ways = graph.states.values().flat_map(State::said);
    let giving = ways.filter(|way| way.attributes.iter().any(|(name, _)| name.value == "input"));
    giving.filter_map(|way| way.target.as_ref()?.state().cloned()).collect()
}

/// The forks of one state to another, and the states that the worker can enter.
struct Fork<'g> {
    parent: &'g State,
    attributes: BTreeSet<&'g str>,
    states: BTreeSet<StateName>,
}

fn forks(graph: &Graph) -> Vec<Fork<'_>> {
    let mut attributes: BTreeMap<_, BTreeSet<&str>> = BTreeMap::new();
    for state in graph.states.values() {
        for way in state.said().filter(|way| way.tag.spec().takes_variables) {
            let target = way.target.as_ref().and_then(|target| target.state());
            let names = way.variables().map(|(name, _)| name.value.as_str());
            attributes.entry((&state.name, target)).or_default().extend(names);
        }
    }
    let forks = attributes.into_iter().filter_map(|((parent, target), attributes)| {
        let states = graph.reachable(target, EdgeKind::stays_in_agent);
        Some(Fork { parent: graph.state(parent)?, attributes, states })
    });
    forks.collect()
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn unknown_variable_is_found_where_it_has_no_value() {
        let files = [
            ("START.md", "{{inptu}} <goto>NEXT</goto>"),
            ("NEXT.md", "Of {{ input }}: {{result}}, {{output}} <result>x</result>"),
        ];
        let said = found(&RULE, files);
        assert_eq!(
            said,
            [
                "NEXT.md:1:4: nothing gives `{{input}}` a value: only the first state has it, and one to which a tag gives it",
                "NEXT.md:1:17: nothing gives `{{result}}` a value: no call or function returns here, and no join leads here",
                "NEXT.md:1:29: nothing gives `{{output}}` a value: only evaluators have it",
                "START.md:1:1: nothing gives `{{inptu}}` a value: no fork, call, function or schema gives it to this state",
            ]
        );
    }

    #[test]
    fn unknown_variable_knows_an_input_that_is_optional() {
        let later = "---\ninput: optional\n---\n{{input}} <result>x</result>";
        assert!(found(&RULE, [("START.md", "<goto>NEXT</goto>"), ("NEXT.md", later)]).is_empty());
    }

    #[test]
    fn unknown_variable_is_silent_where_every_kind_has_one() {
        let start = "---\nevaluators:\n  - prompt: JUDGE\n---\n{{input}} {{agent_id}}\n\
                     <call return=\"BACK\">SUB</call> <fork next=\"BACK\" item=\"…\">WORK</fork>";
        let files = [
            ("START.md", start),
            ("BACK.md", "{{result}} <result>x</result>"),
            ("SUB.md", "{{workflow_id}} <result>x</result>"),
            ("WORK.md", "{{item}} <goto>MORE</goto>"),
            ("MORE.md", "{{item}} <result>x</result>"),
            ("JUDGE.md", "{{output}} {{transition}}"),
        ];
        assert!(found(&RULE, files).is_empty());
    }

    #[test]
    fn fields_of_a_schema_have_values_where_its_state_leads() {
        let start = "---\nschema: { type: object, properties: { risk: { type: string } } }\n\
                     allowed_transitions: [{ tag: goto, target: NEXT }]\n---\nx";
        let files = [
            ("START.md", start),
            ("NEXT.md", "{{risk}} <goto>LAST</goto>"),
            ("LAST.md", "{{risk}} <result>x</result>"),
        ];
        let said = found(&RULE, files);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("LAST.md:1:1: "), "{said:?}");
    }

    #[test]
    fn comment_has_a_value_only_where_an_ask_leads() {
        let start = "<ask next=\"NEXT\" choices=\"yes=SHIP|no\">Go?</ask>";
        let files = [
            ("START.md", start),
            ("NEXT.md", "{{result}} {{comment}} <goto>LAST</goto>"),
            ("SHIP.md", "{{comment}} {{files}} <goto>LAST</goto>"),
            ("LAST.md", "{{comment}} {{files}} <result>x</result>"),
        ];
        assert_eq!(
            found(&RULE, files),
            [
                "LAST.md:1:1: nothing gives `{{comment}}` a value: no ask leads here",
                "LAST.md:1:13: nothing gives `{{files}}` a value: no ask leads here",
            ]
        );
    }

    #[test]
    fn unknown_variable_is_silent_about_an_attribute_mentioned_in_prose() {
        let files = [
            ("START.md", "Fork with an attribute `item`: <fork next=\"START\">WORK</fork>"),
            ("WORK.md", "{{item}} <result>x</result>"),
        ];
        assert!(found(&RULE, files).is_empty());
    }
}
