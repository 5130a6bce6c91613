//! `no-policy` (warning): a prompt without `allowed_transitions`.
//!
//! Without a list, the agent fails after an answer with no tag, several tags or a wrong one, because
//! Raymond does not know what was expected. With a list it is reminded up to three times. List the
//! allowed transitions, even if there is only one:
//!
//! ```text
//! ---
//! allowed_transitions:
//!   - { tag: goto, target: REVIEW.md }
//!   - { tag: result }
//! ---
//! ```
//!
//! A prompt whose text has exactly one tag that can be followed is not reported.

use crate::{graph::State, source::Severity};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "no-policy",
    severity: Severity::Warning,
    source: include_str!("no_policy.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        let is_entered = state.prompt().is_some() && !state.is_evaluator;
        // A state without any tag is a dead end: that rule says the same, and more.
        if is_entered && !state.has_policy() && !state.leads_nowhere() && !has_one_way(state) {
            let said =
                "no `allowed_transitions`: after a wrong answer the agent cannot be reminded";
            report.at(state, state.first_line(), said);
        }
    }
}

/// Whether the text has exactly one tag, complete and valid: there is no wrong choice.
fn has_one_way(state: &State) -> bool {
    matches!(state.mentions.as_slice(), [only] if only.is_known())
        && state.mentioned_kinds.len() == 1
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, prompt},
        RULE,
    };

    #[test]
    fn no_policy_is_found_on_a_prompt_without_a_list() {
        let said = found(&RULE, [("START.md", "Say <result>x</result> or <goto>START</goto>.")]);
        let expected =
            "no `allowed_transitions`: after a wrong answer the agent cannot be reminded";
        assert_eq!(said, [format!("START.md:1:1: {expected}")]);
    }

    #[test]
    fn no_policy_is_silent_about_a_prompt_with_one_right_tag() {
        assert!(found(&RULE, [("START.md", "Say <result>x</result>.")]).is_empty());
        assert!(found(&RULE, [("START.md", "End: <goto>START</goto>")]).is_empty());
        for text in ["End: <goto>GONE</goto>", "<goto>…</goto>", "<result>x</result> no `<goto>`"]
        {
            assert_eq!(found(&RULE, [("START.md", text)]).len(), 1, "{text}");
        }
    }

    #[test]
    fn no_policy_is_silent_about_scripts_evaluators_and_prompts_with_a_list() {
        let text = prompt(&["tag: result"], "<result>x</result>")
            .replace("---\n<", "evaluators:\n  - prompt: JUDGE\n---\n<");
        let files = [
            ("START.md", &*text),
            ("JUDGE.md", "Say <result>accept</result>."),
            ("RUN.sh", "echo '<result>x</result>'"),
        ];
        assert!(found(&RULE, files).is_empty());
    }
}
