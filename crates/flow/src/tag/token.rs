//! Reads one opening or closing tag of the protocol from bytes.
//!
//! It works on bytes because scripts may print anything. Every delimiter is ASCII, so a cut at
//! a delimiter is always between characters.

use memchr::{memchr, memchr2};

use crate::text::{Span, Spanned};

use super::{MalformedWhy, TagKind};

/// The longest opening tag, including its attributes. A longer value belongs into a file; the limit
/// bounds how far an unclosed quote can make the scanner look.
pub const OPENING_BYTES_MAX: usize = 64 * 1024;

/// One `name="value"` of an opening tag.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    /// The name as written.
    pub name: Spanned<String>,
    /// The value between the quotes, verbatim: there are no escapes.
    pub value: Spanned<String>,
}

/// What a `<` begins.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// `<name …>`, with its attributes or the error in them.
    Opening { kind: TagKind, length: usize, attributes: Result<Vec<Attribute>, MalformedWhy> },
    /// `</name>`
    Closing { kind: TagKind, length: usize },
    /// Begins like a tag of the protocol but is not one. `length` is the number of bytes to skip.
    Broken { kind: TagKind, length: usize, why: MalformedWhy },
    /// Not a tag of the protocol.
    Foreign,
    /// More bytes are needed to tell.
    Unfinished,
}

/// Reads the token at the start of `bytes`, which begins with `<`.
///
/// `is_last` says that no more bytes follow. Spans count from the `<`.
pub(super) fn token(bytes: &[u8], is_last: bool) -> Token {
    debug_assert_eq!(bytes.first(), Some(&b'<'), "a token starts at an angle bracket");
    let is_closing = bytes.get(1) == Some(&b'/');
    let name_start = if is_closing { 2 } else { 1 };
    let Some((kind, after_name)) = name(bytes, name_start) else {
        let may_become_one = !is_last && could_begin_a_name(bytes, name_start);
        return if may_become_one { Token::Unfinished } else { Token::Foreign };
    };
    let window = &bytes[..bytes.len().min(OPENING_BYTES_MAX)];
    let read = match bytes.get(after_name) {
        None => TagRest::Unfinished,
        Some(byte) if !ends_a_name(*byte) => return Token::Foreign,
        Some(_) if is_closing => closing(window, after_name),
        Some(_) => opening(window, after_name),
    };
    match read {
        TagRest::Closed { length } => Token::Closing { kind, length },
        TagRest::Opened { length, attributes } => Token::Opening { kind, length, attributes },
        TagRest::Broken { length, why } => Token::Broken { kind, length, why },
        TagRest::Unfinished if bytes.len() >= OPENING_BYTES_MAX => {
            Token::Broken { kind, length: after_name, why: MalformedWhy::OpeningTooLong }
        }
        TagRest::Unfinished if is_last => {
            Token::Broken { kind, length: after_name, why: MalformedWhy::Unclosed }
        }
        TagRest::Unfinished => Token::Unfinished,
    }
}

/// The result of reading the text after a name.
enum TagRest {
    Closed { length: usize },
    Opened { length: usize, attributes: Result<Vec<Attribute>, MalformedWhy> },
    Broken { length: usize, why: MalformedWhy },
    Unfinished,
}

fn name(bytes: &[u8], start: usize) -> Option<(TagKind, usize)> {
    let rest = bytes.get(start..)?;
    let kind = TagKind::ALL.into_iter().find(|kind| rest.starts_with(kind.name().as_bytes()))?;
    Some((kind, start + kind.name().len()))
}

/// Whether more bytes could still complete this to a name of the protocol.
fn could_begin_a_name(bytes: &[u8], start: usize) -> bool {
    let rest = bytes.get(start..).unwrap_or_default();
    TagKind::ALL.into_iter().any(|kind| kind.name().as_bytes().starts_with(rest))
}

fn ends_a_name(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == b'>' || byte == b'/' || byte == b'<'
}

fn closing(bytes: &[u8], after_name: usize) -> TagRest {
    let end = skip_whitespace(bytes, after_name);
    match bytes.get(end) {
        Some(b'>') => TagRest::Closed { length: end + 1 },
        Some(_) => TagRest::Broken { length: after_name, why: MalformedWhy::Closing },
        None => TagRest::Unfinished,
    }
}

fn opening(bytes: &[u8], after_name: usize) -> TagRest {
    let mut attributes = Vec::new();
    let mut at = after_name;
    loop {
        let start = skip_whitespace(bytes, at);
        match bytes.get(start) {
            None => return TagRest::Unfinished,
            Some(b'>') => {
                return TagRest::Opened { length: start + 1, attributes: Ok(attributes) };
            }
            Some(b'/') if bytes.get(start + 1).is_none() => return TagRest::Unfinished,
            Some(b'/') if bytes.get(start + 1) == Some(&b'>') => {
                return TagRest::Broken { length: start + 2, why: MalformedWhy::SelfClosing };
            }
            Some(_) if start == at => return bad_attributes(bytes, after_name),
            Some(_) => {}
        }
        match attribute(bytes, start) {
            AttributeRead::Complete(attribute, end) => {
                attributes.push(attribute);
                at = end;
            }
            AttributeRead::Bad => return bad_attributes(bytes, after_name),
            AttributeRead::Unfinished => return TagRest::Unfinished,
        }
    }
}

/// An opening tag whose attributes cannot be parsed still opens an element if its `>` comes before
/// any other bracket, so that it is reported as a tag and not ignored. Quotes are ignored here, because
/// a stray quote would hide everything after it.
fn bad_attributes(bytes: &[u8], after_name: usize) -> TagRest {
    let why = MalformedWhy::Attribute;
    match memchr2(b'<', b'>', &bytes[after_name..]) {
        None => TagRest::Unfinished,
        Some(found) if bytes[after_name + found] == b'>' => {
            TagRest::Opened { length: after_name + found + 1, attributes: Err(why) }
        }
        Some(_) => TagRest::Broken { length: after_name, why },
    }
}

enum AttributeRead {
    Complete(Attribute, usize),
    Bad,
    Unfinished,
}

/// Parses `name="value"` at `start`. The value may contain the other kind of quote.
fn attribute(bytes: &[u8], start: usize) -> AttributeRead {
    let is_name_byte =
        |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
    let name_end = start + bytes[start..].iter().take_while(|byte| is_name_byte(byte)).count();
    if name_end == start {
        return AttributeRead::Bad;
    }
    let equals = skip_whitespace(bytes, name_end);
    match bytes.get(equals) {
        None => return AttributeRead::Unfinished,
        Some(b'=') => {}
        Some(_) => return AttributeRead::Bad,
    }
    let quote_at = skip_whitespace(bytes, equals + 1);
    let quote = match bytes.get(quote_at) {
        None => return AttributeRead::Unfinished,
        Some(&quote @ (b'"' | b'\'')) => quote,
        Some(_) => return AttributeRead::Bad,
    };
    let value_start = quote_at + 1;
    let Some(length) = memchr(quote, &bytes[value_start..]) else {
        return AttributeRead::Unfinished;
    };
    let value_end = value_start + length;
    let attribute = Attribute {
        name: piece(bytes, start, name_end),
        value: piece(bytes, value_start, value_end),
    };
    AttributeRead::Complete(attribute, value_end + 1)
}

fn piece(bytes: &[u8], start: usize, end: usize) -> Spanned<String> {
    let text = String::from_utf8_lossy(&bytes[start..end]).into_owned();
    Spanned::new(text, Span::new(start as u64, end as u64))
}

fn skip_whitespace(bytes: &[u8], from: usize) -> usize {
    from + bytes[from..].iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}
