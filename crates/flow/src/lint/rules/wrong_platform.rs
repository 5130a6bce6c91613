//! `wrong-platform` (error): a transition leads to a script that cannot run here.
//!
//! Scripts are `.sh` on Unix and `.bat` on Windows. A workflow for both has both files under
//! one name and names them without extension: `<goto>BUILD</goto>` is `BUILD.sh` on Unix and
//! `BUILD.bat` on Windows.

use crate::{scope::ResolveError, source::Severity};

use super::super::{
    Rule,
    finding::{Report, by_origin},
};

pub(super) const RULE: Rule = Rule {
    name: "wrong-platform",
    severity: Severity::Error,
    source: include_str!("wrong_platform.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    for state in report.states() {
        for way in state.said() {
            for named in way.named() {
                let Some(error) = named.error() else { continue };
                if let ResolveError::WrongPlatform { .. } = error.in_its_folder().1 {
                    report
                        .at(state, named.written.span, error.to_string())
                        .severity(by_origin(state, way));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, found_on},
        RULE,
    };
    use crate::source::Platform;

    #[test]
    fn wrong_platform_is_found_where_only_the_other_script_exists() {
        let files = [("START.sh", "echo '<goto>NEXT</goto>'"), ("NEXT.bat", "")];
        let said = found(&RULE, files);
        assert_eq!(
            said,
            ["START.sh:1:13: state `NEXT` cannot run on Unix: NEXT.bat is for Windows"]
        );
    }

    #[test]
    fn wrong_platform_is_silent_about_a_name_that_both_platforms_have() {
        let files = [("START.md", "<goto>NEXT</goto>"), ("NEXT.bat", ""), ("NEXT.sh", "")];
        assert!(found(&RULE, files).is_empty());
        assert!(found_on(Platform::Windows, &RULE, files).is_empty());
    }
}
