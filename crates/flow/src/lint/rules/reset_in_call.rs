//! `reset-in-call` (warning): a state inside a call discards its caller.
//!
//! `<reset>` clears the return stack. In a state that runs inside a `<call>` or `<function>`, that
//! discards the caller: its `return` is never entered. Return a `<result>` and let the caller
//! reset, or use `<goto>`.

use crate::{source::Severity, tag::TagKind};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "reset-in-call",
    severity: Severity::Warning,
    source: include_str!("reset_in_call.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let called = report.graph.called();
    for state in report.states().filter(|state| called.contains(&state.name)) {
        for way in state.ways.iter().filter(|way| way.tag == TagKind::Reset) {
            let said = format!("{} runs inside a call: a reset discards the caller", state.name);
            report.at(state, way.span, said);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn reset_in_call_is_found_in_every_state_of_the_subtask() {
        let files = [
            ("START.md", "<call return=\"END\">A</call>"),
            ("A.md", "<goto>B</goto>"),
            ("B.md", "Say <reset>END</reset> or <result>x</result>"),
            ("END.md", "<result>x</result>"),
        ];
        assert_eq!(
            found(&RULE, files),
            ["B.md:1:5: B.md runs inside a call: a reset discards the caller"]
        );
    }

    #[test]
    fn reset_in_call_is_silent_about_the_caller_and_its_workers() {
        let files = [
            ("START.md", "<call return=\"NEXT\">A</call>"),
            ("A.md", "<fork next=\"B\">W</fork>"),
            ("B.md", "<result>x</result>"),
            ("W.md", "<reset>B</reset>"),
            ("NEXT.md", "<reset>B</reset>"),
        ];
        assert!(found(&RULE, files).is_empty());
    }
}
