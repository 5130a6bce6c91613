//! `dead-end` (error): a prompt without a transition.
//!
//! Every state ends with a tag. This prompt has no `allowed_transitions`, and its text mentions no
//! tag either, so the agent cannot know that one is expected: it answers without a tag, and fails.
//!
//! Say in the frontmatter what is allowed and in the text what to write:
//!
//! ```text
//! ---
//! allowed_transitions:
//!   - { tag: result }
//! ---
//! … End with <result>your answer</result>.
//! ```

use crate::{prompt::placeholders, source::Severity};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "dead-end",
    severity: Severity::Error,
    source: include_str!("dead_end.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let live = report.graph.live();
    for state in report.states().filter(|state| live.contains(&state.name)) {
        let Some(prompt) = state.prompt() else { continue };
        // Words that come in through a variable may explain the tags.
        let is_told = !state.mentioned_kinds.is_empty() || !placeholders(&prompt.body).is_empty();
        if !state.is_evaluator && state.leads_nowhere() && !is_told {
            let said = "no way out: the text mentions no tag, and no transition is allowed";
            report.at(state, state.first_line(), said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, prompt},
        RULE,
    };

    #[test]
    fn dead_end_is_found_if_neither_frontmatter_nor_text_names_a_tag() {
        let said = found(&RULE, [("START.md", "---\nmodel: opus\n---\nDo it.\n")]);
        let expected = "no way out: the text mentions no tag, and no transition is allowed";
        assert_eq!(said, [format!("START.md:4:1: {expected}")]);
    }

    #[test]
    fn dead_end_is_silent_if_either_does() {
        let implicit = prompt(&["tag: goto, target: NEXT"], "Do it.");
        let files = [("START.md", &*implicit), ("NEXT.md", "End with a `<result>`.")];
        assert!(found(&RULE, files).is_empty());
    }
}
