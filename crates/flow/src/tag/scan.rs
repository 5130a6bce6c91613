//! Pairs opening and closing tags into elements, in one pass and in bounded memory.
//!
//! The rules, which also tell a mention in prose from a tag that is meant:
//!
//! * A closing tag closes the nearest open tag of its name. The text between the two is opaque:
//!   tags inside a `<result>` payload are payload.
//! * An opening tag that is never closed is a mention. It does not hide the tags after it.
//! * The payload of a `<result>` or `<ask>` may mention the tag itself: [`payload`](super::payload) then finds
//!   where it begins and ends.
//!
//! The scanner keeps positions, not text, so it can scan gigabytes. The caller reads the few bytes
//! that matter back from their source.

use std::collections::VecDeque;

use memchr::{memchr, memrchr};

use crate::text::Span;

use super::{
    MalformedWhy, TagKind,
    payload::Payload,
    token::{Attribute, Token, token},
};

/// The most opening tags that are kept until they are closed. Deeper nesting has no meaning in the
/// protocol; at the limit one of them is dropped as a mention.
pub(super) const OPEN_MAX: usize = 128;

/// The most complete elements that are kept, for the error message about several tags.
pub(super) const ELEMENTS_KEPT_MAX: usize = 4;

/// The most forks of one answer. All of them are kept, as long as there is nothing but forks.
pub const FORKS_MAX: usize = 10_000;

/// The most bytes that the opening tags of these forks may have together.
const FORKS_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// One complete element: `<name …>content</name>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// The kind of tag.
    pub kind: TagKind,
    /// From the `<` of the opening tag to the `>` of the closing one.
    pub span: Span,
    /// The text between the tags.
    pub content: Span,
    /// The attributes in the order written, or why they cannot be parsed.
    pub attributes: Result<Vec<Attribute>, MalformedWhy>,
}

impl Element {
    fn opening_bytes(&self) -> u64 {
        self.content.start.saturating_sub(self.span.start)
    }
}

/// Markup that looks like a tag of the protocol but is not a complete element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) kind: TagKind,
    pub(super) span: Span,
    pub(super) why: MalformedWhy,
}

/// The result of scanning a text.
#[derive(Clone, Debug, Default)]
pub struct Scan {
    /// The first few elements.
    pub(super) elements: Vec<Element>,
    /// The number of all elements.
    pub(super) count: u64,
    /// The last markup that looked like a tag but is not a complete element.
    pub(super) fragment: Option<Fragment>,
    /// The last `<result>` or `<ask>`, and the unpaired tags that may belong to it.
    pub(super) payload: Option<Payload>,
}

/// Finds elements in a text that arrives in chunks of any size.
#[derive(Debug)]
pub struct Scanner {
    found: Scan,
    /// The most elements that are kept; further ones are only counted.
    kept_max: usize,
    /// The size of the opening tags that are kept.
    kept_bytes: u64,
    open: VecDeque<OpenTag>,
    /// The number of `open` tags of each kind, so that an unpaired closing tag needs no search.
    open_count: [usize; TagKind::ALL.len()],
    /// The unprocessed end of the input, from a `<` that may still become a tag.
    pending: Vec<u8>,
    /// The number of bytes before `pending`.
    offset: u64,
    /// Whether the current line has only white space so far.
    is_line_blank: bool,
    /// Whether only white space has followed the last closing tag of a payload.
    may_end_line: bool,
}

impl Default for Scanner {
    fn default() -> Self {
        Self::keeping(ELEMENTS_KEPT_MAX)
    }
}

/// An opening tag that is not closed yet.
#[derive(Clone, Debug)]
pub(super) struct OpenTag {
    pub(super) kind: TagKind,
    pub(super) span: Span,
    pub(super) attributes: Result<Vec<Attribute>, MalformedWhy>,
    /// The number of elements that were complete when this one opened. Later ones are inside it.
    pub(super) elements_before: u64,
    /// Whether only white space precedes it on its line.
    pub(super) begins_line: bool,
}

impl Scanner {
    /// A scanner without input.
    pub fn new() -> Self {
        Self::default()
    }

