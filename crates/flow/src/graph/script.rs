//! Tags in the source of a script, found without understanding the shell.
//!
//! The text is changed, byte for byte, into one that the tag scanner reads: comments become space, and
//! so do the marks that a shell needs before quotes and brackets (`\"`, `^<`). Places stay what they
//! are.

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
        if is_comment(line, platform) {
            text.extend(line.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        } else {
            push_unquoted(line, platform, &mut text);
        }
    }
    text
}

fn is_comment(line: &str, platform: Platform) -> bool {
    let line = line.trim_start();
    match platform {
        Platform::Unix => line.starts_with('#'),
        Platform::Windows => {
            let word = line.trim_start_matches('@').split_whitespace().next().unwrap_or_default();
            line.starts_with("::") || word.eq_ignore_ascii_case("rem")
        }
    }
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
