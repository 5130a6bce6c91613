//! `unknown-model` (warning): an unknown model.
//!
//! Models are passed to the coding agent as written. Known are the aliases `opus`, `sonnet`, `haiku`,
//! `fable`, `opusplan` and `default`, with or without a suffix such as `[1m]`, and full names, which begin with
//! `claude-`. Another name may be right for another coding agent, so states that name an `agent` are
//! not reported.

use crate::{
    graph::State,
    policy::Evaluator,
    source::{Severity, did_you_mean},
    text::Span,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "unknown-model",
    severity: Severity::Warning,
    source: include_str!("unknown_model.rs"),
    check,
};

const ALIASES: [&str; 6] = ["opus", "sonnet", "haiku", "fable", "opusplan", "default"];

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        let Some(prompt) = state.prompt() else { continue };
        let frontmatter = &prompt.frontmatter;
        if frontmatter.agent.is_some() {
            continue;
        }
        if let Some(model) = &frontmatter.model {
            look(report, state, &model.value, model.span);
        }
        let fallback = frontmatter.option_keys.iter().find(|key| key.value == "fallback_model");
        for model in &frontmatter.options.fallback_model {
            look(report, state, model, fallback.map_or(Span::new(0, 0), |key| key.span));
        }
        for evaluator in &frontmatter.evaluators {
            if let Evaluator::Prompt { model: Some(model), .. } = &evaluator.value {
                look(report, state, model, evaluator.span);
            }
        }
        let ways = state.said().filter(|way| way.tag == crate::tag::TagKind::Function);
        for (name, model) in ways.flat_map(|way| &way.attributes) {
            if name.value == "model" {
                look(report, state, &model.value, model.span);
            }
        }
    }
}

fn look(report: &mut Report<'_>, state: &State, model: &str, span: Span) {
    let alias = model.split('[').next().unwrap_or(model);
    // Names with a dot or a slash belong to a cloud's own catalogue.
    let is_known = ALIASES.contains(&alias) || model.contains("claude-");
    if !is_known && !model.contains(['{', '…']) {
        report
            .at(state, span, format!("`{model}` is not a model that is known here"))
            .meant(did_you_mean(model, ALIASES));
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn unknown_model_is_found_in_frontmatter_evaluators_and_functions() {
        let text = "---\nmodel: sonet\nfallback_model: opsu\nevaluators:\n  - { prompt: START, model: gpt }\n---\n\
                    <function return=\"START\" model=\"haiko\">START</function>";
        let said = found(&RULE, [("START.md", text)]);
        assert_eq!(said.len(), 4, "{said:?}");
        assert_eq!(said[0], "START.md:2:8: `sonet` is not a model that is known here");
    }

    #[test]
    fn unknown_model_is_silent_about_aliases_full_names_and_other_agents() {
        for model in [
            "opus",
            "opusplan",
            "sonnet[1m]",
            "default",
            "claude-opus-4-1",
            "us.anthropic.claude-x",
        ] {
            let text = format!("---\nmodel: {model}\n---\nx");
            assert!(found(&RULE, [("START.md", &*text)]).is_empty(), "{model}");
        }
        assert!(found(&RULE, [("START.md", "---\nagent: codex\nmodel: gpt-5\n---\nx")]).is_empty());
    }
}
