//! `missing-attribute` (error): a tag lacks the `return` or `next` that it needs.
//!
//! `<call>` and `<function>` must name the state at which the caller continues after the subtask
//! (`return`), and `<fork>` the state at which the agent itself continues (`next`). A tag without it is
//! malformed.
//!
//! ```text
//! <call return="SUMMARIZE">RESEARCH</call>
//! <fork next="DISPATCH" item="…">WORKER</fork>
//! ```
//!
//! In a prompt with `allowed_transitions` this is a warning: the agent is reminded of what the example
//! omits. An entry of `allowed_transitions` may omit it, and then the agent chooses.

use crate::{graph::WayOrigin, source::Severity};

use super::super::{
    Rule,
    finding::{Report, by_origin},
};

pub(super) const RULE: Rule = Rule {
    name: "missing-attribute",
    severity: Severity::Error,
    source: include_str!("missing_attribute.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        for way in &state.mentions {
            // An `ask` has a rule of its own: its choices may name states instead.
            if way.tag.needs_continuation()
                && let (Some(name), None) = (way.tag.continuation_attribute(), &way.continuation)
            {
                let said = format!("<{}> needs the attribute `{name}`", way.tag);
                let finding = report.at(state, way.span, said).severity(by_origin(state, way));
                if way.origin == WayOrigin::Prose {
                    finding.help(format!("tell the agent all of it: `{name}=\"…\"`"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn missing_attribute_is_found_in_scripts_and_prose() {
        let files = [("START.sh", "echo '<fork>NEXT</fork>'"), ("NEXT.md", "<call>START</call>")];
        let said = found(&RULE, files);
        assert_eq!(
            said,
            [
                "NEXT.md:1:1: <call> needs the attribute `return`",
                "START.sh:1:7: <fork> needs the attribute `next`",
            ]
        );
    }

    #[test]
    fn missing_attribute_is_silent_about_quotes_of_any_shell() {
        let script = r#"
            echo "<fork next=\"START\" item=\"$1\">START</fork>"
            echo '<fork next="START" item="'"$1"'">START</fork>'
            printf '<call return="%s">START</call>' "$1"
        "#;
        assert!(found(&RULE, [("START.sh", script)]).is_empty());
    }
}
