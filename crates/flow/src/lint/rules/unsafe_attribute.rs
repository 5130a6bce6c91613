//! `unsafe-attribute` (error): an attribute of a fork that is not allowed to become a variable.
//!
//! A fork's attributes become variables in the environment of the worker's scripts. A name that
//! changes how programs are found, loaded or started (`PATH`, `LD_PRELOAD`, `GIT_DIR`,
//! `RAYMOND_…`), or that no shell can have as a variable (`my-item`), is refused when the agent
//! asks for it. Choose another name: `item`, `file`, `issue`. `docs/protocol.md` lists the
//! reserved names.

use crate::{policy::check_variable_name, source::Severity, tag::TagKind};

use super::super::{
    Rule,
    finding::{Report, by_origin},
};

pub(super) const RULE: Rule = Rule {
    name: "unsafe-attribute",
    severity: Severity::Error,
    source: include_str!("unsafe_attribute.rs"),
    check,
};

fn check(report: &mut Report<'_>) {
    let platform = report.graph.platform;
    for state in report.states() {
        for way in state.said().filter(|way| way.tag == TagKind::Fork) {
            for (name, _) in way.attributes.iter().filter(|(name, _)| name.value != "cd") {
                // What the environment of a later run holds cannot be known here.
                if let Err(error) = check_variable_name(&name.value, platform, |_| false) {
                    let said = format!("the attribute {error}");
                    report.at(state, name.span, said).severity(by_origin(way.origin));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, prompt},
        RULE,
    };

    #[test]
    fn unsafe_attribute_is_found_in_policies_and_tags() {
        let text = prompt(
            &["tag: fork, target: W, next: START, PATH: x"],
            "<fork next=\"START\" my-item=\"x\">W</fork>",
        );
        let said = found(&RULE, [("START.md", &*text), ("W.md", "")]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("START.md:3:42: the attribute `PATH` changes"), "{said:?}");
        assert!(said[1].starts_with("START.md:5:20: the attribute `my-item` cannot"), "{said:?}");
    }

    #[test]
    fn unsafe_attribute_is_silent_about_ordinary_names() {
        let text = "<fork next=\"START\" cd=\"x\" item=\"x\" path=\"y\">START</fork>";
        assert!(found(&RULE, [("START.md", text)]).is_empty());
    }
}
