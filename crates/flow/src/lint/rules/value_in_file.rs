//! `value-in-file` (note): a script that reads a value only from its variable.
//!
//! An environment variable holds at most 100 KB. A longer input, result or comment is in a file instead, and the
//! variable is not set: `$RAYMOND_INPUT` is empty then, and `$RAYMOND_INPUT_FILE` names the file. A script whose values
//! may be that long reads the file if there is one:
//! `cat "${RAYMOND_INPUT_FILE:-/dev/null}"; printf %s "$RAYMOND_INPUT"`.

use crate::{
    source::{Severity, StateKind},
    text::Span,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "value-in-file",
    severity: Severity::Note,
    source: include_str!("value_in_file.rs"),
    check,
};

/// The variables whose values come from people, models and other agents.
const VALUES: [&str; 3] = ["RAYMOND_INPUT", "RAYMOND_RESULT", "RAYMOND_COMMENT"];

fn check(report: &mut Report<'_>) {
    for state in report.states().filter(|state| state.kind == StateKind::Script) {
        for name in VALUES {
            let file = format!("{name}_FILE");
            let Some(at) = state.text.find(name).filter(|_| !state.text.contains(&file)) else {
                continue;
            };
            report
                .at(
                    state,
                    Span::new(at as u64, (at + name.len()) as u64),
                    format!("`{name}` is not set if its value has more than 100 KB"),
                )
                .help(format!("`{file}` then names a file that has it"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn value_in_file_is_found_where_a_script_reads_the_variable_alone() {
        let said = found(&RULE, [("START.sh", "echo \"<result>$RAYMOND_INPUT</result>\"")]);
        assert_eq!(
            said,
            ["START.sh:1:16: `RAYMOND_INPUT` is not set if its value has more than 100 KB"]
        );
    }

    #[test]
    fn value_in_file_is_silent_where_the_file_is_read_and_about_prompts() {
        let script = "cat \"${RAYMOND_RESULT_FILE:-/dev/null}\"; echo \"$RAYMOND_RESULT\"";
        assert!(found(&RULE, [("START.sh", script), ("A.md", "RAYMOND_INPUT")]).is_empty());
    }
}
