//! The only access to standard output, standard error and the terminal.
//!
//! Text from models, scripts, file names and settings could control a terminal: set its title and clipboard,
//! clear it, hide or reverse text, or forge a line. Text for users is therefore printed with such characters
//! escaped. Data is printed unchanged unless standard output is a terminal. `clippy.toml` forbids every other
//! access, so no command can forget this.
//!
//! A closed pipe (`raymond status | head -1`) is not an error: the rest is not printed, and the exit code does
//! not change.

#![expect(clippy::disallowed_methods, reason = "this is the one place that prints")]

mod canvas;

use std::{
    borrow::Cow,
    fmt::Write as _,
    fs::File,
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write},
    path::Path,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use raymond_engine::sys::discard_input;
use serde_json::Value;

use crate::{
    failure::Failure,
    line::{Line, hang},
};
use canvas::Canvas;

/// Whether the reader of standard output still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputState {
    Open,
    /// The pipe is broken: printing more is of no use.
    Closed,
}

/// Whether a terminal interprets the character or does not show it: control characters (except for newlines and
/// tabs), bidirectional controls, zero-width characters, line and paragraph separators.
pub(crate) fn is_hidden(c: char) -> bool {
    matches!(c,
        '\0'..='\u{8}' | '\u{b}'..='\u{1f}' | '\u{7f}'..='\u{9f}' // C0, DEL, C1
        | '\u{ad}' | '\u{61c}' | '\u{180e}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' // tags: a whole text can be hidden in them
    )
}

/// `text` with every hidden character written as `\u{1b}`. Newlines and tabs stay, and `\r
/// ` counts as a
/// newline.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match c {
            '\r' if characters.peek() == Some(&'\n') => {}
            c if is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// The same for a text in which an escape could be confused with one that is written out: if there is any, its
/// backslashes are doubled.
pub(crate) fn distinct(text: &str) -> String {
    let is_ambiguous = text.contains(is_hidden) || text.contains("\\u{");
    if is_ambiguous { visible(&text.replace('\\', r"\\")).into_owned() } else { text.to_owned() }
}

/// The first `chars_max` characters of a text, with an ellipsis where it was cut.
pub(crate) fn clipped(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        Some((cut, _)) => Cow::Owned(format!("{}…", text.split_at(cut).0)),
        None => Cow::Borrowed(text),
    }
}

/// The same on one line: for names, and for a row of the live view.
pub(crate) fn one_line(text: &str) -> String {
    visible(text).replace('\n', "\\n").replace('\t', " ")
}

/// The same with every further line indented, so that it cannot be taken for a line of Raymond's.
pub(crate) fn hanging(text: &str) -> String {
    hang(visible(text).trim_end_matches('\n'))
}

/// JSON in which hidden characters are escaped. They occur only in strings, so the value is the same.
pub(crate) fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hidden(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(text, "\\u{unit:04x}");
            }
        } else {
            text.push(c);
        }
    }
    text
}

/// Prints text for users on standard output: escaped, even if it is not a terminal.
pub(crate) fn text(text: &str) -> Result<OutputState, Failure> {
    print(&visible(text))
}

/// Prints data on standard output: unchanged, unless it is a terminal.
pub(crate) fn data(text: &str) -> Result<OutputState, Failure> {
    if io::stdout().is_terminal() { print(&visible(text)) } else { print(text) }
}

/// Prints the path of a created file as a line of data.
pub(crate) fn path(path: &Path) -> Result<OutputState, Failure> {
    let text = path.to_string_lossy();
    let text = if io::stdout().is_terminal() { Cow::Owned(one_line(&text)) } else { text };
    print(&format!("{text}\n"))
}

fn print(text: &str) -> Result<OutputState, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(OutputState::Open),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(OutputState::Closed),
        Err(error) => Err(Failure::io("print", &error)),
    }
}

/// Prints text for users on standard error. If that fails, nothing can be done about it.
pub(crate) fn note(text: &str) {
    let _ = io::stderr().write_all(format!("{}\n", visible(text)).as_bytes());
}

/// A destination for lines for users.
#[derive(Debug)]
pub(crate) struct LineSink<W> {
    to: W,
    has_colour: bool,
    /// The width of the terminal, if it is one.
    columns: Option<usize>,
}

