//! `unmentioned-transition` (warning): an allowed transition that the prompt does not mention.
//!
//! An agent sees the text of the prompt, not its frontmatter. It learns about a transition that the
//! text does not mention only from a reminder, after a wrong answer that was paid for. Write the tag
//! into the text, or remove the entry from the list.
//!
//! The only entry of a list is not reported if it needs no tag.

use crate::{
    graph::{State, Way, WayOrigin},
    source::Severity,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unmentioned-transition",
    severity: Severity::Warning,
    source: include_str!("unmentioned_transition.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states().filter(|state| !state.is_evaluator) {
        let Some(prompt) = state.prompt() else { continue };
        if prompt.frontmatter.needs_no_tag() {
            continue;
        }
        for entry in state.declared.iter().filter(|way| way.origin == WayOrigin::Policy) {
            if !is_mentioned(state, entry) {
                let target = entry.target.as_ref().map(|target| target.written.value.as_str());
                let tag = format!("<{0}>{1}</{0}>", entry.tag, target.unwrap_or("…"));
                let said = format!("the prompt never mentions `{tag}`, which is allowed");
                report.at(state, entry.span, said);
            }
        }
    }
}

/// Whether the text has such a tag, or mentions both the name of the tag and that of the state.
fn is_mentioned(state: &State, entry: &Way) -> bool {
    let Some(prompt) = state.prompt() else { return true };
    let names_state = |name: &str| {
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        prompt.body.contains(stem)
    };
    let is_named = entry.target.as_ref().is_none_or(|target| names_state(&target.written.value));
    let is_told = state.mentioned_kinds.contains(&entry.tag) && is_named;
    is_told || state.mentions.iter().any(|mention| mention.may_match(entry))
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, prompt},
        RULE,
    };

    #[test]
    fn unmentioned_transition_is_found_at_the_entry() {
        let text = prompt(
            &["tag: goto, target: FIX", "tag: result"],
            "If it is good, say <result>good</result>.",
        );
        let said = found(&RULE, [("START.md", &*text), ("FIX.md", "")]);
        assert_eq!(
            said,
            ["START.md:3:5: the prompt never mentions `<goto>FIX</goto>`, which is allowed"]
        );
    }

    #[test]
    fn unmentioned_transition_is_silent_if_the_text_names_tag_and_state() {
        let text = prompt(
            &["tag: goto, target: FIX.md", "tag: goto, target: MORE.md", "tag: result"],
            "Write <goto>NAME</goto> with FIX or MORE.md, or a `<result>`.",
        );
        assert!(found(&RULE, [("START.md", &*text), ("FIX.md", ""), ("MORE.md", "")]).is_empty());
    }

    #[test]
    fn unmentioned_transition_is_silent_about_a_result_that_is_a_structured_output() {
        let text =
            "---\nschema: { type: object }\nallowed_transitions: [{ tag: result }]\n---\nDo it.";
        assert!(found(&RULE, [("START.md", text)]).is_empty());
    }

    #[test]
    fn unmentioned_transition_is_silent_about_an_implicit_one() {
        let text = prompt(&["tag: goto, target: FIX.md"], "Do it.");
        assert!(found(&RULE, [("START.md", &*text), ("FIX.md", "")]).is_empty());
    }
}
