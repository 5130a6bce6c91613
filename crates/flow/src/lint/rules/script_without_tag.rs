//! `script-without-tag` (warning): a script whose source has no tag.
//!
//! A script must print exactly one tag, else the run stops. This script contains nothing like a tag.
//! That can be right if a program that it calls prints the tag; then mention the tag in the script
//! in a line that prints nothing, or let the script print what that program decides.
//!
//! A script that computes the name of its tag (`echo "<$tag>$next</$tag>"`) or that sources another file
//! is not reported.

use std::sync::LazyLock;

use regex::Regex;

use crate::source::{Severity, StateKind};

use super::super::{Rule, finding::Report};

pub(super) const RULE: Rule = Rule {
    name: "script-without-tag",
    severity: Severity::Warning,
    source: include_str!("script_without_tag.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states().filter(|state| state.kind == StateKind::Script) {
        if state.mentioned_kinds.is_empty() && !may_print_one(&state.text) {
            report
                .at(state, state.first_line(), "the script prints no tag, as far as its text tells")
                .help("end it with a line such as: echo \"<result>done</result>\"");
        }
    }
}

/// Whether the script computes the name of a tag (`</$tag>`) or runs another file as a part of itself.
fn may_print_one(source: &str) -> bool {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let pattern =
            r#"(?mi)<\^?/["']*[$%!]|(^|[;&|({]|\b(then|do|else))[ \t@]*(source|\.|call)[ \t]+\S"#;
        Regex::new(pattern).expect("the pattern is a constant")
    });
    PATTERN.is_match(source)
}

#[cfg(test)]
mod tests {
    use super::{super::super::testing::found, RULE};

    #[test]
    fn script_without_tag_is_found_if_only_a_comment_has_one() {
        let said = found(&RULE, [("START.sh", "make\n# <result>x</result>\n")]);
        assert_eq!(said, ["START.sh:1:1: the script prints no tag, as far as its text tells"]);
    }

    #[test]
    fn script_without_tag_is_silent_about_a_tag_in_pieces() {
        let script = "printf '<result>'; cat log; printf '</result>'";
        assert!(found(&RULE, [("START.sh", script)]).is_empty());
    }

    #[test]
    fn script_without_tag_is_silent_where_the_name_is_computed_or_a_file_is_sourced() {
        for script in [
            "echo \"<$tag>NEXT</$tag>\"",
            "printf '<%s>%s</%s>' goto NEXT goto",
            "source \"$RAYMOND_STATE_DIR/lib.inc\"\nfinish",
            "if true; then . ./lib.inc; fi",
        ] {
            assert!(found(&RULE, [("START.sh", script)]).is_empty(), "{script}");
        }
        for script in ["cat < $file", "echo the source code", "make ./all . x"] {
            assert_eq!(found(&RULE, [("START.sh", script)]).len(), 1, "{script}");
        }
    }
}