/// Lines on standard error.
pub(crate) fn people() -> LineSink<Terminal> {
    let is_terminal = io::stderr().is_terminal();
    let columns = is_terminal.then(|| Screen::size().1);
    LineSink { to: Terminal, has_colour: has_colour(is_terminal), columns }
}

/// Standard error, where a person may be typing an answer: text goes above the invitation to type, which is then
/// shown again. What is typed already stays in the terminal's buffer, but is not shown again.
#[derive(Debug)]
pub(crate) struct Terminal;

impl Write for Terminal {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let invitation = invitation();
        let mut terminal = io::stderr();
        if !invitation.is_empty() {
            terminal.write_all(if can_redraw() { b"\r\x1b[J" } else { b"\n" })?;
        }
        terminal.write_all(text)?;
        terminal.write_all(invitation.as_bytes())?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LineSink<File> {
    /// Lines in a file, which a user will read on a terminal.
    pub(crate) fn of_file(to: File) -> Self {
        Self { to, has_colour: false, columns: None }
    }
}

impl<W: Write> LineSink<W> {
    /// Writes a line. A closed terminal or a full disk does not stop the run.
    pub(crate) fn line(&mut self, line: &Line) {
        let text = rendered(line, self.has_colour, self.columns);
        let _ = self.to.write_all(text.as_bytes());
    }
}

/// Prints lines for users on standard output.
pub(crate) fn lines(lines: &[Line]) -> Result<OutputState, Failure> {
    let is_terminal = io::stdout().is_terminal();
    let columns = is_terminal.then(|| usize::from(console::Term::stdout().size().1));
    let has_colour = has_colour(is_terminal);
    let text: String = lines.iter().map(|line| rendered(line, has_colour, columns)).collect();
    print(&text)
}

/// A line as it is printed: broken between words if a terminal would break it.
fn rendered(line: &Line, has_colour: bool, columns: Option<usize>) -> String {
    match columns {
        Some(columns) => {
            line.wrapped(columns).iter().map(|line| line.render(has_colour) + "\n").collect()
        }
        None => line.render(has_colour) + "\n",
    }
}

/// Prints an event for programs, one line on standard output. A reader that closes the pipe does not end the
/// run.
pub(crate) fn event(event: &Value) {
    let line = format!("{}\n", escaped(&event.to_string()));
    let _ = io::stdout().write_all(line.as_bytes());
}

/// Whether standard output is a terminal.
pub(crate) fn shows_data() -> bool {
    io::stdout().is_terminal()
}

/// Whether the user can be asked: standard input and standard error are terminals.
pub(crate) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Whether a person is being asked on the terminal, so that nothing else may draw there.
static IS_PROMPTING: AtomicBool = AtomicBool::new(false);

/// Begins or ends to ask a person on the terminal.
pub(crate) fn prompt(is_prompting: bool) {
    IS_PROMPTING.store(is_prompting, Ordering::Release);
}

/// Whether a person is being asked on the terminal.
pub(crate) fn is_prompting() -> bool {
    IS_PROMPTING.load(Ordering::Acquire)
}

/// What invites a person to type a line, while it is on the screen; else empty.
static INVITATION: Mutex<String> = Mutex::new(String::new());

fn invitation() -> MutexGuard<'static, String> {
    INVITATION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Invites a person to type a line. What was typed before is none: it was typed for something else.
pub(crate) fn invite(text: &str) {
    discard_input();
    let mut invitation = invitation();
    *invitation = visible(text).into_owned();
    let _ = io::stderr().write_all(invitation.as_bytes());
}

/// Takes the invitation back: a line was typed, or none is wanted any more.
pub(crate) fn end_invitation() {
    invitation().clear();
}

/// Asks the user, who answers with a line that is typed after the question; `None` at the end of the input.
pub(crate) fn ask(question: &str) -> Option<String> {
    /// Longer than any answer.
    const ANSWER_BYTES_MAX: u64 = 4096;
    discard_input();
    let _ = io::stderr().write_all(visible(question).as_bytes());
    let mut answer = String::new();
    let mut input = io::stdin().lock().take(ANSWER_BYTES_MAX);
    match input.read_line(&mut answer) {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(answer.trim().to_owned()),
    }
}

/// Asks the user a question on the terminal that is answered with yes or no. Anything else is no.
pub(crate) fn is_agreed(question: &str) -> bool {
    ask(question).is_some_and(|answer| matches!(answer.to_lowercase().as_str(), "y" | "yes"))
}

/// The same, answered with one key.
pub(crate) fn is_agreed_with_a_key(question: &str) -> bool {
    discard_input();
    let _ = io::stderr().write_all(visible(question).as_bytes());
    let key = console::Term::stderr().read_key();
    let is_agreed = matches!(key, Ok(console::Key::Char('y' | 'Y')));
    let _ = io::stderr().write_all(if is_agreed { b"y\n" } else { b"n\n" });
    is_agreed
}

/// Whether the terminal of standard error can move its cursor, so that rows can be redrawn.
pub(crate) fn can_redraw() -> bool {
    io::stderr().is_terminal() && !is_dumb()
}

/// Whether the terminal does not support escape sequences. On Windows, the check turns them on.
fn is_dumb() -> bool {
    if cfg!(windows) {
        return !console::Term::stderr().features().colors_supported();
    }
    std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb")
}

/// Whether colours may be used.
fn has_colour(is_terminal: bool) -> bool {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    is_terminal && !is_refused && !is_dumb()
}

/// The live view: rows at the bottom of the terminal, and lines that scroll away above them.
#[derive(Debug)]
pub(crate) struct Screen {
    canvas: Canvas,
    has_colour: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self { canvas: Canvas::default(), has_colour: has_colour(true) }
    }