    fn keeping(kept_max: usize) -> Self {
        Self {
            found: Scan::default(),
            kept_max,
            kept_bytes: 0,
            open: VecDeque::new(),
            open_count: [0; TagKind::ALL.len()],
            pending: Vec::new(),
            offset: 0,
            is_line_blank: true,
            may_end_line: false,
        }
    }

    /// Scans the next bytes of the text.
    pub fn push(&mut self, chunk: &[u8]) {
        if self.pending.is_empty() {
            let used = self.advance(chunk, false);
            self.pending.extend_from_slice(&chunk[used..]);
        } else {
            let mut bytes = std::mem::take(&mut self.pending);
            bytes.extend_from_slice(chunk);
            let used = self.advance(&bytes, false);
            bytes.drain(..used);
            self.pending = bytes;
        }
    }

    /// Ends the text and returns the result.
    pub fn finish(mut self) -> Scan {
        let bytes = std::mem::take(&mut self.pending);
        let used = self.advance(&bytes, true);
        debug_assert_eq!(used, bytes.len(), "nothing stays pending at the end");
        if let Some(&OpenTag { kind, span, .. }) = self.open.back() {
            let why = MalformedWhy::Unclosed;
            self.found.fragment = Some(Fragment { kind, span, why });
        }
        if self.may_end_line {
            self.ends_line();
        }
        if let Some(payload) = &mut self.found.payload {
            self.open.into_iter().for_each(|open| payload.left_open(open));
        }
        self.found
    }

    /// Skips text without tags.
    fn pass(&mut self, text: &[u8]) {
        let is_mark = |byte: &u8| *byte == b'\n' || !byte.is_ascii_whitespace();
        if self.may_end_line
            && let Some(mark) = text.iter().copied().find(is_mark)
        {
            self.may_end_line = false;
            if mark == b'\n' {
                self.ends_line();
            }
        }
        let (line, was_blank) = match memrchr(b'\n', text) {
            Some(newline) => (text.split_at(newline).1, true),
            None => (text, self.is_line_blank),
        };
        self.is_line_blank = was_blank && line.iter().all(u8::is_ascii_whitespace);
    }

    fn ends_line(&mut self) {
        if let Some(payload) = &mut self.found.payload {
            payload.ends_line();
        }
    }

    /// Consumes tokens from `bytes` and returns the number of bytes consumed.
    fn advance(&mut self, bytes: &[u8], is_last: bool) -> usize {
        let mut at = 0;
        while let Some(found) = memchr(b'<', &bytes[at..]) {
            let start = at + found;
            self.pass(&bytes[at..start]);
            let rest = &bytes[start..];
            let position = self.offset + start as u64;
            let span = |length: usize| Span::new(position, position + length as u64);
            let token = token(rest, is_last);
            if token == Token::Unfinished {
                self.offset += start as u64;
                return start;
            }
            let begins_line = std::mem::take(&mut self.is_line_blank);
            self.may_end_line = false;
            match token {
                Token::Foreign | Token::Unfinished => at = start + 1,
                Token::Opening { kind, length, attributes } => {
                    self.opened(kind, span(length), attributes, begins_line);
                    at = start + length;
                }
                Token::Closing { kind, length } => {
                    self.closed(kind, span(length));
                    at = start + length;
                }
                Token::Broken { kind, length, why } => {
                    self.found.fragment = Some(Fragment { kind, span: span(length), why });
                    at = start + length;
                }
            }
        }
        self.pass(&bytes[at..]);
        self.offset += bytes.len() as u64;
        bytes.len()
    }

    fn opened(
        &mut self,
        kind: TagKind,
        span: Span,
        attributes: Result<Vec<Attribute>, MalformedWhy>,
        begins_line: bool,
    ) {
        if self.open.len() == OPEN_MAX {
            self.give_up_one(kind);
        }
        let attributes = attributes.map(|attributes| shifted(attributes, span.start));
        self.open_count[kind as usize] += 1;
        let elements_before = self.found.count;
        self.open.push_back(OpenTag { kind, span, attributes, elements_before, begins_line });
    }

