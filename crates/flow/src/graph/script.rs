//! Finds tags in the source of a script, without parsing the shell language.
//!
//! The source is converted, byte for byte, to a text for the tag scanner: comments become spaces,
//! and so do the escape characters of the shell before quotes and brackets (`\"`, `^<`). Positions do
//! not change.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    source::Platform,
    text::{Span, Spanned},
};

/// The source with comments and escape characters replaced by spaces.
pub(super) fn unquoted(source: &str, platform: Platform) -> String {
    let mut text = String::with_capacity(source.len());
    for line in source.split_inclusive('\n') {
        let (code, comment) = line.split_at(comment_start(line, platform));
        push_unquoted(code, platform, &mut text);
        text.extend(comment.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
    }
    text
}

/// The start of the comment in a line; the end of the line if it has none.
fn comment_start(line: &str, platform: Platform) -> usize {
    match platform {
        Platform::Unix => shell_comment(line).unwrap_or(line.len()),
        Platform::Windows => {
            let start = line.trim_start();
            let word = start.trim_start_matches('@').split_whitespace().next().unwrap_or_default();
            let is_comment = start.starts_with("::") || word.eq_ignore_ascii_case("rem");
            if is_comment { 0 } else { line.len() }
        }
    }
}

/// Finds a `#` at the start of a word and outside of quotes, considering only this line.
fn shell_comment(line: &str) -> Option<usize> {
    let mut quote = None;
    let mut before = ' ';
    for (at, c) in line.char_indices() {
        match (quote, c) {
            (None, '#') if before.is_whitespace() => return Some(at),
            (None, '"' | '\'') if before != '\\' => quote = Some(c),
            (Some('"'), '"') if before != '\\' => quote = None,
            (Some('\''), '\'') => quote = None,
            _ => {}
        }
        before = c;
    }
    None
}

fn push_unquoted(line: &str, platform: Platform, text: &mut String) {
    let (mark, marked): (char, &[char]) = match platform {
        Platform::Unix => ('\\', &['"', '<', '>']),
        Platform::Windows => ('^', &['<', '>', '"', '/']),
    };
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let is_mark = c == mark && chars.peek().is_some_and(|next| marked.contains(next));
        text.push(if is_mark { ' ' } else { c });
    }
}

/// The `name=value` pairs of an opening tag. Accepts more ways of quoting than the protocol, because
/// the shell removes some of the quotes. `start` is the position of `opening` in its file.
pub(super) fn loose_attributes(
    opening: &str,
    start: u64,
) -> Vec<(Spanned<String>, Spanned<String>)> {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        let pattern = r#"([A-Za-z_][\w.:-]*)\s*=[\s"']*([^"'\s>]*)"#;
        Regex::new(pattern).expect("the pattern is a constant")
    });
    let piece = |found: regex::Match<'_>| {
        let span = Span::new(start + found.start() as u64, start + found.end() as u64);
        Spanned::new(found.as_str().to_owned(), span)
    };
    PATTERN
        .captures_iter(opening)
        .filter_map(|found| Some((piece(found.get(1)?), piece(found.get(2)?))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_keeps_every_position() {
        let source = "# <goto>A</goto>\necho \"<fork next=\\\"B\\\">C</fork>\"\n";
        let text = unquoted(source, Platform::Unix);
        assert_eq!(text.len(), source.len());
        assert_eq!(text, "                \necho \"<fork next= \"B \">C</fork>\"\n");
    }

    #[test]
    fn unquoted_removes_a_comment_at_the_end_of_a_line_but_not_in_a_string() {
        let blanked = |line: &str| unquoted(line, Platform::Unix).trim_end().to_owned();
        assert_eq!(blanked("make # <goto>A</goto>"), "make");
        for line in ["echo \"issue # <goto>A</goto>\"", "echo '# <goto>A</goto>'", "a=${x#<goto>}"]
        {
            assert_eq!(blanked(line), line);
        }
    }

    #[test]
    fn unquoted_removes_the_escapes_of_cmd() {
        let source = "rem ^<goto^>A^</goto^>\r\necho ^<goto^>B^</goto^>\r\n";
        let text = unquoted(source, Platform::Windows);
        assert!(!text.contains('A'), "{text}");
        assert!(text.contains("<goto >B </goto >"), "{text}");
    }

    #[test]
    fn loose_attributes_are_read_through_the_quotes_of_a_shell() {
        let read = loose_attributes(r#"<fork next="X" item="'"$f"'">"#, 0);
        let read: Vec<_> = read.iter().map(|(n, v)| (n.value.as_str(), v.value.as_str())).collect();
        assert_eq!(read, [("next", "X"), ("item", "$f")]);
    }
}
