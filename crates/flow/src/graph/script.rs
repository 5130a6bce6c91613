//! Tags in the source of a script, found without understanding the shell.
//!
//! The text is changed, byte for byte, into one that the tag scanner reads: comments become space,
//! and so do the marks that a shell needs before quotes and brackets (`\"`, `^<`). Places stay
//! what they are.

use std::sync::LazyLock;

use regex::Regex;

use crate::{
    source::Platform,
    text::{Span, Spanned},
};

/// The source with everything blanked that hides a tag or only talks about one.
pub(super) fn unquoted(source: &str, platform: Platform) -> String {
    let mut text = String::with_capacity(source.len());
    for line in source.split_inclusive('\n') {
        let (code, comment) = line.split_at(comment_start(line, platform));
        push_unquoted(code, platform, &mut text);
        text.extend(comment.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
    }
    text
}

/// Where the comment of a line starts; its end, if it has none.
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

/// A `#` at the start of a word and outside of quotes, as far as one line tells.
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

/// `name=value` pairs of an opening tag that quotes in more ways than the protocol knows, because a
/// shell takes some of them away. `start` is where `opening` stands in its file.
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
    fn unquoted_keeps_every_place() {
        let source = "# <goto>A</goto>\necho \"<fork next=\\\"B\\\">C</fork>\"\n";
        let text = unquoted(source, Platform::Unix);
        assert_eq!(text.len(), source.len());
        assert_eq!(text, "                \necho \"<fork next= \"B \">C</fork>\"\n");
    }

    #[test]
    fn unquoted_takes_a_comment_from_the_end_of_a_line_but_not_from_a_string() {
        let blanked = |line: &str| unquoted(line, Platform::Unix).trim_end().to_owned();
        assert_eq!(blanked("make # <goto>A</goto>"), "make");
        for line in ["echo \"issue # <goto>A</goto>\"", "echo '# <goto>A</goto>'", "a=${x#<goto>}"]
        {
            assert_eq!(blanked(line), line);
        }
    }

    #[test]
    fn unquoted_reads_the_marks_of_cmd() {
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
