//! A line for users: pieces of text, each with a style.
//!
//! Text from models, scripts and files is escaped when it is added, so no piece can control the terminal.
//! Colours are the sixteen of the terminal itself: they follow its theme, dark or light.

use std::fmt::Write as _;

use crate::out::visible;

/// The meaning of a piece of text, which decides its look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    /// Secondary: units, costs, paths.
    Dim,
    Bold,
    Good,
    Bad,
    Warning,
    /// The name of an agent or a command.
    Name,
}

impl Style {
    /// The parameters of its escape sequence.
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Dim => Some("2"),
            Self::Bold => Some("1"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Warning => Some("33"),
            Self::Name => Some("36"),
        }
    }
}

/// The indentation of further lines of a text, so that they cannot be taken for lines of Raymond's.
const INDENT: &str = "    ";

/// A terminal that is narrower is written to as if it had so many columns.
const COLUMNS_MIN: usize = 20;

/// A line. A text in it may have several lines; all but its first are indented when it is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pieces: Vec<(Style, String)>,
    /// What every further row begins with, if no word is kept whole.
    margin: Option<String>,
}

impl Line {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// A line of plain text.
    pub(crate) fn of(text: impl AsRef<str>) -> Self {
        Self::new().add(Style::Plain, text)
    }

    /// Adds a piece.
    #[must_use]
    pub(crate) fn add(mut self, style: Style, text: impl AsRef<str>) -> Self {
        if !text.as_ref().is_empty() {
            self.pieces.push((style, visible(text.as_ref()).into_owned()));
        }
        self
    }

    #[must_use]
    pub(crate) fn plain(self, text: impl AsRef<str>) -> Self {
        self.add(Style::Plain, text)
    }

    #[must_use]
    pub(crate) fn dim(self, text: impl AsRef<str>) -> Self {
        self.add(Style::Dim, text)
    }

    /// A line of what another one wrote: each of its rows has a mark that no line of Raymond's has there, however narrow the
    /// terminal is.
    pub(crate) fn quoted(indent: &str, text: &str) -> Self {
        Self::new().dim(margin(indent)).plain(text.replace('\t', "    ")).with_margin(indent)
    }

    /// The same, broken at the width of the terminal even within a command, with that mark before each further row.
    #[must_use]
    pub(crate) fn with_margin(mut self, indent: &str) -> Self {
        self.margin = Some(margin(indent));
        self
    }

    /// Adds all pieces of another line.
    #[must_use]
    pub(crate) fn then(mut self, other: Self) -> Self {
        self.margin = self.margin.or(other.margin);
        self.pieces.extend(other.pieces);
        self
    }

    /// Adds spaces up to `column`, so that what follows is aligned.
    #[must_use]
    pub(crate) fn pad(self, column: usize) -> Self {
        let width = self.width();
        self.plain(" ".repeat(column.saturating_sub(width)))
    }

    /// The number of columns.
    pub(crate) fn width(&self) -> usize {
        self.pieces.iter().map(|(_, text)| console::measure_text_width(text)).sum()
    }

    /// The same on one row of `columns`, with an ellipsis where it was cut.
    #[must_use]
    pub(crate) fn cut(&self, columns: usize) -> Self {
        let pieces = self
            .pieces
            .iter()
            .map(|(style, text)| (*style, text.replace('\n', "\\n").replace('\t', " ")));
        let whole = Self { pieces: pieces.collect(), margin: None };
        if whole.width() <= columns {
            return whole;
        }
        let mut room = columns.saturating_sub(1);
        let mut cut = Self::new();
        for (style, text) in whole.pieces {
            let kept = beginning(&text, room);
            room -= console::measure_text_width(kept);
            let is_cut = kept.len() < text.len();
            cut.pieces.push((style, kept.to_owned()));
            if is_cut {
                break;
            }
        }
        cut.pieces.push((Style::Dim, "…".to_owned()));
        cut
    }

    /// The same on as many lines of `columns` as it needs, broken between words. What can be pasted stays whole: a
    /// name, what is in backticks, and all that follows the word `raymond`.
    pub(crate) fn wrapped(&self, columns: usize) -> Vec<Self> {
        if let Some(margin) = &self.margin {
            return self.broken(margin, columns.max(COLUMNS_MIN));
        }
        let mut lines = Vec::new();
        for line in self.split_lines() {
            line.wrap_into(&mut lines, columns.max(COLUMNS_MIN));
        }
        lines
    }

    /// Its rows, none of which is wider than the terminal.
    fn broken(&self, margin: &str, columns: usize) -> Vec<Self> {
        let mut rows = Vec::new();
        let mut row = Self::new();
        for (style, text) in &self.pieces {
            for mut word in text.split_inclusive(' ') {
                let width = row.width() + console::measure_text_width(word.trim_end());
                if width > columns && row.width() > console::measure_text_width(margin) {
                    rows.push(std::mem::replace(&mut row, Self::new().dim(margin)));
                }
                loop {
                    let part = beginning(word, columns.saturating_sub(row.width()));
                    row.push(*style, part);
                    word = word.get(part.len()..).unwrap_or_default();
                    if word.is_empty() {
                        break;
                    }
                    rows.push(std::mem::replace(&mut row, Self::new().dim(margin)));
                }
            }
        }
        rows.push(row);
        rows
    }

