//! Something to say about a place in a workflow file: data only, drawn by whoever shows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::{Position, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file works, but hardly as its author thinks.
    Warning,
    /// The file cannot be used.
    Error,
}

/// One finding in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file's name.
    pub file: String,
    /// The bytes it is about.
    pub span: Span,
    /// The same place for people.
    pub position: Position,
    /// What is wrong and what was expected.
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

/// The one of `candidates` that `word` was probably meant to be.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_lowercase();
    // One slip in a short word, a third of a longer one.
    let slips_max = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(slips, _)| *slips <= slips_max)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, candidate)| candidate)
}

/// Collects what is found in one text, so that places are worked out in one way.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    file: &'a str,
    text: &'a str,
    pub(super) found: Vec<Diagnostic>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, found: Vec::new() }
    }

    pub(super) fn error(&mut self, span: Span, message: impl Into<String>) {
        self.add(Severity::Error, span, message.into(), None);
    }

    pub(super) fn error_suggesting(
        &mut self,
        span: Span,
        message: impl Into<String>,
        suggestion: Option<&str>,
    ) {
        self.add(Severity::Error, span, message.into(), suggestion);
    }

    pub(super) fn warning_suggesting(
        &mut self,
        span: Span,
        message: impl Into<String>,
        suggestion: Option<&str>,
    ) {
        self.add(Severity::Warning, span, message.into(), suggestion);
    }

    fn add(&mut self, severity: Severity, span: Span, message: String, suggestion: Option<&str>) {
        self.found.push(Diagnostic {
            severity,
            file: self.file.to_owned(),
            span,
            position: Position::of(self.text, span.start),
            message,
            suggestion: suggestion.map(str::to_owned),
        });
    }
}
