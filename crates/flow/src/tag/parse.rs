//! Requires exactly one tag, complete, or says what is missing.

use std::{collections::BTreeSet, convert::Infallible};

use thiserror::Error;

use crate::{
    scope::{OR_IN_FOLDER, split_target},
    text::{Span, Spanned, excerpt},
};

use super::{
    AttributeRole, Tag, TagKind, Target,
    scan::{ELEMENTS_KEPT_MAX, Element, Fragment, Scan},
    token::Attribute,
};

/// The longest name of a state, which is the limit of file systems.
pub const TARGET_BYTES_MAX: u64 = 255;

/// The longest content that is accepted as a name with white space around it.
const CONTENT_BYTES_MAX: u64 = 4096;

/// The largest payload of a `<result>`. It is written to the journal and inserted into a prompt, and no
/// model can read more than this at once.
pub const PAYLOAD_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The longest question of an `<ask>`: a person reads it. What is longer belongs into an attached file.
pub const QUESTION_BYTES_MAX: u64 = 64 * 1024;

/// Why an answer does not have exactly one complete tag. Every variant shows the text in question.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TagError {
    /// No transition tag.
    #[error("no transition tag was found")]
    None,
    /// More than one transition tag.
    #[error("{count} transition tags were found where exactly one is allowed: {}", list(tags, *count))]
    Several {
        /// The first few tags.
        tags: Vec<Spanned<String>>,
        /// The number of all tags.
        count: u64,
    },
    /// Markup that looks like a tag but is not a complete one.
    #[error("`{}` is not a complete <{kind}> tag: {why}", text.value)]
    Malformed {
        /// The tag that it looks like.
        kind: TagKind,
        /// The text.
        text: Spanned<String>,
        /// What is wrong with it.
        why: MalformedWhy,
    },
    /// The name of a state is empty.
    #[error("`{}` names no state in {place}", text.value)]
    EmptyTarget {
        /// Which tag.
        kind: TagKind,
        /// Between the tags, or in an attribute.
        place: TargetPlace,
        /// The whole tag.
        text: Spanned<String>,
    },
    /// A state named by a path.
    #[error("`{}` in {place} of <{kind}> is a path: a state is named by its file name alone{}", target.value, or_in_folder(*kind, *place))]
    PathInTarget {
        /// Which tag.
        kind: TagKind,
        /// Between the tags, or in an attribute.
        place: TargetPlace,
        /// The name in question.
        target: Target,
    },
    /// A subworkflow where it cannot be entered.
    #[error(
        "`{}` in {place} of <{kind}> leads into a subworkflow, which only <call>, <function> and <fork> can enter",
        target.value
    )]
    SubworkflowNotEntered {
        /// Which tag.
        kind: TagKind,
        /// Between the tags, or in an attribute.
        place: TargetPlace,
        /// The name in question.
        target: Target,
    },
    /// A name that cannot be a file name.
    #[error("`{}` in {place} of <{kind}> is not the name of a file", excerpt(&target.value))]
    NotAFileName {
        /// Which tag.
        kind: TagKind,
        /// Between the tags, or in an attribute.
        place: TargetPlace,
        /// The text in question.
        target: Target,
    },
    /// The required attribute `return` or `next` is missing.
    #[error("`{}` lacks the attribute `{name}`", text.value)]
    MissingAttribute {
        /// Which tag.
        kind: TagKind,
        /// The attribute that it needs.
        name: &'static str,
        /// The whole tag.
        text: Spanned<String>,
    },
    /// An attribute that the tag does not define.
    #[error("<{kind}> has no attribute `{}`", name.value)]
    UnknownAttribute {
        /// Which tag.
        kind: TagKind,
        /// The attribute's name.
        name: Spanned<String>,
    },
    /// The same attribute twice.
    #[error("<{kind}> has the attribute `{}` twice", name.value)]
    DuplicateAttribute {
        /// Which tag.
        kind: TagKind,
        /// The second one's name.
        name: Spanned<String>,
    },
    /// The answer mentions `<result>` or `<ask>` more than once, and the payload's ends are ambiguous.
    #[error(
        "it is not certain where the payload of <{kind}> begins and ends, because its opening tag \
         occurs {openings} times and its closing tag {closings} times: begin a line with the opening \
         tag, end a line with the closing tag, and name neither elsewhere outside of the payload"
    )]
    AmbiguousPayload {
        /// Which tag.
        kind: TagKind,
        /// The number of opening tags that could start the payload.
        openings: usize,
        /// The number of closing tags that could end it.
        closings: usize,
        /// From the first to the last of them.
        span: Span,
    },
    /// The payload exceeds [`PAYLOAD_BYTES_MAX`] or [`QUESTION_BYTES_MAX`].
    #[error(
        "the payload of <{kind}> has {bytes} bytes, more than the {} that can be handed on",
        payload_bytes_max(*kind)
    )]
    PayloadTooLong {
        /// Which tag.
        kind: TagKind,
        /// Its size.
        bytes: u64,
        /// Where it is.
        span: Span,
    },
}

