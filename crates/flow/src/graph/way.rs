//! One way out of a state, and the states that it names.

use crate::{id::StateName, scope::ResolveError, tag::TagKind, text::Span, text::Spanned};

/// A transition that a state may ask for, as far as its file tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The tag.
    pub tag: TagKind,
    /// The state between the tags. `None` for a result, and for an entry that allows any.
    pub target: Option<Named>,
    /// The state in `return` or `next`, if it is given.
    pub continuation: Option<Named>,
    /// All other attributes.
    pub attributes: Vec<(Spanned<String>, Spanned<String>)>,
    /// Where it was found.
    pub origin: Origin,
    /// The whole entry or tag in the file.
    pub span: Span,
}

/// Where a way was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// `allowed_transitions` in the frontmatter.
    Policy,
    /// The `then` of an evaluator.
    Evaluator,
    /// The words of a prompt.
    Prose,
    /// The source of a script.
    Script,
}

/// A state as a file names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name as written, and where.
    pub written: Spanned<String>,
    /// What it means.
    pub meaning: Meaning,
}

/// What a name in a file means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// This state.
    State(StateName),
    /// Whatever a variable holds, or an example's dots.
    Open,
    /// Nothing: it is a path.
    Path,
    /// Nothing that can be entered.
    Wrong(ResolveError),
}

impl Named {
    /// The state, if there is one.
    pub fn state(&self) -> Option<&StateName> {
        match &self.meaning {
            Meaning::State(state) => Some(state),
            Meaning::Open | Meaning::Path | Meaning::Wrong(_) => None,
        }
    }
}

impl Way {
    /// The states that it names.
    pub fn named(&self) -> impl Iterator<Item = &Named> {
        self.target.iter().chain(&self.continuation)
    }

    /// Whether everything that it must name is a state.
    pub fn is_known(&self) -> bool {
        let is_state = |named: &Option<Named>| named.as_ref().is_some_and(|n| n.state().is_some());
        let target = !self.tag.has_target() || is_state(&self.target);
        target && (self.tag.continuation_attribute().is_none() || is_state(&self.continuation))
    }

    /// Whether it may lead to a state that the file does not name. A name that means nothing leads
    /// nowhere, and a script that leaves `return` or `next` out fails.
    pub fn is_open(&self) -> bool {
        let is_left_out = |named: &Option<Named>| named.is_none() && self.origin != Origin::Script;
        let has_target = self.tag.has_target();
        let has_continuation = self.tag.continuation_attribute().is_some();
        self.named().any(|named| named.meaning == Meaning::Open)
            || (has_target && is_left_out(&self.target))
            || (has_continuation && is_left_out(&self.continuation))
    }

    /// Whether `self`, a tag in a text, could be what `entry` of a policy allows. What the text
    /// leaves open may be anything.
    pub fn may_match(&self, entry: &Self) -> bool {
        let same = |one: &Option<Named>, other: &Option<Named>| match (one, other) {
            (Some(one), Some(other)) => one.may_be(other),
            _ => true,
        };
        self.tag == entry.tag
            && same(&self.target, &entry.target)
            && same(&self.continuation, &entry.continuation)
            && entry.attributes.iter().all(|(name, value)| {
                let own = self.attributes.iter().find(|(own, _)| own.value == name.value);
                own.is_none_or(|(_, own)| own.value == value.value || is_open(&own.value))
            })
    }
}

impl Named {
    /// Whether this could be the state that an entry of a policy names. A name that means nothing
    /// could have been meant to be any: it is told once, where it stands.
    fn may_be(&self, other: &Self) -> bool {
        self.meaning == Meaning::Open
            || other.state().is_none()
            || self.written.value == other.written.value
            || (self.state().is_some() && self.state() == other.state())
    }
}

/// Whether a text in a tag stands for something else: a variable of a shell or a template, a format
/// of `printf`, or the dots of an example.
pub(super) fn is_open(text: &str) -> bool {
    const MARKS: [&str; 10] = ["$", "`", "%", "!", "{{", "…", "...", "<", ">", "*"];
    text.is_empty() || MARKS.iter().any(|mark| text.contains(mark))
}
