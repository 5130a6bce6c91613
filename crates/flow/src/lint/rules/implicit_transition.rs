//! `implicit-transition` (note): a state whose answer needs no tag.
//!
//! The list of allowed transitions has one entry, and the entry is complete. An answer without a
//! tag then means that entry, so the prompt need not mention it. This is not a mistake, but worth
//! knowing: in such a state the agent has no choice.

use crate::source::Severity;

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "implicit-transition",
    severity: Severity::Note,
    source: include_str!("implicit_transition.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states().filter(|state| !state.is_evaluator) {
        let Some(prompt) = state.prompt() else { continue };
        let policy = prompt.frontmatter.policy();
        if let (Some(entry), [only]) =
            (policy.implicit(), prompt.frontmatter.allowed_transitions.as_slice())
        {
            let said = format!("an answer without a tag means `{}`", entry.example());
            report.at(state, only.span, said);
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
    fn implicit_transition_is_noted_at_the_only_entry() {
        let text = prompt(&["tag: goto, target: FIX"], "Do it.");
        let said = found(&RULE, [("START.md", &*text), ("FIX.md", "")]);
        assert_eq!(said, ["START.md:3:5: an answer without a tag means `<goto>FIX</goto>`"]);
    }

    #[test]
    fn implicit_transition_is_silent_about_a_result_and_about_a_choice() {
        let only = prompt(&["tag: result"], "x");
        let choice = prompt(&["tag: result", "tag: goto, target: START"], "x");
        assert!(found(&RULE, [("START.md", &*only), ("FIX.md", &*choice)]).is_empty());
    }
}