/// What is wrong with markup that is not a complete tag.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MalformedWhy {
    /// Opened, never closed.
    #[error("its closing tag is missing")]
    Unclosed,
    /// Closed, never opened.
    #[error("its opening tag is missing")]
    Unopened,
    /// `</name something>`
    #[error("a closing tag has nothing but its name")]
    Closing,
    /// `<name/>`
    #[error("it is self-closing: write an opening and a closing tag")]
    SelfClosing,
    /// An attribute that is not `name="value"`.
    #[error("attributes are written name=\"value\"")]
    Attribute,
    /// The opening tag has no end, usually because of a missing quote.
    #[error("the opening tag does not end")]
    OpeningTooLong,
}

/// The part of a tag that names a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetPlace {
    /// Between the opening and the closing tag.
    Content,
    /// In `return` or `next`.
    Attribute(&'static str),
}

impl std::fmt::Display for TargetPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Content => f.write_str("the content"),
            Self::Attribute(name) => write!(f, "`{name}`"),
        }
    }
}

/// Whether a tag can enter a subworkflow here: only a frame or an agent of its own has another folder.
fn may_lead_into_folder(kind: TagKind, place: TargetPlace) -> bool {
    place == TargetPlace::Content && kind.enters_subworkflows()
}

fn or_in_folder(kind: TagKind, place: TargetPlace) -> &'static str {
    if may_lead_into_folder(kind, place) { OR_IN_FOLDER } else { "" }
}

fn payload_bytes_max(kind: TagKind) -> u64 {
    if kind == TagKind::Ask { QUESTION_BYTES_MAX } else { PAYLOAD_BYTES_MAX }
}

fn list(tags: &[Spanned<String>], count: u64) -> String {
    let mut text = tags.iter().map(|tag| format!("`{}`", tag.value)).collect::<Vec<_>>().join(", ");
    if count > tags.len() as u64 {
        text.push_str(", …");
    }
    text
}

/// Parses the one tag in `text`, an agent's final message.
pub fn parse(text: &str) -> Result<Spanned<Tag>, TagError> {
    let read = |span: Span| {
        let bytes = span.range().and_then(|range| text.as_bytes().get(range)).unwrap_or_default();
        Ok::<_, Infallible>(String::from_utf8_lossy(bytes).into_owned())
    };
    match Scan::of(text).tag(read) {
        Ok(tag) => tag,
        Err(never) => match never {},
    }
}

impl Scan {
    /// Parses the one tag of the scanned text. `read` fetches the bytes of the tag, never
    /// more than [`PAYLOAD_BYTES_MAX`] at once; its errors are passed on.
    pub fn tag<E>(
        mut self,
        mut read: impl FnMut(Span) -> Result<String, E>,
    ) -> Result<Result<Spanned<Tag>, TagError>, E> {
        if let Some(payload) = self.payload.take()
            && let Err(error) = payload.settle(&mut self)
        {
            return Ok(Err(error));
        }
        let mut elements = self.elements;
        if self.count > 1
            && elements.len() as u64 == self.count
            && elements.iter().all(|element| element.kind == TagKind::Fork)
        {
            return forks(elements, &mut read);
        }
        if self.count > 1 {
            let mut tags = Vec::new();
            for element in elements.iter().take(ELEMENTS_KEPT_MAX) {
                tags.push(quoted(element.span, &mut read)?);
            }
            return Ok(Err(TagError::Several { tags, count: self.count }));
        }
        let Some(element) = elements.pop() else {
            return Ok(Err(match self.fragment {
                Some(Fragment { kind, span, why }) => {
                    TagError::Malformed { kind, text: quoted(span, &mut read)?, why }
                }
                None => TagError::None,
            }));
        };
        one(element, &mut read)
    }
}

/// Several forks of one answer as one tag: the first, with the others in it.
fn forks<E>(
    elements: Vec<Element>,
    read: &mut impl FnMut(Span) -> Result<String, E>,
) -> Result<Result<Spanned<Tag>, TagError>, E> {
    let mut tags = Vec::new();
    for element in elements {
        match one(element, read)? {
            Ok(tag) => tags.push(tag),
            Err(error) => return Ok(Err(error)),
        }
    }
    let mut tags = tags.into_iter();
    let Some(mut first) = tags.next() else { return Ok(Err(TagError::None)) };
    first.value.more.extend(tags);
    Ok(Ok(first))
}