    /// Each line of its texts as a line of its own, all but the first indented.
    fn split_lines(&self) -> Vec<Self> {
        let mut lines = vec![Self::new()];
        for (style, text) in &self.pieces {
            for (number, part) in hang(text).split('\n').enumerate() {
                if number > 0 {
                    lines.push(Self::new());
                }
                if let Some(last) = lines.last_mut().filter(|_| !part.is_empty()) {
                    last.pieces.push((*style, part.to_owned()));
                }
            }
        }
        lines
    }

    fn wrap_into(self, lines: &mut Vec<Self>, columns: usize) {
        let has_command =
            self.pieces.iter().any(|(_, text)| text.contains("raymond ") || text.contains('`'));
        if self.width() > columns && !has_command {
            let close = self.squeezed();
            if close.width() <= columns {
                lines.push(close);
                return;
            }
        }
        let mut line = Self::new();
        let mut word = Self::new();
        for (style, text) in self.pieces {
            // The number of backticks decides whether a space is within a command.
            let mut ticks = 0;
            let mut is_command = style == Style::Name;
            for part in text.split_inclusive(' ') {
                ticks += part.matches('`').count();
                is_command |= part == "raymond ";
                let may_break = !is_command && ticks.is_multiple_of(2);
                word.pieces.push((style, part.to_owned()));
                if part.ends_with(' ') && may_break {
                    line.put(std::mem::take(&mut word), lines, columns);
                }
            }
        }
        line.put(word, lines, columns);
        lines.push(line);
    }

    /// The same with at most two spaces between words: a row of a table whose columns are not aligned.
    fn squeezed(&self) -> Self {
        // The number of spaces since the last word.
        let mut gap = None;
        let mut close = Self::new();
        for (style, text) in &self.pieces {
            let mut kept = String::new();
            for c in text.chars() {
                gap = if c == ' ' { gap.map(|gap: usize| gap + 1) } else { Some(0) };
                if *style == Style::Name || gap.is_none_or(|gap| gap <= 2) {
                    kept.push(c);
                }
            }
            close.pieces.push((*style, kept));
        }
        close
    }

    /// Adds a word, on a new line if this one has no room for it.
    fn put(&mut self, word: Self, lines: &mut Vec<Self>, columns: usize) {
        let spaces = word.pieces.last().map_or(0, |(_, last)| last.len() - last.trim_end().len());
        let width = word.width() - spaces;
        if width > 0 && self.width() > INDENT.len() && self.width() + width > columns {
            lines.push(std::mem::replace(self, Self::of(INDENT)));
        }
        for (style, text) in word.pieces {
            self.push(style, &text);
        }
    }

    /// Adds what was escaped already.
    fn push(&mut self, style: Style, text: &str) {
        match self.pieces.last_mut() {
            Some((last, known)) if *last == style => known.push_str(text),
            _ => self.pieces.push((style, text.to_owned())),
        }
    }

    /// The text to print, without a line end.
    pub(crate) fn render(&self, has_colour: bool) -> String {
        let mut shown = String::new();
        for (number, (style, text)) in self.pieces.iter().enumerate() {
            let is_last = number + 1 == self.pieces.len();
            // A row with trailing spaces wraps when its terminal becomes narrower.
            let text = hang(if is_last { text.trim_end_matches(' ') } else { text });
            match style.code().filter(|_| has_colour && !text.is_empty()) {
                Some(code) => {
                    let _ = write!(shown, "\u{1b}[{code}m{text}\u{1b}[0m");
                }
                None => shown.push_str(&text),
            }
        }
        shown
    }
}

/// The mark of what another one wrote.
fn margin(indent: &str) -> String {
    format!("{indent}│ ")
}

/// The longest prefix of `text` that takes at most `columns`.
fn beginning(text: &str, columns: usize) -> &str {
    let mut room = columns;
    for (index, c) in text.char_indices() {
        match room.checked_sub(console::measure_text_width(c.encode_utf8(&mut [0; 4]))) {
            Some(left) => room = left,
            None => return text.get(..index).unwrap_or_default(),
        }
    }
    text
}

/// `text` with every further line indented.
pub(crate) fn hang(text: &str) -> String {
    let mut lines = text.split('\n');
    let mut hung = lines.next().unwrap_or_default().to_owned();
    for line in lines {
        let indent = if line.is_empty() || line.starts_with(INDENT) { "" } else { INDENT };
        hung.extend(["\n", indent, line]);
    }
    hung
}

