//! `unsafe-attribute` (error): an attribute of a fork that is not allowed to become a variable.
//!
//! A fork's attributes become variables in the environment of the worker's scripts. A coding agent may
//! choose names in lower case that no known program reads: `item`, `file`, `issue`. Other names must
//! be declared in the state's policy, because `MAKEFLAGS` or `npm_config_shell` would let a model's words
//! become code; on Windows, where names have no case, all of them:
//!
//! ```text
//! allowed_transitions:
//!   - { tag: fork, target: WORKER, next: MORE, attributes: [PART] }
//! ```
//!
//! A script may fork with any other name. Neither scripts nor agents may set variables that control how
//! programs are found and loaded or how shells start (`PATH`, `LD_PRELOAD`, `BASH_ENV`, `RAYMOND_…`), or
//! use names that no shell variable can have (`my-item`). `raymond help protocol` lists the names.

use crate::{
    graph::{State, WayOrigin},
    policy::{Chooser, check_variable_name},
    source::Severity,
    tag::TagKind,
};

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
    // What the environment of a later run holds cannot be known here.
    let look = |name: &str, chooser| check_variable_name(name, chooser, platform, |_| false);
    for state in report.states() {
        for way in state.said() {
            for (name, _) in way.variables() {
                let is_agents =
                    way.origin == WayOrigin::Prose && !declares(state, way.tag, &name.value);
                let chooser = if is_agents { Chooser::Agent } else { Chooser::Author };
                if let Err(error) = look(&name.value, chooser) {
                    let said = format!("the attribute {error}");
                    report.at(state, name.span, said).severity(by_origin(state, way));
                }
            }
        }
        for entry in state.entries() {
            for name in &entry.value.declared {
                if let Err(error) = look(name, Chooser::Author) {
                    report.at(state, entry.span, format!("the attribute {error}"));
                }
            }
        }
    }
}

fn declares(state: &State, tag: TagKind, name: &str) -> bool {
    let mut entries = state.entries().filter(|entry| entry.value.tag == tag);
    entries.any(|entry| entry.value.declares(name))
}

#[cfg(test)]
mod tests {
    use super::{
        super::super::testing::{found, found_on, prompt},
        RULE,
    };
    use crate::source::Platform;

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
    fn unsafe_attribute_is_found_where_an_agent_should_choose_what_programs_read() {
        let fork = "<fork next=\"START\" PART=\"…\">START</fork>";
        let said = found(&RULE, [("START.md", fork)]);
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(
            said[0].starts_with("START.md:1:20: the attribute `PART` is not allowed"),
            "{said:?}"
        );
        assert!(found(&RULE, [("START.sh", fork)]).is_empty(), "a script is the author's own");
        for declared in ["attributes: [PART]", "PART: x"] {
            let entry = format!("tag: fork, target: START, next: START, {declared}");
            let text = prompt(&[&entry], fork);
            assert!(found(&RULE, [("START.md", &*text)]).is_empty(), "{declared}");
        }
        let text = prompt(&["tag: fork, attributes: [LD_PRELOAD]"], "x");
        let said = found(&RULE, [("START.md", &*text)]);
        assert!(
            said[0].starts_with("START.md:3:5: the attribute `LD_PRELOAD` changes"),
            "{said:?}"
        );
    }

    #[test]
    fn unsafe_attribute_is_found_on_windows_where_nothing_is_declared() {
        let fork = "<fork next=\"START\" item=\"…\">START</fork>";
        let said = found_on(Platform::Windows, &RULE, [("START.md", fork)]);
        assert!(said[0].contains("on Windows names have no case"), "{said:?}");
        let text = prompt(&["tag: fork, attributes: [item]"], fork);
        assert!(found_on(Platform::Windows, &RULE, [("START.md", &*text)]).is_empty());
    }

    #[test]
    fn unsafe_attribute_is_silent_about_ordinary_names() {
        let text = "<fork next=\"START\" cd=\"x\" item=\"x\" path=\"y\">START</fork>";
        assert!(found(&RULE, [("START.md", text)]).is_empty());
    }
}