fn one<E>(
    element: Element,
    read: &mut impl FnMut(Span) -> Result<String, E>,
) -> Result<Result<Spanned<Tag>, TagError>, E> {
    let whole = quoted(element.span, read)?;
    let is_payload = !element.kind.has_target();
    if is_payload && element.content.len() > payload_bytes_max(element.kind) {
        let (kind, bytes) = (element.kind, element.content.len());
        return Ok(Err(TagError::PayloadTooLong { kind, bytes, span: element.content }));
    }
    if !is_payload && element.content.len() > CONTENT_BYTES_MAX {
        let kind = element.kind;
        let target = quoted(element.content, read)?;
        let place = TargetPlace::Content;
        return Ok(Err(TagError::NotAFileName { kind, place, target }));
    }
    let content = Spanned::new(read(element.content)?, element.content);
    Ok(complete(element, &whole, content))
}

/// The start of a span, for a message.
fn quoted<E>(
    span: Span,
    read: &mut impl FnMut(Span) -> Result<String, E>,
) -> Result<Spanned<String>, E> {
    // More bytes than an excerpt shows, however long its characters are. `read` must cope with a cut
    // within a character.
    const QUOTED_BYTES_MAX: u64 = 400;
    let end = span.end.min(span.start + QUOTED_BYTES_MAX);
    Ok(Spanned::new(excerpt(&read(Span::new(span.start, end))?), span))
}

fn complete(
    element: Element,
    whole: &Spanned<String>,
    content: Spanned<String>,
) -> Result<Spanned<Tag>, TagError> {
    let kind = element.kind;
    let span = element.span;
    let attributes =
        element.attributes.map_err(|why| TagError::Malformed { kind, text: whole.clone(), why })?;
    let attributes = checked(kind, attributes, whole)?;
    let content = match kind {
        TagKind::Ask => trimmed(&content),
        TagKind::Result => content,
        TagKind::Goto
        | TagKind::Reset
        | TagKind::Call
        | TagKind::Function
        | TagKind::Fork
        | TagKind::Join => check_target(kind, TargetPlace::Content, &content, whole)?,
    };
    Ok(Spanned::new(Tag::new(kind, content, attributes), span))
}

/// The attributes of a tag, if it takes all of them, each once, and none is missing.
fn checked(
    kind: TagKind,
    mut attributes: Vec<Attribute>,
    whole: &Spanned<String>,
) -> Result<Vec<Attribute>, TagError> {
    let mut seen = BTreeSet::new();
    for Attribute { name, .. } in &attributes {
        let is_question = kind.role_of(&name.value) == Some(AttributeRole::Question);
        if is_question || !kind.takes_attribute(&name.value) {
            return Err(TagError::UnknownAttribute { kind, name: name.clone() });
        }
        if !seen.insert(&*name.value) {
            return Err(TagError::DuplicateAttribute { kind, name: name.clone() });
        }
    }
    let Some(name) = kind.continuation_attribute() else { return Ok(attributes) };
    match attributes.iter_mut().find(|attribute| attribute.name.value == name) {
        Some(Attribute { value, .. }) => {
            *value = check_target(kind, TargetPlace::Attribute(name), value, whole)?;
        }
        None if kind.needs_continuation() => {
            return Err(TagError::MissingAttribute { kind, name, text: whole.clone() });
        }
        None => {}
    }
    Ok(attributes)
}

fn check_target(
    kind: TagKind,
    place: TargetPlace,
    text: &Spanned<String>,
    whole: &Spanned<String>,
) -> Result<Target, TagError> {
    let target = trimmed(text);
    if target.value.is_empty() {
        return Err(TagError::EmptyTarget { kind, place, text: whole.clone() });
    }
    if target.value.contains(['<', '>']) || target.value.chars().any(char::is_control) {
        return Err(TagError::NotAFileName { kind, place, target });
    }
    if target.value.len() as u64 > TARGET_BYTES_MAX {
        return Err(TagError::NotAFileName { kind, place, target });
    }
    if target.value.contains(['/', '\\']) {
        let is_subworkflow = split_target(&target.value).is_some();
        return match is_subworkflow {
            true if may_lead_into_folder(kind, place) => Ok(target),
            true => Err(TagError::SubworkflowNotEntered { kind, place, target }),
            false => Err(TagError::PathInTarget { kind, place, target }),
        };
    }
    Ok(target)
}

/// Counted from both ends: replaced bytes that were not UTF-8 change the length of the text.
fn trimmed(text: &Spanned<String>) -> Target {
    let Spanned { value, span } = text;
    let front = (value.len() - value.trim_start().len()) as u64;
    let back = (value.len() - value.trim_end().len()) as u64;
    let start = (span.start + front).min(span.end);
    let end = span.end.saturating_sub(back).max(start);
    Spanned::new(value.trim().to_owned(), Span::new(start, end))
}
