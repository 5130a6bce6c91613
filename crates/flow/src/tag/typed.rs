//! One transition tag as the agent wrote it, with the span of every part. The catalogue says what its parts mean.

use crate::text::Spanned;

use super::{Attribute, TagKind};

/// A state as a tag names it: trimmed, without path separators, not yet resolved to a file.
pub type Target = Spanned<String>;

/// One of the tags, complete: it has every attribute that its kind needs, and none that its kind refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The kind of tag.
    pub kind: TagKind,
    /// What is between the tags: a [`Target`], a question without the space around it, or a payload, verbatim.
    pub content: Spanned<String>,
    /// The attributes, in the order in which they were written.
    pub attributes: Vec<Attribute>,
    /// Of a fork: the further forks of the same answer, each without forks of its own.
    pub more: Vec<Spanned<Tag>>,
}

impl Tag {
    /// A tag that is alone in its answer.
    pub fn new(kind: TagKind, content: Spanned<String>, attributes: Vec<Attribute>) -> Self {
        Self { kind, content, attributes, more: Vec::new() }
    }

    /// The value of an attribute.
    pub fn attribute(&self, name: &str) -> Option<&Spanned<String>> {
        let found = self.attributes.iter().find(|attribute| attribute.name.value == name);
        found.map(|attribute| &attribute.value)
    }

    /// The state between the tags.
    pub fn target(&self) -> Option<&Target> {
        self.kind.has_target().then_some(&self.content)
    }

    /// The state at which the agent itself continues.
    pub fn continuation(&self) -> Option<&Target> {
        self.attribute(self.kind.continuation_attribute()?)
    }

    /// The attributes that become variables.
    pub fn variables(&self) -> impl Iterator<Item = &Attribute> {
        self.attributes
            .iter()
            .filter(|attribute| self.kind.role_of(&attribute.name.value).is_none())
    }
}
