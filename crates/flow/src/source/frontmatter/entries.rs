//! Reads what a state allows to follow: the entries of `allowed_transitions`, evaluators, and what follows after `max_visits`.

use std::collections::BTreeMap;

use crate::{
    policy::{
        AllowedTransition, AskProblem, Evaluator, OnFailed, PATTERNS_SIZE_MAX, check_default,
        is_worktree, number, pattern_size,
    },
    scope::{OR_IN_FOLDER, split_target},
    source::{diagnostic::did_you_mean, yaml::YamlNode},
    tag::{AttributeRole, TagKind, choices},
    text::{Spanned, excerpt},
};

use super::{
    VisitLimit,
    reader::{FrontmatterReader, Pairs},
};

impl FrontmatterReader<'_, '_> {
    pub(super) fn visit_limit(
        &mut self,
        max_visits: Option<&YamlNode>,
        then: Option<&YamlNode>,
    ) -> Option<Spanned<VisitLimit>> {
        const EXPECTED: &str = "a whole number from 1";
        let (max_visits, then) = match (max_visits, then) {
            (Some(max_visits), Some(then)) => (max_visits, then),
            (Some(node), None) => {
                let message = "`max_visits` needs `then`: the transition to follow instead";
                self.error(node.span, message);
                return None;
            }
            (None, Some(node)) => {
                self.error(node.span, "`then` needs `max_visits`: how often the state is entered");
                return None;
            }
            (None, None) => return None,
        };
        let word = self.word(max_visits, "max_visits", EXPECTED);
        let is_number = |text: &str| number(text).is_some();
        let text = self.checked(max_visits, word, "max_visits", EXPECTED, is_number)?;
        let limit =
            VisitLimit { max_visits: number(&text)?, then: self.complete_transition(then)? };
        Some(Spanned::new(limit, max_visits.span.shifted(self.offset)))
    }

    /// A transition with nothing left open: the value of `then`.
    fn complete_transition(&mut self, then: &YamlNode) -> Option<AllowedTransition> {
        let entry = self.allowed_transition(then)?;
        if !entry.is_complete() {
            let message = format!("`then` must be a complete transition, not {}", entry.example());
            self.error(then.span, message);
            return None;
        }
        Some(entry)
    }

    /// The name of a state. Paths are rejected.
    fn state(&mut self, node: &YamlNode, key: &str) -> Option<String> {
        self.state_or_subworkflow(node, key, false)
    }

    fn state_or_subworkflow(
        &mut self,
        node: &YamlNode,
        key: &str,
        may_lead_into_folder: bool,
    ) -> Option<String> {
        let word = self.word(node, key, "the name of a state")?;
        let is_path = word.value.contains(['/', '\\']);
        let is_subworkflow = split_target(&word.value).is_some();
        if is_path && !(is_subworkflow && may_lead_into_folder) {
            let name = excerpt(&word.value);
            let message = if is_subworkflow {
                format!(
                    "`{name}` leads into a subworkflow, which only call, function and fork can enter"
                )
            } else {
                let or = if may_lead_into_folder { OR_IN_FOLDER } else { "" };
                format!("`{name}` is a path: a state is named by its file name alone{or}")
            };
            self.findings.path(node.span.shifted(self.offset), message);
            return None;
        }
        Some(word.value)
    }

    /// The value of an attribute that a transition must have.
    fn attribute(&mut self, tag: TagKind, name: &str, value: &YamlNode) -> Option<String> {
        const NUMBER: &str = "a whole number from 1";
        const ON_FAILED: &str = "`hold` or `pass`";
        const WORKTREE: &str = "`true`, or a name of at most 60 letters, digits, `-` and `_`";
        match tag.role_of(name) {
            Some(AttributeRole::Continuation) => self.state(value, name),
            Some(AttributeRole::Model) => {
                let model = self.argument(value, name, "the name of a model");
                model.map(|model| model.value)
            }
            Some(AttributeRole::Number) => {
                let text = self.word(value, name, NUMBER);
                self.checked(value, text, name, NUMBER, |text| number(text).is_some())
            }
            Some(AttributeRole::Worktree) => {
                let text = self.word(value, name, WORKTREE);
                self.checked(value, text, name, WORKTREE, is_worktree)
            }
            Some(AttributeRole::OnFailed) => {
                let text = self.word(value, name, ON_FAILED);
                let is_known = |text: &str| OnFailed::of_word(text).is_some();
                self.checked(value, text, name, ON_FAILED, is_known)
            }
            Some(
                AttributeRole::Directory
                | AttributeRole::Input
                | AttributeRole::Choices
                | AttributeRole::Files
                | AttributeRole::Duration
                | AttributeRole::Default
                | AttributeRole::Question,
            )
            | None => self.text(value, name, "a text"),
        }
    }

