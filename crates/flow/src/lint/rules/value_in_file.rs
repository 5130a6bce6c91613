//! `value-in-file` (warning): a script that reads a value only from its variable.
//!
//! An environment variable holds at most 100 KB, and no NUL byte. Another input, result or comment is in a file instead,
//! and the variable is not set: `$RAYMOND_INPUT` is empty then, and `$RAYMOND_INPUT_FILE` names the file. A script that
//! prints such a value loses it without a word; this reads it in both cases:
//! `cat "${RAYMOND_INPUT_FILE:--}" <<< "$RAYMOND_INPUT"`.
//!
//! It is a note where nothing says that the value may be long: a script that does not print it may use it as a name, the result
//! in a workflow without prompts is that of a script, and a batch file prints no long lines.

use crate::{
    graph::State,
    source::{Platform, Severity, StateKind},
    text::Span,
};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "value-in-file",
    severity: Severity::Warning,
    source: include_str!("value_in_file.rs"),
    check,
};

/// The variables whose values come from people, models and other agents.
const VALUES: [&str; 3] = ["RAYMOND_INPUT", RESULT, "RAYMOND_COMMENT"];
const RESULT: &str = "RAYMOND_RESULT";
/// The commands that print what they are given.
const PRINTING: [&str; 2] = ["echo ", "printf "];

fn check(report: &mut Report<'_>) {
    let has_prompts = report.states().any(|state| state.kind == StateKind::Prompt);
    let on_windows = report.graph.platform == Platform::Windows;
    for state in report.states().filter(|state| state.kind == StateKind::Script) {
        for name in VALUES {
            let file = format!("{name}_FILE");
            let Some(at) = state.text.find(name).filter(|_| !state.text.contains(&file)) else {
                continue;
            };
            let may_be_long = !on_windows && (name != RESULT || has_prompts);
            let is_certain = may_be_long && is_printed(state, name);
            report
                .at(
                    state,
                    Span::new(at as u64, (at + name.len()) as u64),
                    format!("`{name}` is not set if its value has more than 100 KB"),
                )
                .severity(if is_certain { Severity::Warning } else { Severity::Note })
                .help(format!("`{file}` then names a file that has it"));
        }
    }
}

/// Whether a line prints the value, and not as a message for people.
fn is_printed(state: &State, name: &str) -> bool {
    let prints = |line: &str| {
        let command =
            line.split_once(&format!("${name}")).or_else(|| line.split_once(&format!("${{{name}")));
        command.is_some_and(|(before, _)| PRINTING.iter().any(|word| before.contains(word)))
    };
    let lines = state.text.lines().filter(|line| !line.trim_start().starts_with('#'));
    lines.filter(|line| !line.contains(">&2")).any(prints)
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, severities},
        RULE, Severity,
    };

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

    #[test]
    fn value_in_file_is_a_warning_only_where_a_value_that_may_be_long_is_printed() {
        let severity = |files: &[(&str, &str)]| severities(&RULE, files.iter().copied());
        let (warning, note) = ([Severity::Warning], [Severity::Note]);
        assert_eq!(severity(&[("START.sh", "printf '%s' \"${RAYMOND_INPUT:-x}\" > f")]), warning);
        assert_eq!(severity(&[("START.sh", "file=${RAYMOND_INPUT:-ready.txt}")]), note);
        assert_eq!(severity(&[("START.sh", "[ -d \"$RAYMOND_INPUT\" ] && echo yes")]), note);
        assert_eq!(severity(&[("START.sh", "echo \"no $RAYMOND_INPUT\" >&2")]), note);
        assert_eq!(severity(&[("START.sh", "# echo $RAYMOND_INPUT\nexit $RAYMOND_INPUT")]), note);
        let result = "echo \"<result>$RAYMOND_RESULT</result>\"";
        assert_eq!(severity(&[("START.sh", result)]), note, "that of a script");
        assert_eq!(severity(&[("START.md", "x"), ("DONE.sh", result)]), warning);
    }
}
