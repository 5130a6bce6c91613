//! `misspelled-tag` (error): the name in an opening or closing tag is misspelled.
//!
//! `<goto>NEXT</gotoo>` is not a tag: the `<goto>` is never closed. A script that prints it fails, and an
//! agent that copies it from its prompt must be reminded. Names are lower case.
//!
//! In a prompt this is a warning, because an agent may write what was meant. Other markup is
//! ignored: a name counts as misspelled only if the other half of the element shows which tag was meant.

use crate::{
    graph::SlipKind,
    source::{Severity, StateKind},
    text::excerpt,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "misspelled-tag",
    severity: Severity::Error,
    source: include_str!("misspelled_tag.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        let severity = match state.kind {
            StateKind::Script => Severity::Error,
            StateKind::Prompt => Severity::Warning,
        };
        for slip in &state.slips {
            let written = excerpt(slip.span.slice(&state.text).unwrap_or_default());
            let meant = match slip.kind {
                SlipKind::Opening => format!("<{}>", slip.meant),
                SlipKind::Closing => format!("</{}>", slip.meant),
            };
            report
                .at(state, slip.span, format!("`{written}` is no transition tag"))
                .severity(severity)
                .meant(Some(&meant));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, severities},
        RULE, Severity,
    };

    #[test]
    fn misspelled_tag_is_found_in_scripts_and_prose() {
        let said = found(
            &RULE,
            [
                ("START.sh", "echo '<goto>NEXT</gotoo>'"),
                ("NEXT.md", "Say <Goto>START</Goto> or <resutl>x</result>."),
            ],
        );
        assert_eq!(
            said,
            [
                "NEXT.md:1:5: `<Goto>` is no transition tag",
                "NEXT.md:1:16: `</Goto>` is no transition tag",
                "NEXT.md:1:27: `<resutl>` is no transition tag",
                "START.sh:1:17: `</gotoo>` is no transition tag",
            ]
        );
    }

    #[test]
    fn misspelled_tag_fails_a_script_and_may_pass_in_a_prompt() {
        let files = [("START.sh", "echo '<goto>A</gotoo>'"), ("A.md", "<goto>A</gotoo>")];
        assert_eq!(severities(&RULE, files), [Severity::Warning, Severity::Error]);
    }

    #[test]
    fn misspelled_tag_is_silent_about_other_markup_and_tags_in_pieces() {
        for text in [
            "<form>a</form> <cell>b</cell> <results>c</results> <fort>d</fort>",
            "Mention <fork> here.\n\n<table><form action='x'>y</form></table>",
            "printf '<result>'; cat log; printf '</result>'",
            "<goto>A</goto> <call return=\"A\">A</call>",
            "<result><form></form></result>",
        ] {
            let said = found(&RULE, [("START.sh", text), ("A.md", text)]);
            assert!(said.is_empty(), "{text}: {said:?}");
        }
    }
}