    pub(super) fn allowed_transition(&mut self, node: &YamlNode) -> Option<AllowedTransition> {
        let pairs = self.mapping(node, "a transition", "`{ tag: goto, target: NEXT.md }`")?;
        let tag = self.tag(node, &pairs)?;
        let found_before = self.findings.count;
        let mut entry = AllowedTransition {
            tag,
            target: None,
            attributes: BTreeMap::new(),
            declared: Vec::new(),
            many: false,
        };
        let is_slip = |name: &str| {
            let meant = tag.meant_continuation(name);
            meant.is_some_and(|meant| pairs.iter().all(|(key, _)| key.value != meant))
        };
        for (key, value) in &pairs {
            match key.value.as_str() {
                "tag" => {}
                "target" if !tag.has_target() => {
                    self.findings.error(key.span, format!("<{tag}> has no target"));
                }
                "target" => {
                    let into_folder = tag.enters_subworkflows();
                    entry.target = self.state_or_subworkflow(value, "target", into_folder);
                }
                name if !tag.takes_attribute(name) || is_slip(name) => {
                    let known = tag.spec().attributes.iter().map(|(known, _)| *known);
                    let suggestion = did_you_mean(name, known.chain(["target"]));
                    let message = format!("<{tag}> has no attribute `{}`", excerpt(name));
                    self.findings.error_suggesting(key.span, message, suggestion);
                }
                "many" if tag == TagKind::Fork => entry.many = self.truth(value, "many"),
                "attributes" => {
                    let names = self.list(value, "attributes", |reader, name| {
                        reader.word(name, "attributes", "a list of names")
                    });
                    entry.declared = names.into_iter().map(|name| name.value.value).collect();
                }
                name => {
                    let value = self.attribute(tag, name, value);
                    entry.attributes.extend(value.map(|value| (name.to_owned(), value)));
                }
            }
        }
        if tag == TagKind::Ask
            && let Err(problem) = check_ask(&entry)
        {
            self.error(node.span, problem.to_string());
        }
        // Drop an entry with an attribute that cannot be read: without it, the entry would allow too much.
        (self.findings.count == found_before).then_some(entry)
    }

    fn tag(&mut self, node: &YamlNode, pairs: &Pairs<'_>) -> Option<TagKind> {
        let expected = format!("one of {}", TagKind::ALL.map(TagKind::name).join(", "));
        let Some((_, value)) = pairs.iter().find(|(key, _)| key.value == "tag") else {
            self.error(node.span, format!("a transition needs a `tag`: {expected}"));
            return None;
        };
        let name = self.word(value, "tag", &expected)?;
        let kind = TagKind::of_name(&name.value);
        if kind.is_none() {
            let suggestion = did_you_mean(&name.value, TagKind::ALL.map(TagKind::name));
            let message = format!("`{}` is not a tag: expected {expected}", excerpt(&name.value));
            self.findings.error_suggesting(name.span, message, suggestion);
        }
        kind
    }

    pub(super) fn evaluator(&mut self, node: &YamlNode) -> Option<Evaluator> {
        const EXPECTED: &str = "`match` with `then`, or `prompt`";
        let pairs = self.mapping(node, "an evaluator", EXPECTED)?;
        let find = |name: &str| pairs.iter().find(|(key, _)| key.value == name).map(|(_, v)| *v);
        match (find("match"), find("prompt")) {
            (Some(pattern), None) => {
                self.ignore_others(&pairs, &["match", "then"]);
                self.match_evaluator(node, pattern, find("then"))
            }
            (None, Some(prompt)) => {
                self.ignore_others(&pairs, &["prompt", "model"]);
                let model = match find("model") {
                    Some(model) => {
                        Some(self.argument(model, "model", "the name of a model")?.value)
                    }
                    None => None,
                };
                Some(Evaluator::Prompt { prompt: self.state(prompt, "prompt")?, model })
            }
            _ => {
                self.ignore_others(&pairs, &["match", "then", "prompt", "model"]);
                self.error(node.span, format!("an evaluator should be {EXPECTED}"));
                None
            }
        }
    }

    /// Warns about keys that have no meaning here.
    pub(super) fn ignore_others(&mut self, pairs: &Pairs<'_>, known: &[&str]) {
        for (key, _) in pairs {
            if !known.contains(&key.value.as_str()) {
                self.findings.unknown_key(key, known);
            }
        }
    }

    fn match_evaluator(
        &mut self,
        node: &YamlNode,
        pattern: &YamlNode,
        then: Option<&YamlNode>,
    ) -> Option<Evaluator> {
        let Some(then) = then else {
            self.error(node.span, "`match` needs `then`: the transition to follow instead");
            return None;
        };
        let text = self.text(pattern, "match", "a regular expression")?;
        match pattern_size(&text) {
            Err(error) => {
                let message = format!("`match` is not a regular expression: {error}");
                self.error(pattern.span, message);
                return None;
            }
            Ok(size) => self.patterns_size = self.patterns_size.saturating_add(size),
        }
        if self.patterns_size > PATTERNS_SIZE_MAX {
            let message = "the patterns of this state are too large: use lower repeat counts";
            self.error(pattern.span, message);
            return None;
        }
        Some(Evaluator::Match { pattern: text, then: self.complete_transition(then)? })
    }
}

/// What is wrong with an `ask` whatever an agent adds to it.
fn check_ask(entry: &AllowedTransition) -> Result<(), AskProblem> {
    let value = |name: &str| entry.attributes.get(name).map(String::as_str);
    let written = value("choices").map(choices).transpose()?.unwrap_or_default();
    check_default(value("timeout"), value("default"), &written)
}
