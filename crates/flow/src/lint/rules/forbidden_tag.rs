//! `forbidden-tag` (warning): the prompt mentions a tag that its frontmatter does not allow.
//!
//! The answer of an agent that follows the text is rejected, and the reminder costs a turn. Add the
//! transition to `allowed_transitions`, or change the text.
//!
//! Write an example that is not meant to be followed with dots: `<goto>…</goto>`.

use crate::{
    graph::{Meaning, WayOrigin},
    source::Severity,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "forbidden-tag",
    severity: Severity::Warning,
    source: include_str!("forbidden_tag.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states().filter(|state| state.has_policy() && !state.is_evaluator) {
        let allowed: Vec<_> =
            state.declared.iter().filter(|way| way.origin == WayOrigin::Policy).collect();
        for mention in &state.mentions {
            // A name that means nothing has a rule of its own.
            let is_wrong =
                mention.named().any(|n| matches!(n.meaning, Meaning::Wrong(_) | Meaning::Path));
            if !is_wrong && !allowed.iter().any(|entry| mention.may_match(entry)) {
                let tag = mention.span.slice(&state.text).unwrap_or_default();
                let said = format!("`{}` is not allowed in this state", crate::text::excerpt(tag));
                report
                    .at(state, mention.span, said)
                    .help("add it to `allowed_transitions`, or take it out of the text");
            }
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
    fn forbidden_tag_is_found_where_the_text_says_it() {
        let text =
            prompt(&["tag: goto, target: FIX"], "Say <goto>FIX</goto> or <result>x</result>.");
        let said = found(&RULE, [("START.md", &*text), ("FIX.md", "")]);
        assert_eq!(said, ["START.md:5:25: `<result>x</result>` is not allowed in this state"]);
    }

    #[test]
    fn forbidden_tag_is_silent_if_the_list_has_the_slip() {
        let text = prompt(&["tag: goto, target: FXI"], "Say <goto>FIX</goto>.");
        assert!(found(&RULE, [("START.md", &*text), ("FIX.md", "")]).is_empty());
    }

    #[test]
    fn forbidden_tag_is_silent_about_free_attributes_and_open_names() {
        let text = prompt(
            &["tag: fork, target: W.md, next: START"],
            "Say <fork next=\"START.md\" item=\"one\">W</fork>, or <fork next=\"START\">…</fork>.",
        );
        assert!(found(&RULE, [("START.md", &*text), ("W.md", "")]).is_empty());
    }
}