    /// The number of rows and columns.
    pub(crate) fn size() -> (usize, usize) {
        let (rows, columns) = console::Term::stderr().size();
        (usize::from(rows), usize::from(columns))
    }

    /// Prints `above` and draws `rows`, in one write.
    pub(crate) fn draw(&mut self, above: &[Line], rows: &[Line]) {
        let (_, columns) = Self::size();
        let frame = self.canvas.frame(above, rows, columns, self.has_colour);
        let _ = Terminal.write_all(frame.as_bytes());
    }
}

/// Sets the title of the terminal's window.
pub(crate) fn title(text: &str) {
    let _ = write!(io::stderr(), "\x1b]0;{}\x07", one_line(text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_control_or_hidden_character_is_escaped() {
        let hidden = (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| is_hidden(*c));
        let hidden: String = hidden.collect();
        assert_eq!(visible("a\u{1b}[2Jb\u{202e}c"), "a\\u{1b}[2Jb\\u{202e}c");
        assert!(visible(&hidden).chars().all(|c| c.is_ascii_graphic()));
        for c in (0..=0x10_ffff).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert_eq!(hidden.contains(c), !matches!(c, '\n' | '\t'), "{c:?}");
        }
    }

    #[test]
    fn other_characters_are_unchanged() {
        let text = "tab\there\nünï, 日本語, עברית, 👍🏽, e\u{301}";
        assert_eq!(visible(text), text);
        assert_eq!(visible("dos\r\nline\rx\u{1}"), "dos\nline\\u{d}x\\u{1}");
    }

    #[test]
    fn further_lines_cannot_be_taken_for_ours() {
        assert_eq!(hanging("a\n[main] b\n\n      c\u{1b}\n"), "a\n    [main] b\n\n      c\\u{1b}");
        assert_eq!(one_line("a\nb\tc\u{85}d"), "a\\nb c\\u{85}d");
    }

    #[test]
    fn distinct_texts_look_different() {
        let texts = ["no", "no\u{200b}", r"no\u{200b}", r"no\\u{200b}", "no\\\u{200b}", r"C:\x"];
        let shown: std::collections::BTreeSet<_> = texts.iter().map(|it| distinct(it)).collect();
        assert_eq!(shown.len(), texts.len(), "{shown:?}");
        assert!(shown.contains(r"C:\x") && shown.contains(r"no\u{200b}"));
    }

    #[test]
    fn escaped_json_means_the_same() {
        let value = Value::from("\u{1b}\u{7f}\u{9b}\u{202e}\u{e0041}\n\"é");
        let text = escaped(&value.to_string());
        assert!(!text.contains(is_hidden), "{text:?}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }
}
