//! Reads the values of keys: what each may be, and the finding if it is something else.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::{
    money::Usd,
    source::{
        Timeout,
        diagnostic::Findings,
        labels::is_label,
        schema::{SCHEMA_BYTES_MAX, Schema, SchemaProblem, SchemaSource},
        yaml::{YamlNode, YamlValue},
    },
    text::{Span, Spanned, excerpt, is_word, looks_like_an_option},
};

pub(in crate::source) struct FrontmatterReader<'a, 'f> {
    /// The byte at which the YAML starts in its file.
    pub(super) offset: u64,
    pub(super) findings: &'a mut Findings<'f>,
    /// The total compiled size of the patterns so far.
    pub(super) patterns_size: u64,
}

pub(super) type Pairs<'n> = Vec<(Spanned<String>, &'n YamlNode)>;

impl FrontmatterReader<'_, '_> {
    pub(in crate::source) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.findings.error(span.shifted(self.offset), message);
    }

    /// `key: value` pairs with scalar keys, each once.
    pub(super) fn mapping<'n>(
        &mut self,
        node: &'n YamlNode,
        what: &str,
        expected: &str,
    ) -> Option<Pairs<'n>> {
        let YamlValue::Mapping(pairs) = &node.value else {
            self.error(node.span, format!("{what} should be {expected}"));
            return None;
        };
        let mut read = Vec::new();
        let mut seen = BTreeSet::new();
        for (key, value) in pairs {
            let YamlValue::Scalar(name) = &key.value else {
                self.error(key.span, format!("a key of {what} should be a word"));
                continue;
            };
            if seen.insert(name.as_str()) {
                read.push((Spanned::new(name.clone(), key.span.shifted(self.offset)), value));
            } else {
                self.error(key.span, format!("key `{}` is given twice", excerpt(name)));
            }
        }
        Some(read)
    }

    /// The items of a list; an empty value is an empty list.
    pub(in crate::source) fn list<T>(
        &mut self,
        node: &YamlNode,
        key: &str,
        mut item: impl FnMut(&mut Self, &YamlNode) -> Option<T>,
    ) -> Vec<Spanned<T>> {
        let items = match &node.value {
            YamlValue::Null => return Vec::new(),
            YamlValue::Sequence(items) => items,
            YamlValue::Scalar(_) | YamlValue::Mapping(_) => {
                self.error(
                    node.span,
                    format!("`{key}` should be a list: lines that start with `- `"),
                );
                return Vec::new();
            }
        };
        let mut read = Vec::new();
        for node in items {
            if let Some(value) = item(self, node) {
                read.push(Spanned::new(value, node.span.shifted(self.offset)));
            }
        }
        read
    }

    /// A scalar that is not empty.
    pub(in crate::source) fn word(
        &mut self,
        node: &YamlNode,
        key: &str,
        expected: &str,
    ) -> Option<Spanned<String>> {
        match &node.value {
            YamlValue::Scalar(text) if is_word(text) => {
                Some(Spanned::new(text.trim().to_owned(), node.span.shifted(self.offset)))
            }
            YamlValue::Scalar(_)
            | YamlValue::Null
            | YamlValue::Sequence(_)
            | YamlValue::Mapping(_) => {
                self.error(node.span, format!("`{key}` should be {expected}"));
                None
            }
        }
    }

    /// A word that is passed to a program as an argument.
    pub(in crate::source) fn argument(
        &mut self,
        node: &YamlNode,
        key: &str,
        expected: &str,
    ) -> Option<Spanned<String>> {
        let word = self.word(node, key, expected)?;
        if looks_like_an_option(&word.value) {
            let message = format!("`{key}` cannot begin with a dash: it would become an option");
            self.error(node.span, message);
            return None;
        }
        Some(word)
    }

    pub(super) fn label(&mut self, node: &YamlNode) -> Option<Spanned<String>> {
        const EXPECTED: &str = "a list of labels: letters, digits, `-`, `_` and `.`";
        let word = self.word(node, "runs_on", EXPECTED)?;
        if !is_label(&word.value) {
            self.error(node.span, format!("`runs_on` should be {EXPECTED}"));
            return None;
        }
        Some(word)
    }

    /// A scalar, verbatim with its white space.
    pub(in crate::source) fn text(
        &mut self,
        node: &YamlNode,
        key: &str,
        expected: &str,
    ) -> Option<String> {
        match &node.value {
            YamlValue::Scalar(text) if !text.is_empty() => Some(text.clone()),
            YamlValue::Scalar(_)
            | YamlValue::Null
            | YamlValue::Sequence(_)
            | YamlValue::Mapping(_) => {
                self.error(node.span, format!("`{key}` should be {expected}"));
                None
            }
        }
    }

    pub(super) fn timeout(&mut self, node: &YamlNode) -> Option<Spanned<Timeout>> {
        let text = self.word(node, "timeout", "seconds, or `10m`, `2h`, or 0 for no limit")?;
        match text.value.parse() {
            Ok(timeout) => Some(Spanned::new(timeout, text.span)),
            Err(error) => {
                self.error(node.span, format!("`timeout`: {error}"));
                None
            }
        }
    }

    pub(super) fn budget(&mut self, node: &YamlNode) -> Option<Spanned<Usd>> {
        const EXPECTED: &str = "an amount of dollars above 0, such as `0.50`";
        let word = self.word(node, "budget", EXPECTED)?;
        let amount = word.value.parse().ok().and_then(Usd::from_dollars);
        let Some(amount) = amount.filter(|amount| *amount > Usd::ZERO) else {
            self.error(node.span, format!("`budget` should be {EXPECTED}"));
            return None;
        };
        Some(Spanned::new(amount, word.span))
    }

    /// A schema, or the name of the file with it.
    pub(super) fn schema(&mut self, node: &YamlNode) -> Option<Spanned<SchemaSource>> {
        const EXPECTED: &str = "a JSON schema, or the name of a `.json` file beside the state";
        let span = node.span.shifted(self.offset);
        if let YamlValue::Scalar(name) = &node.value {
            let is_file = name.rsplit_once('.').is_some_and(|(_, extension)| extension == "json");
            if !is_file || name.contains(['/', '\\']) {
                self.error(node.span, format!("`schema` should be {EXPECTED}"));
                return None;
            }
            return Some(Spanned::new(SchemaSource::File(name.clone()), span));
        }
        if !matches!(node.value, YamlValue::Mapping(_)) {
            self.error(node.span, format!("`schema` should be {EXPECTED}"));
            return None;
        }
        let value = self.json(node)?;
        if value.to_string().len() > SCHEMA_BYTES_MAX {
            self.error(node.span, format!("`schema` has at most {SCHEMA_BYTES_MAX} bytes"));
            return None;
        }
        match Schema::of(value) {
            Ok(schema) => Some(Spanned::new(SchemaSource::Inline(schema), span)),
            Err(SchemaProblem { path, message, meant }) => {
                let span = node.at(&path).span.shifted(self.offset);
                self.findings.error_suggesting(span, format!("`schema`: {message}"), meant);
                None
            }
        }
    }

    /// The same value in JSON: a scalar without quotes may be a number or a truth.
    fn json(&mut self, node: &YamlNode) -> Option<Value> {
        Some(match &node.value {
            YamlValue::Null => Value::Null,
            YamlValue::Scalar(text) if self.findings.is_plain(node.span.shifted(self.offset)) => {
                match serde_json::from_str(text) {
                    Ok(value @ (Value::Bool(_) | Value::Number(_))) => value,
                    Ok(_) | Err(_) => Value::String(text.clone()),
                }
            }
            YamlValue::Scalar(text) => Value::String(text.clone()),
            YamlValue::Sequence(items) => {
                items.iter().map(|item| self.json(item)).collect::<Option<Vec<_>>>()?.into()
            }
            YamlValue::Mapping(_) => {
                let pairs = self.mapping(node, "a schema", "`keyword: value` lines")?;
                let pairs =
                    pairs.into_iter().map(|(key, value)| Some((key.value, self.json(value)?)));
                Value::Object(pairs.collect::<Option<_>>()?)
            }
        })
    }

    pub(super) fn is_optional(&mut self, node: &YamlNode) -> bool {
        const EXPECTED: &str = "`optional` or `required`";
        match self.word(node, "input", EXPECTED).as_ref().map(|word| word.value.as_str()) {
            Some("optional") => true,
            Some("required") | None => false,
            Some(_) => {
                self.error(node.span, format!("`input` should be {EXPECTED}"));
                false
            }
        }
    }

    /// A word that `is_good`, or a finding about what was `expected`.
    pub(in crate::source) fn checked(
        &mut self,
        node: &YamlNode,
        word: Option<Spanned<String>>,
        key: &str,
        expected: &str,
        is_good: impl Fn(&str) -> bool,
    ) -> Option<String> {
        let word = word?.value;
        if !is_good(&word) {
            self.error(node.span, format!("`{key}` should be {expected}"));
            return None;
        }
        Some(word)
    }

    /// `true` or `false`.
    pub(super) fn truth(&mut self, node: &YamlNode, key: &str) -> bool {
        let word = self.word(node, key, "`true` or `false`").map(|word| word.value);
        match word.as_deref() {
            Some("true") => true,
            Some("false") | None => false,
            Some(_) => {
                self.error(node.span, format!("`{key}` should be `true` or `false`"));
                false
            }
        }
    }
}
