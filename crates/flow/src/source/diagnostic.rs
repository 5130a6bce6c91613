//! Something to say about a place in a workflow file: data only, drawn by whoever shows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::{Position, Span};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Nothing is wrong, but it is good to know.
    Note,
    /// The file works, but hardly as its author thinks.
    Warning,
    /// The file cannot be used.
    Error,
}

/// What a finding is about, for whoever sorts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Matter {
    /// Frontmatter that cannot be used.
    Frontmatter,
    /// A key that means nothing.
    UnknownKey,
    /// A path where the name of a state belongs.
    PathInTarget,
}

/// One finding in one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub matter: Matter,
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
        self.add(Matter::Frontmatter, span, message.into(), None);
    }

    pub(super) fn path(&mut self, span: Span, message: impl Into<String>) {
        self.add(Matter::PathInTarget, span, message.into(), None);
    }

    pub(super) fn error_suggesting(
        &mut self,
        span: Span,
        message: impl Into<String>,
        suggestion: Option<&str>,
    ) {
        self.add(Matter::Frontmatter, span, message.into(), suggestion);
    }

    pub(super) fn unknown_key(
        &mut self,
        span: Span,
        message: impl Into<String>,
        suggestion: Option<&str>,
    ) {
        self.add(Matter::UnknownKey, span, message.into(), suggestion);
    }

    fn add(&mut self, matter: Matter, span: Span, message: String, suggestion: Option<&str>) {
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
            suggestion: suggestion.map(str::to_owned),
        });
    }
}
