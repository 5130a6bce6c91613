//! Where the payload of a `<result>` begins and ends if the tag's own name occurs in it or beside it.
//!
//! A payload is free text, and it may well be about this very protocol. As long as its opening and
//! closing tags pair up, the pairs tell. If one is left over, it is either a mention in the payload or
//! one in the prose around it, and to guess would lose a part of the payload or add prose to it. So
//! lines decide: the payload begins at the only opening tag that begins a line, and ends at the last
//! closing tag if only that one ends a line. If that tells nothing, the answer is refused.

use crate::text::Span;

use super::scan::{Element, OPEN_MAX, Open, Scan};
use super::{TagError, TagKind};

/// The last complete `<result>` that lies in no other element, and the closing tags after it that
/// closed nothing.
#[derive(Clone, Debug)]
pub(super) struct Payload {
    open: Open,
    /// Opening tags before it that nothing closed.
    openings: Vec<Open>,
    /// Its own closing tag and those after it, [`OPEN_MAX`] at most.
    closings: Vec<Closing>,
    /// More closing tags than were kept: nobody can say which one was meant.
    has_too_many: bool,
    /// Another complete `<result>` stands beside it, so there are several tags in any case.
    is_one_of_several: bool,
}

#[derive(Clone, Copy, Debug)]
struct Closing {
    span: Span,
    /// How many elements were complete at this place.
    elements: u64,
    ends_line: bool,
}

impl Payload {
    /// A `<result>` is complete; `previous` is the one before it. `elements` counts it, too.
    pub(super) fn new(open: &Open, closing: Span, elements: u64, previous: Option<&Self>) -> Self {
        Self {
            open: open.clone(),
            openings: Vec::new(),
            closings: vec![Closing { span: closing, elements, ends_line: false }],
            has_too_many: false,
            is_one_of_several: previous.is_some(),
        }
    }

    /// Another closing tag, which closes nothing.
    pub(super) fn closed_again(&mut self, span: Span, elements: u64) {
        if self.closings.len() == OPEN_MAX {
            self.has_too_many = true;
        } else {
            self.closings.push(Closing { span, elements, ends_line: false });
        }
    }

    /// After the last closing tag there is nothing more on its line.
    pub(super) fn ends_line(&mut self) {
        if let Some(last) = self.closings.last_mut() {
            last.ends_line = true;
        }
    }

    /// An element that starts at `start` is complete. What lies inside it is its content: `None` if
    /// that is all of this.
    pub(super) fn outside_of(mut self, start: u64) -> Option<Self> {
        self.closings.retain(|closing| closing.span.start < start);
        (self.open.span.start < start).then_some(self)
    }

    /// The text is over, and nothing has closed `open`.
    pub(super) fn left_open(&mut self, open: Open) {
        if open.kind == TagKind::Result && open.span.start < self.open.span.start {
            self.openings.push(open);
        }
    }

    /// Gives the `<result>` of `scan` the right ends, and forgets what lies between them.
    pub(super) fn settle(self, scan: &mut Scan) -> Result<(), TagError> {
        let Self { open, mut openings, closings, has_too_many, is_one_of_several } = self;
        openings.push(open);
        let is_paired = openings.len() == 1 && closings.len() == 1;
        if is_paired || is_one_of_several {
            return Ok(());
        }
        let ambiguous = TagError::AmbiguousResult {
            openings: openings.len(),
            closings: closings.len(),
            span: Span::new(
                openings.first().map_or(0, |open| open.span.start),
                closings.last().map_or(0, |closing| closing.span.end),
            ),
        };
        let begin = only(openings, |open| open.begins_line);
        // What follows the last closing tag is no payload; what follows an earlier one may be.
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
                kind: TagKind::Result,
                span: Span::new(begin.span.start, end.span.end),
                content: Span::new(begin.span.end, end.span.start),
                attributes: begin.attributes,
            });
            scan.elements.extend(after);
        }
        Ok(())
    }
}

/// The only one, or else the only one of which `is_chosen` holds.
fn only<T>(all: Vec<T>, is_chosen: impl Fn(&T) -> bool) -> Option<T> {
    let is_alone = all.len() == 1;
    let mut chosen = all.into_iter().filter(|one| is_alone || is_chosen(one));
    let first = chosen.next();
    if chosen.next().is_some() { None } else { first }
}