/// `text` on one line, shortened for display.
pub(crate) fn excerpt(text: &str) -> String {
    const EXCERPT_CHARS_MAX: usize = 80;
    let shown = visible(text.trim());
    let mut characters = shown.chars();
    let short: String = characters.by_ref().take(EXCERPT_CHARS_MAX).collect();
    let end = if characters.next().is_some() { "…" } else { "" };
    format!("{}{end}", short.replace('\n', "\\n").replace('\t', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_comes_only_from_the_style_of_a_piece() {
        let line = Line::of("a ").add(Style::Bad, "b\u{1b}[2J");
        assert_eq!(line.render(false), "a b\\u{1b}[2J");
        assert_eq!(line.render(true), "a \u{1b}[31mb\\u{1b}[2J\u{1b}[0m");
    }

    #[test]
    fn cut_line_fits_whatever_its_characters_are() {
        for columns in 1..40 {
            for text in
                ["abcdefghijklmnopqrstuvwxyz", "日本語の文字は幅が二倍です", "👍🏽 e\u{301}x y z"]
            {
                let line = Line::of("12 ").add(Style::Good, text).cut(columns);
                assert!(line.width() <= columns, "{columns}: {:?}", line.render(false));
            }
        }
        assert_eq!(Line::of("a\nb").cut(9).render(false), "a\\nb");
        assert_eq!(Line::of("abcdef").cut(4).render(false), "abc…");
    }

    #[test]
    fn wrapped_line_breaks_between_words_and_never_in_a_command() {
        let of = |line: &Line, columns| -> Vec<String> {
            line.wrapped(columns).iter().map(|line| line.render(false)).collect()
        };
        let line = Line::of("one two three ").add(Style::Bold, "four five").plain(" six");
        assert_eq!(of(&line, 20), ["one two three four", "    five six"]);
        assert_eq!(of(&line, 80), ["one two three four five six"]);
        let line = Line::of("to do that again: raymond start 'a long name' --input x");
        assert_eq!(
            of(&line, 24),
            ["to do that again:", "    raymond start 'a long name' --input x"]
        );
        let line = Line::of("allow it with `claude /login` first").plain("\n  further");
        assert_eq!(
            of(&line, 20),
            ["allow it with", "    `claude /login`", "    first", "      further"]
        );
        let row = Line::of("  a name").pad(20).plain("1  ").dim("    2");
        assert_eq!(of(&row, 20), ["  a name  1  2"]);
        assert_eq!(of(&row, 40), ["  a name            1      2"]);
        let line = Line::of("a wide line with `two   spaces`    and more");
        assert_eq!(of(&line, 30), ["a wide line with", "    `two   spaces`    and more"]);
        let line = Line::of("Resume: ").add(Style::Name, "raymond resume demo-1 --x");
        assert_eq!(of(&line, 20), ["Resume:", "    raymond resume demo-1 --x"]);
        for columns in 20..60 {
            let long = Line::of("x".repeat(30)).plain(" ").add(Style::Dim, "y z ".repeat(20));
            let shown = of(&long, columns).join(" ");
            assert_eq!(shown.matches('y').count(), 20, "{shown}");
        }
    }

    #[test]
    fn every_row_of_a_quotation_has_its_mark() {
        let command = format!("yes{}Answer it: raymond answer r main.1 no", " ".repeat(40));
        let texts = [
            &*command,
            "`raymond x y z` and more words",
            &"x".repeat(99),
            "",
            "日本語の文字は幅が二倍です",
        ];
        for text in texts {
            for columns in 20..70 {
                let rows = Line::quoted("    ", text).wrapped(columns);
                assert!(rows.iter().all(|row| row.width() <= columns), "{columns}: {rows:?}");
                for row in &rows {
                    assert!(row.render(false).starts_with("    │"), "{columns}: {row:?}");
                    assert!(row.render(true).starts_with("\u{1b}[2m    │"), "{columns}: {row:?}");
                }
            }
        }
        let asks = Line::of("what it says").with_margin("    ");
        let rows = Line::of("  main  asks: ").then(asks).wrapped(20);
        assert_eq!(rows.last().map(|row| row.render(false)).as_deref(), Some("    │ it says"));
        let line = Line::quoted("  ", "one two three four five");
        let rows: Vec<_> = line.wrapped(20).iter().map(|row| row.render(false)).collect();
        assert_eq!(rows, ["  │ one two three", "  │ four five"]);
    }

    #[test]
    fn no_line_ends_in_spaces() {
        assert_eq!(Line::of("a").pad(9).render(true), "a");
        assert_eq!(Line::of("a").pad(3).plain("b").render(true), "a  b");
    }

    #[test]
    fn further_lines_of_a_text_are_indented() {
        let line = Line::of("x: ").add(Style::Dim, "a\nb\n\n     c");
        assert_eq!(line.render(false), "x: a\n    b\n\n     c");
    }

    #[test]
    fn excerpt_shows_control_characters_and_ends() {
        assert_eq!(excerpt("a\u{1b}b\nc"), "a\\u{1b}b\\nc");
        assert_eq!(excerpt(&"x".repeat(100)).chars().count(), 81);
    }
}
