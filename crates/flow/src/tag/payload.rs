//! Finds the payload of a `<result>` or `<ask>` if such tags also occur in the payload or in the prose around it.
//!
//! A payload is free text, and it may be about this protocol. As long as opening and closing tags pair
//! up, the pairs determine the payload. An unpaired tag is a mention, either in the payload or in the
//! prose around it, and a wrong guess would lose a part of the payload or add prose to it. So line
//! positions decide: the payload begins at the only opening tag that starts a line, and ends at the
//! last closing tag if only that one ends a line. If that is ambiguous, the answer is rejected.

use crate::text::Span;

use super::scan::{Element, OPEN_MAX, OpenTag, Scan};
use super::{TagError, TagKind};

/// The last complete `<result>` or `<ask>` that is not inside another element, and the unpaired closing
/// tags of its name after it.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    open: OpenTag,
    /// Unpaired opening tags before it.
    openings: Vec<OpenTag>,
    /// Its own closing tag and those after it, at most [`OPEN_MAX`].
    closings: Vec<ClosingTag>,
    /// There were more closing tags than are kept, so the end of the payload is ambiguous.
    has_too_many: bool,
    /// There is another complete one before it, so there are several tags in any case.
    is_one_of_several: bool,
}

#[derive(Clone, Copy, Debug)]
struct ClosingTag {
    span: Span,
    /// The number of elements that were complete at this point.
    elements: u64,
    ends_line: bool,
}

impl Payload {
    /// Created when an element with a payload is complete. `previous` is the one before it; `elements` includes it.
    pub(super) fn new(
        open: &OpenTag,
        closing: Span,
        elements: u64,
        previous: Option<&Self>,
    ) -> Self {
        Self {
            open: open.clone(),
            openings: Vec::new(),
            closings: vec![ClosingTag { span: closing, elements, ends_line: false }],
            has_too_many: false,
            is_one_of_several: previous.is_some(),
        }
    }

    /// Which tag it is.
    pub(super) fn kind(&self) -> TagKind {
        self.open.kind
    }

    /// Adds an unpaired closing tag.
    pub(super) fn closed_again(&mut self, span: Span, elements: u64) {
        if self.closings.len() == OPEN_MAX {
            self.has_too_many = true;
        } else {
            self.closings.push(ClosingTag { span, elements, ends_line: false });
        }
    }

    /// Notes that only white space follows the last closing tag on its line.
    pub(super) fn ends_line(&mut self) {
        if let Some(last) = self.closings.last_mut() {
            last.ends_line = true;
        }
    }

    /// Called when an element that starts at `start` is complete. Whatever is inside it is its content:
    /// returns `None` if that is all of `self`.
    pub(super) fn outside_of(mut self, start: u64) -> Option<Self> {
        self.closings.retain(|closing| closing.span.start < start);
        (self.open.span.start < start).then_some(self)
    }

    /// Called at the end of the text, with the opening tags that were never closed.
    pub(super) fn left_open(&mut self, open: OpenTag) {
        if open.kind == self.open.kind && open.span.start < self.open.span.start {
            self.openings.push(open);
        }
    }

    /// Sets the ends of the element in `scan`, and removes the elements between them.
    pub(super) fn settle(self, scan: &mut Scan) -> Result<(), TagError> {
        let Self { open, mut openings, closings, has_too_many, is_one_of_several } = self;
        let kind = open.kind;
        openings.push(open);
        let is_paired = openings.len() == 1 && closings.len() == 1;
        if is_paired || is_one_of_several {
            return Ok(());
        }
        let ambiguous = TagError::AmbiguousPayload {
            kind,
            openings: openings.len(),
            closings: closings.len(),
            span: Span::new(
                openings.first().map_or(0, |open| open.span.start),
                closings.last().map_or(0, |closing| closing.span.end),
            ),
        };
        let begin = only(openings, |open| open.begins_line);
        // Text after the last closing tag is not payload; text after an earlier one may be.
        let last = closings.last().map(|closing| closing.span);
        let end = only(closings, |closing| closing.ends_line).filter(|end| Some(end.span) == last);
        let (Some(begin), Some(end), false) = (begin, end, has_too_many) else {
            return Err(ambiguous);
        };
        let index = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        let after = scan.elements.split_off(index(end.elements).min(scan.elements.len()));
        scan.elements.truncate(index(begin.elements_before));
        scan.count = begin.elements_before + 1 + (scan.count - end.elements);
        if scan.elements.len() == index(begin.elements_before) {
            scan.elements.push(Element {
                kind,
                span: Span::new(begin.span.start, end.span.end),
                content: Span::new(begin.span.end, end.span.start),
                attributes: begin.attributes,
            });
            scan.elements.extend(after);
        }
        Ok(())
    }
}

/// The only item, or else the only item for which `is_chosen` holds.
fn only<T>(all: Vec<T>, is_chosen: impl Fn(&T) -> bool) -> Option<T> {
    let is_alone = all.len() == 1;
    let mut chosen = all.into_iter().filter(|one| is_alone || is_chosen(one));
    let first = chosen.next();
    if chosen.next().is_some() { None } else { first }
}