    /// Makes room by dropping the outermost tag of the same kind. It counts as a mention, because the
    /// inner tags of its kind would be closed first. Tags of other kinds may still be closed, and so
    /// may a payload that starts a line.
    fn give_up_one(&mut self, kind: TagKind) {
        let is_mention =
            |open: &OpenTag| open.kind == kind && (open.kind.has_target() || !open.begins_line);
        let outermost = self.open.iter().position(is_mention).unwrap_or(0);
        if let Some(open) = self.open.remove(outermost) {
            self.open_count[open.kind as usize] -= 1;
        }
    }

    fn closed(&mut self, kind: TagKind, span: Span) {
        if self.open_count[kind as usize] == 0 {
            let why = MalformedWhy::Unopened;
            self.found.fragment = Some(Fragment { kind, span, why });
            if let Some(payload) = self.found.payload.as_mut().filter(|p| p.kind() == kind) {
                payload.closed_again(span, self.found.count);
                self.may_end_line = true;
            }
            return;
        }
        while let Some(open) = self.open.pop_back() {
            self.open_count[open.kind as usize] -= 1;
            if open.kind == kind {
                self.complete(open, span);
                return;
            }
        }
    }

    /// Adds an element, and removes those inside it.
    fn complete(&mut self, open: OpenTag, closing: Span) {
        let before = usize::try_from(open.elements_before).unwrap_or(usize::MAX);
        let inside = before.min(self.found.elements.len())..;
        let inside = self.found.elements.drain(inside);
        self.kept_bytes -= inside.map(|element| element.opening_bytes()).sum::<u64>();
        self.found.count = open.elements_before + 1;
        let outside = |payload: Payload| payload.outside_of(open.span.start);
        self.found.payload = self.found.payload.take().and_then(outside);
        // With one of another kind before it there are several tags, unless that one ends after this one.
        let is_first = self.found.payload.as_ref().is_none_or(|p| p.kind() == open.kind);
        if !open.kind.has_target() && is_first {
            let previous = self.found.payload.as_ref();
            let payload = Payload::new(&open, closing, self.found.count, previous);
            self.found.payload = Some(payload);
            self.may_end_line = true;
        }
        let is_next = self.found.elements.len() as u64 == open.elements_before;
        let element = Element {
            kind: open.kind,
            span: Span::new(open.span.start, closing.end),
            content: Span::new(open.span.end, closing.start),
            attributes: open.attributes,
        };
        if is_next && (self.found.elements.len() < self.kept_max || self.is_another_fork(&element))
        {
            self.kept_bytes += element.opening_bytes();
            self.found.elements.push(element);
        }
    }

    /// Whether `element` is a fork after nothing but forks, and there is room for it.
    fn is_another_fork(&self, element: &Element) -> bool {
        let kept = &self.found.elements;
        let is_fork = |element: &Element| element.kind == TagKind::Fork;
        is_fork(element)
            && kept.len() < FORKS_MAX
            && self.kept_bytes + element.opening_bytes() <= FORKS_BYTES_MAX
            // Beyond the first few, only forks are kept.
            && kept.iter().take(self.kept_max).all(is_fork)
    }
}

/// All elements of a text, without a limit: a prompt may show every tag that its agent can answer with.
pub fn mentions(text: &str) -> Vec<Element> {
    Scan::with(Scanner::keeping(usize::MAX), text).elements
}

impl Scan {
    /// Finds the elements of a complete text.
    pub fn of(text: &str) -> Self {
        Self::with(Scanner::new(), text)
    }

    fn with(mut scanner: Scanner, text: &str) -> Self {
        let used = scanner.advance(text.as_bytes(), true);
        debug_assert_eq!(used, text.len(), "nothing stays pending at the end");
        scanner.finish()
    }
}

fn shifted(mut attributes: Vec<Attribute>, offset: u64) -> Vec<Attribute> {
    for attribute in &mut attributes {
        attribute.name.span = attribute.name.span.shifted(offset);
        attribute.value.span = attribute.value.span.shifted(offset);
    }
    attributes
}
