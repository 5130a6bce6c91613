//! Positions in source text: byte spans, and line and column for display.
//!
//! Every problem in a file or in an agent's message carries a [`Span`], so that the command line can
//! draw a caret under it. Spans count bytes; lines and columns are computed only for display.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A half-open range of bytes in some text.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct Span {
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

impl Span {
    /// The bytes from `start` up to `end`.
    pub fn new(start: u64, end: u64) -> Self {
        debug_assert!(start <= end, "a span never ends before it starts");
        Self { start, end }
    }

    /// The number of bytes.
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// Whether the span is empty.
    pub fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Adds `offset`: converts a span within a part to a span within the whole.
    #[must_use]
    pub fn shifted(self, offset: u64) -> Self {
        Self::new(self.start + offset, self.end + offset)
    }

    /// The span as indices into a slice; `None` if it does not fit into `usize`.
    pub fn range(self) -> Option<Range<usize>> {
        Some(usize::try_from(self.start).ok()?..usize::try_from(self.end).ok()?)
    }

    /// The text that the span covers, if it is within `text` and on character boundaries.
    pub fn slice(self, text: &str) -> Option<&str> {
        text.get(self.range()?)
    }
}

/// A value and its place in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spanned<T> {
    /// The value.
    pub value: T,
    /// Its place in the source.
    pub span: Span,
}

impl<T> Spanned<T> {
    /// `value`, found at `span`.
    pub fn new(value: T, span: Span) -> Self {
        Self { value, span }
    }
}

/// A position in a file as editors show it: both numbers start at 1, and columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The character within the line, from 1.
    pub column: u32,
}

impl Position {
    /// The position of byte `offset` of `text`. An offset past the end gives the end.
    pub fn of(text: &str, offset: u64) -> Self {
        let mut end = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let (before, _) = text.split_at(end);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let (earlier, line) = before.split_at(line_start);
        let newlines = memchr::memchr_iter(b'\n', earlier.as_bytes()).count();
        // A byte-order mark takes no column.
        let columns = line.chars().filter(|&c| c != '\u{feff}').count();
        Self {
            line: u32::try_from(newlines).map_or(u32::MAX, |n| n.saturating_add(1)),
            column: u32::try_from(columns).map_or(u32::MAX, |n| n.saturating_add(1)),
        }
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// The start of `text`, short enough for a message, with an ellipsis if it was cut.
pub fn excerpt(text: &str) -> String {
    /// Enough to recognise a tag, short enough for one line of a terminal.
    const EXCERPT_CHARS_MAX: usize = 80;
    beginning(text, EXCERPT_CHARS_MAX)
}

/// The first `chars_max` characters of `text` on one line, with an ellipsis if it was cut.
pub fn beginning(text: &str, chars_max: usize) -> String {
    let mut chars = text.chars();
    let mut short: String =
        chars.by_ref().take(chars_max).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

/// Whether a text is one line that is not blank.
pub(crate) fn is_word(text: &str) -> bool {
    let text = text.trim();
    !text.is_empty() && !text.contains(char::is_control)
}

/// Whether a program that gets `text` as an argument would parse it as an option. Values come
/// from files and models: `--model --dangerously-skip-permissions` must not become a flag.
pub fn looks_like_an_option(text: &str) -> bool {
    text.trim_start().starts_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_counts_lines_and_characters_from_one() {
        let text = "erste\nzweité x\n";
        assert_eq!(Position::of(text, 0), Position { line: 1, column: 1 });
        assert_eq!(Position::of(text, 6), Position { line: 2, column: 1 });
        // The accented letter takes two bytes but one column.
        assert_eq!(Position::of(text, 14), Position { line: 2, column: 8 });
        assert_eq!(Position::of(text, 9999), Position { line: 3, column: 1 });
    }

    #[test]
    fn position_inside_a_character_is_that_character() {
        assert_eq!(Position::of("é", 1), Position { line: 1, column: 1 });
    }

    #[test]
    fn excerpt_cuts_long_text_and_flattens_lines() {
        assert_eq!(excerpt("a\nb"), "a b");
        let long = excerpt(&"x".repeat(100));
        assert_eq!(long.chars().count(), 81);
        assert!(long.ends_with('…'));
    }
}
