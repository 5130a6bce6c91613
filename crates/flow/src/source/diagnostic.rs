//! A finding about a place in a workflow file: data only, formatted by the caller.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::{Position, Span, Spanned, excerpt};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Not a problem, but worth knowing.
    Note,
    /// The file works, but probably not as its author intended.
    Warning,
    /// The file cannot be used.
    Error,
}

/// The topic of a finding, by which lint rules select findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matter {
    /// Frontmatter that cannot be used.
    Frontmatter,
    /// A key that frontmatter does not define.
    UnknownKey,
    /// A path instead of the name of a state.
    PathInTarget,
}

/// One finding in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// Its topic.
    pub matter: Matter,
    /// The file's name.
    pub file: String,
    /// The bytes in question.
    pub span: Span,
    /// The same place as line and column.
    pub position: Position,
    /// What is wrong, and what was expected.
    pub message: String,
    /// What was probably meant.
    pub suggestion: Option<String>,
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, position, message, .. } = self;
        write!(f, "{file}:{position}: {message}")?;
        match &self.suggestion {
            Some(suggestion) => write!(f, " (did you mean `{suggestion}`?)"),
            None => Ok(()),
        }
    }
}

/// The candidate that the author of `word` probably meant.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    /// Computing the distance takes time proportional to the product of both lengths. No name is this long.
    const WORD_BYTES_MAX: usize = 100;
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let word = word.to_lowercase();
    // One typo in a short word, up to a third of the letters in a longer one.
    let slips_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// The most findings of one topic that are reported for one file; the others are only counted. More are
/// of no use to a reader, and a hostile file can have a million.
pub(crate) const FINDINGS_MAX: usize = 100;

/// The message that replaces the findings that are not reported.
pub(crate) fn and_more(count: usize) -> String {
    format!("and {count} more like this in this file")
}

/// Collects the findings of one text and computes their positions.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<Diagnostic>,
    /// The number of all findings.
    pub(super) count: usize,
    /// For each topic: the number of findings, and the place of the first one that was not kept.
    matters: Vec<(Matter, usize, Span)>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, found: Vec::new(), count: 0, matters: Vec::new() }
    }

    /// Whether the scalar at `span` has no quotes and is no block.
    pub(super) fn is_plain(&self, span: Span) -> bool {
        span.slice(self.text).is_some_and(|text| !text.starts_with(['\'', '"', '|', '>']))
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.add(Matter::Frontmatter, span, || (message.into(), None));
    }

    pub(super) fn path(&mut self, span: Span, message: impl Into<String>) {
        self.add(Matter::PathInTarget, span, || (message.into(), None));
    }

    pub(super) fn error_suggesting(
        &mut self,
        span: Span,
        message: impl Into<String>,
        suggestion: Option<&str>,
    ) {
        let suggestion = suggestion.map(str::to_owned);
        self.add(Matter::Frontmatter, span, || (message.into(), suggestion));
    }

    /// Warns about a key that is not one of `known`.
    pub(super) fn unknown_key(&mut self, key: &Spanned<String>, known: &[&str]) {
        self.add(Matter::UnknownKey, key.span, || {
            let message = format!("unknown key `{}` is ignored", excerpt(&key.value));
            let suggestion = did_you_mean(&key.value, known.iter().copied());
            (message, suggestion.map(str::to_owned))
        });
    }

    /// All findings that were kept, and messages with the number of the others.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        for (matter, count, span) in std::mem::take(&mut self.matters) {
            if count > FINDINGS_MAX {
                self.push(matter, span, and_more(count - FINDINGS_MAX), None);
            }
        }
        self.found
    }

    /// Calls `message` only for findings that are kept.
    fn add(
        &mut self,
        matter: Matter,
        span: Span,
        message: impl FnOnce() -> (String, Option<String>),
    ) {
        self.count += 1;
        let index = self.matters.iter().position(|(known, ..)| *known == matter);
        let index = index.unwrap_or_else(|| {
            self.matters.push((matter, 0, span));
            self.matters.len() - 1
        });
        let (_, count, first_left_out) = &mut self.matters[index];
        *count += 1;
        if *count <= FINDINGS_MAX {
            let (message, suggestion) = message();
            self.push(matter, span, message, suggestion);
        } else if *count == FINDINGS_MAX + 1 {
            *first_left_out = span;
        }
    }

    fn push(&mut self, matter: Matter, span: Span, message: String, suggestion: Option<String>) {
        let severity = match matter {
            Matter::UnknownKey => Severity::Warning,
            Matter::Frontmatter | Matter::PathInTarget => Severity::Error,
        };
        self.found.push(Diagnostic {
            severity,
            matter,
            file: self.file.to_owned(),
            span,
            position: Position::of(self.text, span.start),
            message,
            suggestion,
        });
    }
}
