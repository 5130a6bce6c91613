//! YAML as a tree of nodes with spans. The only file that uses the YAML parser.
//!
//! A tree instead of serde, because serde stops at the first problem and loses positions in nested
//! values, while an author wants all problems at once, each with its line and column. Scalars stay
//! text; the function for a key converts them.

use std::borrow::Cow;

use granit_parser::{Event, Parser, ScalarStyle, ScanError};

use crate::text::Span;

/// Deeper than any real frontmatter. Limits the recursion on hostile input.
const DEPTH_MAX: usize = 16;

/// One value of a YAML document.
#[derive(Debug, PartialEq, Eq)]
pub struct YamlNode {
    /// The value.
    pub value: YamlValue,
    /// Its place in the text.
    pub span: Span,
}

impl YamlNode {
    /// The node that these keys lead to, or the last one on the way that there is.
    pub(super) fn at(&self, path: &[String]) -> &Self {
        let Some((first, rest)) = path.split_first() else { return self };
        let YamlValue::Mapping(pairs) = &self.value else { return self };
        let is_it = |key: &Self| matches!(&key.value, YamlValue::Scalar(name) if name == first);
        pairs.iter().find(|(key, _)| is_it(key)).map_or(self, |(_, value)| value.at(rest))
    }
}

/// The kinds of values.
#[derive(Debug, PartialEq, Eq)]
pub enum YamlValue {
    /// `~`, `null` or empty.
    Null,
    /// Any other scalar, with quotes and escapes resolved.
    Scalar(String),
    /// A list.
    Sequence(Vec<YamlNode>),
    /// Pairs in the order written; keys may repeat.
    Mapping(Vec<(YamlNode, YamlNode)>),
}

/// Why a text is not supported YAML.
#[derive(Debug, PartialEq, Eq)]
pub struct YamlError {
    /// The place of the error.
    pub span: Span,
    /// The reason.
    pub message: String,
}

/// Parses the one document in `text`; `None` if it has only comments.
pub fn read(text: &str) -> Result<Option<YamlNode>, YamlError> {
    read_nested(text, DEPTH_MAX)
}

/// The same for a document that may be nested this deep.
#[expect(clippy::wildcard_enum_match_arm, reason = "the parser may gain kinds of events")]
pub fn read_nested(text: &str, depth_max: usize) -> Result<Option<YamlNode>, YamlError> {
    let mut reader = TreeReader { parser: Parser::new_from_str(text), text };
    let mut root = None;
    while let Some((event, span)) = reader.next()? {
        match event {
            Event::StreamStart | Event::DocumentStart(..) | Event::DocumentEnd => {}
            Event::StreamEnd => break,
            event => {
                if root.is_some() {
                    return Err(YamlError { span, message: "expected one document".to_owned() });
                }
                root = Some(reader.node(event, span, depth_max)?);
            }
        }
    }
    Ok(root.filter(|node| !(node.value == YamlValue::Null && node.span.is_empty())))
}

struct TreeReader<'a> {
    parser: Parser<'a, granit_parser::StrInput<'a>>,
    text: &'a str,
}

impl<'a> TreeReader<'a> {
    fn next(&mut self) -> Result<Option<(Event<'a>, Span)>, YamlError> {
        match self.parser.next_event() {
            None => Ok(None),
            Some(Err(error)) => Err(self.scan_error(&error)),
            Some(Ok((event, span))) => Ok(Some((event, self.span(span)))),
        }
    }

    fn span(&self, span: granit_parser::Span) -> Span {
        let range = span.byte_range().unwrap_or_default();
        // A block collection ends where the next token starts, which may be after the end of the text.
        let end = range.end.min(self.text.len());
        Span::new(range.start.min(end) as u64, end as u64)
    }

    fn scan_error(&self, error: &ScanError) -> YamlError {
        let at = error.marker().byte_offset().unwrap_or_default().min(self.text.len()) as u64;
        YamlError { span: Span::new(at, at), message: error.info() }
    }

    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser may gain kinds of events")]
    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<YamlNode, YamlError> {
        let refuse = |message: &str| Err(YamlError { span, message: message.to_owned() });
        if depth == 0 {
            return refuse("too deeply nested");
        }
        match event {
            Event::Scalar(text, style, ..) => Ok(YamlNode { value: scalar(text, style), span }),
            Event::SequenceStart(..) => self.sequence(span, depth),
            Event::MappingStart(..) => self.mapping(span, depth),
            Event::Alias(..) => refuse("aliases (`*name`) are not supported here"),
            _ => refuse("expected a value"),
        }
    }

    fn sequence(&mut self, start: Span, depth: usize) -> Result<YamlNode, YamlError> {
        let mut items = Vec::new();
        loop {
            let (event, span) = self.required(start)?;
            if event == Event::SequenceEnd {
                let span = joined(start, items.last().map(|item: &YamlNode| item.span), span);
                return Ok(YamlNode { value: YamlValue::Sequence(items), span });
            }
            items.push(self.node(event, span, depth - 1)?);
        }
    }

    fn mapping(&mut self, start: Span, depth: usize) -> Result<YamlNode, YamlError> {
        let mut pairs = Vec::new();
        loop {
            let (event, span) = self.required(start)?;
            if event == Event::MappingEnd {
                let last = pairs.last().map(|(_, value): &(YamlNode, YamlNode)| value.span);
                return Ok(YamlNode {
                    value: YamlValue::Mapping(pairs),
                    span: joined(start, last, span),
                });
            }
            let key = self.node(event, span, depth - 1)?;
            let (event, span) = self.required(start)?;
            pairs.push((key, self.node(event, span, depth - 1)?));
        }
    }

    fn required(&mut self, start: Span) -> Result<(Event<'a>, Span), YamlError> {
        self.next()?.ok_or_else(|| YamlError { span: start, message: "not complete".to_owned() })
    }
}

/// The span of a collection, to its closing bracket or, in block form, to its last item.
fn joined(start: Span, last_item: Option<Span>, end: Span) -> Span {
    let own_end =
        if end.is_empty() { last_item.map_or(start.end, |item| item.end) } else { end.end };
    Span::new(start.start, own_end.max(start.start))
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle) -> YamlValue {
    let is_null =
        style == ScalarStyle::Plain && matches!(&*text, "" | "~" | "null" | "Null" | "NULL");
    if is_null { YamlValue::Null } else { YamlValue::Scalar(text.into_owned()) }
}
