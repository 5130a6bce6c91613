//! The rows at the bottom of the terminal that are redrawn for each frame.
//!
//! Every row ends with a line end and none is padded, so the cursor rests at the beginning of the line below.
//! There the next frame erases an echoed `^C`, and a terminal that becomes narrower wraps only what is really
//! longer than its new width. The number of lines that the rows take is computed again for each frame, from the
//! current width of the terminal.

use std::fmt::Write as _;

use crate::line::Line;

/// The rows on the screen.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    /// The number of columns of each row.
    widths: Vec<usize>,
}

impl Canvas {
    /// The text that prints `above` and replaces the rows on the screen by `rows`. The terminal has `columns`.
    pub(crate) fn frame(
        &mut self,
        above: &[Line],
        rows: &[Line],
        columns: usize,
        has_colour: bool,
    ) -> String {
        let columns = columns.max(1);
        let lines_of = |width: &usize| width.div_ceil(columns).max(1);
        let up: usize = self.widths.iter().map(lines_of).sum();
        // Synchronized output, where the terminal supports it; others ignore it.
        let mut frame = String::from("\u{1b}[?2026h\r");
        if up > 0 {
            let _ = write!(frame, "\u{1b}[{up}A");
        }
        frame.push_str("\u{1b}[J");
        for line in above.iter().flat_map(|line| line.wrapped(columns)) {
            frame.extend([&line.render(has_colour), "\n"]);
        }
        // One column stays free: terminals differ in whether a row that fills its line begins another.
        let rows: Vec<_> = rows.iter().map(|row| row.cut(columns - 1)).collect();
        for row in &rows {
            frame.extend([&row.render(has_colour), "\n"]);
        }
        self.widths = rows.iter().map(Line::width).collect();
        frame.push_str("\u{1b}[?2026l");
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_replaces_the_rows_of_the_one_before() {
        let mut canvas = Canvas::default();
        let rows = [Line::of("one"), Line::of("two")];
        let first = canvas.frame(&[], &rows, 80, false);
        assert!(first.contains("\u{1b}[Jone\ntwo\n"), "{first:?}");
        let second = canvas.frame(&[Line::of("news")], &rows, 80, false);
        assert!(second.contains("\r\u{1b}[2A\u{1b}[Jnews\none\ntwo\n"), "{second:?}");
        assert!(canvas.frame(&[], &[], 80, false).contains("\u{1b}[2A\u{1b}[J"));
        assert!(!canvas.frame(&[], &[], 80, false).contains('A'), "nothing is left to clear");
    }

    #[test]
    fn rows_that_a_narrower_terminal_wraps_are_all_replaced() {
        let mut canvas = Canvas::default();
        canvas.frame(&[], &[Line::of("x".repeat(90)), Line::of("short")], 100, false);
        let frame = canvas.frame(&[], &[Line::of("x".repeat(90))], 45, false);
        assert!(frame.contains("\u{1b}[3A"), "{frame:?}");
        assert!(frame.contains(&format!("{}…\n", "x".repeat(43))), "{frame:?}");
    }
}
