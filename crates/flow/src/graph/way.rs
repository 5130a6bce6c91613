//! One declared transition out of a state, and the states that it names.

use crate::{id::StateName, scope::ResolveError, tag::TagKind, text::Span, text::Spanned};

/// A transition that the file of a state declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The tag.
    pub tag: TagKind,
    /// The state between the tags. `None` for a result, and for a policy entry that allows any state.
    pub target: Option<Named>,
    /// The state in `return` or `next`, if it is given.
    pub continuation: Option<Named>,
    /// The answers that a question offers.
    pub choices: Vec<OfferedChoice>,
    /// All other attributes.
    pub attributes: Vec<(Spanned<String>, Spanned<String>)>,
    /// Where it was found.
    pub origin: WayOrigin,
    /// The span of the whole entry or tag.
    pub span: Span,
}

/// An answer that a question offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfferedChoice {
    /// What a person chooses.
    pub label: String,
    /// The state that it names. A bare label leads to `next`.
    pub state: Option<Named>,
}

/// Where a transition was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WayOrigin {
    /// `allowed_transitions` in the frontmatter.
    Policy,
    /// The `then` of an evaluator.
    Evaluator,
    /// The text of a prompt.
    Prose,
    /// The source of a script.
    Script,
}

/// The name of a state in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The name as written.
    pub written: Spanned<String>,
    /// What the name refers to.
    pub meaning: Meaning,
}

/// What the name of a state refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// This state.
    State(StateName),
    /// Unknown until run time: a variable, or the dots of an example.
    Open,
    /// Not a state: the name is a path.
    Path,
    /// Not a state: resolution failed.
    Wrong(ResolveError),
}

impl Named {
    /// The state, if the name refers to one.
    pub fn state(&self) -> Option<&StateName> {
        match &self.meaning {
            Meaning::State(state) => Some(state),
            Meaning::Open | Meaning::Path | Meaning::Wrong(_) => None,
        }
    }

    /// Why resolution failed, if it did.
    pub fn error(&self) -> Option<&ResolveError> {
        match &self.meaning {
            Meaning::Wrong(error) => Some(error),
            Meaning::State(_) | Meaning::Open | Meaning::Path => None,
        }
    }
}

impl Way {
    /// The attributes that become variables, with their values.
    pub fn variables(&self) -> impl Iterator<Item = &(Spanned<String>, Spanned<String>)> {
        let takes = self.tag.spec().takes_variables;
        self.attributes
            .iter()
            .filter(move |(name, _)| takes && self.tag.role_of(&name.value).is_none())
    }

    /// The names of states in it.
    pub fn named(&self) -> impl Iterator<Item = &Named> {
        let chosen = self.choices.iter().filter_map(|choice| choice.state.as_ref());
        self.target.iter().chain(&self.continuation).chain(chosen)
    }

    /// Whether it has every name that it needs, and each refers to a state.
    pub fn is_known(&self) -> bool {
        let is_state = |named: &Option<Named>| named.as_ref().is_some_and(|n| n.state().is_some());
        let target = !self.tag.has_target() || is_state(&self.target);
        let chosen =
            self.choices.iter().all(|choice| choice.state.is_none() || is_state(&choice.state));
        target && chosen && (!self.needs_continuation() || is_state(&self.continuation))
    }

    /// Whether it may lead to a state that the file does not name. An unresolved name leads nowhere, and
    /// a script that omits `return` or `next` fails.
    pub fn is_open(&self) -> bool {
        let is_left_out =
            |named: &Option<Named>| named.is_none() && self.origin != WayOrigin::Script;
        let has_target = self.tag.has_target();
        let has_continuation = self.needs_continuation();
        self.named().any(|named| named.meaning == Meaning::Open)
            || (has_target && is_left_out(&self.target))
            || (has_continuation && is_left_out(&self.continuation))
    }

    /// Whether it cannot be followed without `return` or `next`: every answer of a question must lead somewhere.
    pub fn needs_continuation(&self) -> bool {
        let all_lead =
            || !self.choices.is_empty() && self.choices.iter().all(|choice| choice.state.is_some());
        self.tag.continuation_attribute().is_some()
            && (self.tag.needs_continuation() || !all_lead())
    }

    /// Whether `self`, a tag in a text, could match `entry` of a policy. Parts that are unknown until run
    /// time match anything.
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
    /// Whether this could be the state that an entry of a policy names. An unresolved name matches any
    /// state, so that it is reported only once, at its own place.
    fn may_be(&self, other: &Self) -> bool {
        self.meaning == Meaning::Open
            || other.state().is_none()
            || self.written.value == other.written.value
            || (self.state().is_some() && self.state() == other.state())
    }
}

/// Whether a text in a tag is a placeholder: a variable of a shell or a template, a format
/// of `printf`, or the dots of an example.
pub(crate) fn is_open(text: &str) -> bool {
    const MARKS: [&str; 10] = ["$", "`", "%", "!", "{{", "…", "...", "<", ">", "*"];
    text.is_empty() || MARKS.iter().any(|mark| text.contains(mark))
}
