//! The transitions that a state's frontmatter permits.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    formats::is_default,
    tag::{AttributeRole, TagKind},
};

use super::{Evaluator, ask};

/// One entry of `allowed_transitions`. The parts that it names must match; the others are free.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowedTransition {
    /// The tag.
    pub tag: TagKind,
    /// The state between the tags; `None` allows any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Attributes that must be as given: those of the protocol, and variables. Those of an `ask` also complete a
    /// tag that leaves them out.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attributes: BTreeMap<String, String>,
    /// Variables of a fork, call or function that the agent may set to any value, whatever their names.
    #[serde(default, skip_serializing_if = "is_default")]
    pub declared: Vec<String>,
    /// Whether one answer may have several of these forks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub many: bool,
}

impl AllowedTransition {
    /// Whether the entry has every part that its tag needs.
    pub fn is_complete(&self) -> bool {
        if self.tag == TagKind::Ask {
            return ask::is_complete(self);
        }
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
        if self.tag == TagKind::Ask {
            return self.example_ask();
        }
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
            // The policy adds a worktree by itself.
            let is_added = self.tag.role_of(name) == Some(AttributeRole::Worktree);
            if Some(name.as_str()) != required && !is_added {
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

impl AllowedTransition {
    /// An `ask` needs nothing that the entry fills in.
    fn example_ask(&self) -> String {
        let value = |name: &str| self.attributes.get(name);
        let needs_next = value("next").is_none() && !ask::all_lead(value("choices"));
        let next = if needs_next { format!(" next=\"{LEFT_OPEN}\"") } else { String::new() };
        format!("<ask{next}>{}</ask>", value("question").map_or(LEFT_OPEN, String::as_str))
    }
}

/// Stands for a part that the agent may choose.
pub(crate) const LEFT_OPEN: &str = "…";

/// What a prompt's frontmatter declares about transitions.
///
/// Kept with the step that was started under it, so that an answer is always judged by the rules
/// that its prompt was given, even if the file has changed since.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// The allowed transitions. Empty: everything is allowed, and the agent cannot be reminded.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allowed: Vec<AllowedTransition>,
    /// The evaluators, in the order in which they are asked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub evaluators: Vec<Evaluator>,
}

impl Policy {
    /// Whether the policy says nothing at all.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty() && self.evaluators.is_empty()
    }

    /// Whether an agent that breaks the protocol can be reminded of what is allowed.
    pub fn can_remind(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// The transition of an answer without a tag: the only one allowed, if the entry is complete. Never a
    /// result, because only the agent can give its payload.
    pub fn implicit(&self) -> Option<&AllowedTransition> {
        match self.allowed.as_slice() {
            [only] if only.tag != TagKind::Result && only.is_complete() => Some(only),
            _ => None,
        }
    }
}
