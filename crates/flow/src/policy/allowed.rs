//! The transitions that a state's frontmatter permits.

use std::collections::BTreeMap;

use crate::tag::TagKind;

use super::Evaluator;

/// One entry of `allowed_transitions`. What it names must match; what it leaves out is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedTransition {
    /// The tag.
    pub tag: TagKind,
    /// The state between the tags; `None` allows any.
    pub target: Option<String>,
    /// Attributes that must be as given: those of the protocol, and variables.
    pub attributes: BTreeMap<String, String>,
    /// Variables of a fork, call or function that the agent may set to what it likes, whatever their names.
    pub declared: Vec<String>,
    /// Whether one answer may have several of these forks.
    pub many: bool,
}

impl AllowedTransition {
    /// Whether the entry says everything that its tag must say.
    pub fn is_complete(&self) -> bool {
        let has_target = self.target.is_some() || !self.tag.has_target();
        let continuation = self.tag.continuation_attribute();
        has_target && continuation.is_none_or(|name| self.attributes.contains_key(name))
    }

    /// Whether the author of the entry chose the name of this variable.
    pub fn declares(&self, attribute: &str) -> bool {
        self.attributes.contains_key(attribute) || self.declared.iter().any(|n| n == attribute)
    }

    /// The tag as an agent should write it, with dots for what it may choose.
    pub fn example(&self) -> String {
        let required = self.tag.continuation_attribute();
        let mut attributes = String::new();
        let mut add = |name: &str, value: &str| {
            let quote = if value.contains('"') { '\'' } else { '"' };
            attributes.extend([" ", name, "="]);
            attributes.push(quote);
            attributes.push_str(value);
            attributes.push(quote);
        };
        // The attribute that every such tag has comes first, as in the protocol's examples.
        if let Some(name) = required {
            add(name, self.attributes.get(name).map_or(LEFT_OPEN, String::as_str));
        }
        for (name, value) in &self.attributes {
            if Some(name.as_str()) != required {
                add(name, value);
            }
        }
        for name in self.declared.iter().filter(|name| !self.attributes.contains_key(*name)) {
            add(name, LEFT_OPEN);
        }
        let Self { tag, target, .. } = self;
        let content = target.as_deref().unwrap_or(LEFT_OPEN);
        format!("<{tag}{attributes}>{content}</{tag}>")
    }
}

/// Stands for what an agent may choose.
pub(crate) const LEFT_OPEN: &str = "…";

/// Everything that a prompt's frontmatter says about its way out.
///
/// Kept with the step that was started under it, so that an answer is always judged by the rules
/// that its prompt was given, even if the file has changed since.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    /// Empty: everything is allowed, but nothing can be reminded of.
    pub allowed: Vec<AllowedTransition>,
    /// Second opinions, in the order in which they are asked.
    pub evaluators: Vec<Evaluator>,
}

impl Policy {
    /// Whether the policy says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty() && self.evaluators.is_empty()
    }

    /// Whether an agent that breaks the protocol can be told what was expected of it.
    pub fn can_remind(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// The transition that needs no tag: the only one allowed, if nothing in it is left open.
    /// Never a result, because its payload is the agent's to give.
    pub fn implicit(&self) -> Option<&AllowedTransition> {
        match self.allowed.as_slice() {
            [only] if only.tag.has_target() && only.is_complete() => Some(only),
            _ => None,
        }
    }
}
