//! Something to say about a place in a workflow file: data only, drawn by whoever shows it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::text::{Position, Span, Spanned, excerpt};

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
    /// The distance takes time with the product of both lengths, and no name is this long.
    const WORD_BYTES_MAX: usize = 100;
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
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

/// How many findings of one kind are told about one file; the others are counted. Nobody reads more,
/// and a hostile file can have a million.
pub(crate) const FINDINGS_MAX: usize = 100;

/// What stands for the findings that are not told.
pub(crate) fn and_more(count: usize) -> String {
    format!("and {count} more like this in this file")
}

/// Collects what is found in one text, so that places are worked out in one way.
#[derive(Debug)]
pub(super) struct Findings<'a> {
    file: &'a str,
    text: &'a str,
    found: Vec<Diagnostic>,
    /// How many there were in all.
    pub(super) count: usize,
    /// Of each matter: how many there were, and where the first one is that was not kept.
    matters: Vec<(Matter, usize, Span)>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(file: &'a str, text: &'a str) -> Self {
        Self { file, text, found: Vec::new(), count: 0, matters: Vec::new() }
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

    /// Warns of a key that is none of the `known` ones.
    pub(super) fn unknown_key(&mut self, key: &Spanned<String>, known: &[&str]) {
        self.add(Matter::UnknownKey, key.span, || {
            let message = format!("unknown key `{}` is ignored", excerpt(&key.value));
            let suggestion = did_you_mean(&key.value, known.iter().copied());
            (message, suggestion.map(str::to_owned))
        });
    }

    /// Everything that was found, and how much more there is.
    pub(super) fn finish(mut self) -> Vec<Diagnostic> {
        for (matter, count, span) in std::mem::take(&mut self.matters) {
            if count > FINDINGS_MAX {
                self.push(matter, span, and_more(count - FINDINGS_MAX), None);
            }
        }
        self.found
    }

    /// `message` is asked only for what is kept.
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
