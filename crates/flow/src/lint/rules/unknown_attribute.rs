//! `unknown-attribute` (error): a tag has an unknown attribute.
//!
//! `<fork>`, `<call>` and `<function>` take attributes that you name; they become variables. `<result>` takes
//! none, `<goto>` takes `input`, `<reset>` takes `cd` and `input`, `<join>` takes `count`, `failed` and `input`. A
//! tag with any other attribute is rejected, and so are `cd`, `model` and `next` on a `<call>`, and `cd` and `next`
//! on a `<function>`.
//!
//! In a prompt with `allowed_transitions` this is a warning: the agent is reminded of what is allowed.

use crate::source::{Severity, did_you_mean};

use super::super::{
    Rule,
    finding::{Report, by_origin},
};

pub(super) const RULE: Rule = Rule {
    name: "unknown-attribute",
    severity: Severity::Error,
    source: include_str!("unknown_attribute.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        for way in &state.mentions {
            for (name, _) in &way.attributes {
                // In a script, `=` can also stand within a value whose quotes are the shell's.
                let before = name.span.range().and_then(|range| state.text.get(..range.start));
                let is_apart = before.is_some_and(|text| text.ends_with(char::is_whitespace));
                let is_slip =
                    way.continuation.is_none() && way.tag.meant_continuation(&name.value).is_some();
                if (way.tag.takes_attribute(&name.value) && !is_slip) || !is_apart {
                    continue;
                }
                let known: Vec<_> =
                    way.tag.spec().attributes.iter().map(|(name, _)| *name).collect();
                let said = format!("<{}> takes no attribute `{}`", way.tag, name.value);
                let finding = report.at(state, name.span, said).severity(by_origin(state, way));
                if known.is_empty() {
                    finding.help(format!("<{}> takes no attributes", way.tag));
                } else {
                    finding.help(format!("it takes: {}", known.join(", ")));
                    finding.meant(did_you_mean(&name.value, known));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, prompt, severities},
        RULE, Severity,
    };

    #[test]
    fn unknown_attribute_is_found_in_scripts_and_prose() {
        let said = found(
            &RULE,
            [
                ("START.sh", r#"echo "<goto cd=\"x\">NEXT</goto>""#),
                ("NEXT.md", "<call retrun=\"START\">START</call>"),
            ],
        );
        assert_eq!(
            said,
            [
                "NEXT.md:1:7: <call> takes no attribute `retrun`",
                "START.sh:1:13: <goto> takes no attribute `cd`",
            ]
        );
    }

    #[test]
    fn unknown_attribute_is_a_warning_where_the_agent_is_reminded() {
        let text = prompt(&["tag: goto, target: START"], "<goto model=\"x\">START</goto>");
        assert_eq!(severities(&RULE, [("START.md", &*text)]), [Severity::Warning]);
    }

    #[test]
    fn unknown_attribute_is_silent_about_forks_and_quotes_of_any_shell() {
        let script = r#"
            echo "<fork next=\"START\" item=\"$1\" any=\"2\">START</fork>"
            echo '<reset cd="'"$(pwd --x=y)"'">START</reset>'
            printf '<function return="%s" model="a=b c=d">START</function>' "$1"
        "#;
        assert!(found(&RULE, [("START.sh", script)]).is_empty());
    }
}
