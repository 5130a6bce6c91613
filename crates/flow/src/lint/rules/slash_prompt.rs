//! `slash-prompt` (warning): a prompt that begins like a command of Claude Code.
//!
//! When a user types `/review`, Claude Code runs a command or a skill of that name instead of
//! asking the model. A workflow must mean the same on every machine, so its prompts are never run
//! as commands: Raymond sends the text to the model, after an empty line. If you mean the text
//! itself, begin with another word; if you want a skill, ask for it in a sentence ("Use
//! the review skill on …"). Paths such as `/etc/hosts` are not reported.

use crate::source::Severity;

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "slash-prompt",
    severity: Severity::Warning,
    source: include_str!("slash_prompt.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        let Some(prompt) = state.prompt() else { continue };
        if prompt.frontmatter.agent.as_ref().is_some_and(|agent| agent.value != "claude") {
            continue;
        }
        let span = state.first_line();
        let line = span.slice(&state.text).unwrap_or_default();
        if let Some(command) = command(line) {
            report
                .at(state, span, format!("`{command}` is not run as a command of Claude Code"))
                .help("the model gets it as words; ask for a skill in a sentence");
        }
    }
}

/// The word that Claude Code would run as a command if a user typed this line.
fn command(line: &str) -> Option<&str> {
    let word = line.split_whitespace().next()?;
    let name = word.strip_prefix('/')?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':');
    (!name.is_empty() && name.chars().all(is_name)).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn slash_prompt_is_found_with_and_without_frontmatter() {
        let files =
            [("NEXT.md", "---\nmodel: opus\n---\n\n/my-plugin:go now"), ("START.md", "/deploy it")];
        let said = found(&RULE, files);
        assert_eq!(
            said,
            [
                "NEXT.md:5:1: `/my-plugin:go` is not run as a command of Claude Code",
                "START.md:1:1: `/deploy` is not run as a command of Claude Code"
            ]
        );
    }

    #[test]
    fn slash_prompt_is_silent_about_paths_later_words_and_other_agents() {
        for text in ["/etc/hosts is wrong", "/ is full", "//", "Run /deploy", "Look:\n/deploy", ""]
        {
            assert!(found(&RULE, [("START.md", text)]).is_empty(), "{text}");
        }
        assert!(found(&RULE, [("START.md", "---\nagent: codex\n---\n/deploy")]).is_empty());
    }
}
