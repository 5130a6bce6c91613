//! Replaces `{{name}}` by its value, in one pass.
//!
//! One pass, because values come from models: a value that itself contains `{{name}}` is text and
//! never expanded again. An unknown name stays as it is and is reported.

use std::collections::{BTreeMap, BTreeSet};

use memchr::memmem;

use crate::text::{Span, Spanned};

/// The variables of one prompt.
///
/// Later layers win: the variables of the run, then those of the fork that started the agent, then
/// those that Raymond itself sets for this step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    values: BTreeMap<String, String>,
}

impl Variables {
    /// No variables.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets `name`, replacing any earlier value.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.values.insert(name.into(), value.into());
    }

    /// Sets all of `pairs`.
    pub fn layer(&mut self, pairs: &BTreeMap<String, String>) {
        self.values.extend(pairs.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }
}

/// A template with its variables filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The unknown names, each once, in the order of the text.
    pub unknown: Vec<String>,
}

/// Fills `variables` into `template`.
pub fn render(template: &str, variables: &Variables) -> Rendered {
    let mut text = String::with_capacity(template.len());
    let mut unknown: Vec<String> = Vec::new();
    let mut told = BTreeSet::new();
    let mut rest = template;
    while let Some(start) = memmem::find(rest.as_bytes(), b"{{") {
        let (before, from_braces) = rest.split_at(start);
        text.push_str(before);
        if let Some((name, length)) = placeholder(from_braces) {
            let (whole, after) = from_braces.split_at(length);
            if let Some(value) = variables.get(name) {
                text.push_str(value);
            } else {
                text.push_str(whole);
                if told.insert(name) {
                    unknown.push(name.to_owned());
                }
            }
            rest = after;
        } else {
            // Skip only one brace: in `{{{name}}` the last two open the placeholder.
            let (brace, after) = from_braces.split_at(1);
            text.push_str(brace);
            rest = after;
        }
    }
    text.push_str(rest);
    Rendered { text, unknown }
}

/// The names between braces in `template`, with their places.
pub fn placeholders(template: &str) -> Vec<Spanned<String>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = memmem::find(template.as_bytes().split_at(at).1, b"{{") {
        let start = at + start;
        match template.get(start..).and_then(placeholder) {
            Some((name, length)) => {
                let span = Span::new(start as u64, (start + length) as u64);
                found.push(Spanned::new(name.to_owned(), span));
                at = start + length;
            }
            None => at = start + 1,
        }
    }
    found
}

/// The name in the placeholder at the start of `text`, and the placeholder's length.
fn placeholder(text: &str) -> Option<(&str, usize)> {
    let inside = text.strip_prefix("{{")?;
    let from_name = inside.trim_start_matches([' ', '\t']);
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    // Cut by length. Comparing the remainder, which may be the whole file, would make rendering quadratic.
    let length = from_name.find(|c| !is_name_char(c)).unwrap_or(from_name.len());
    let (name, after_name) = from_name.split_at(length);
    let after = after_name.trim_start_matches([' ', '\t']).strip_prefix("}}")?;
    (!name.is_empty()).then_some((name, text.len() - after.len()))
}
