//! One state file in memory: a prompt with its frontmatter, or a script.

use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::{
    id::StateName,
    text::{Position, Span},
};

use super::{
    Diagnostic, Frontmatter, Platform, Severity, StateKind, StateKindError, diagnostic::Findings,
    labels,
};

/// The largest frontmatter. Its YAML tree takes many times as much memory, and it is parsed at every step.
const FRONTMATTER_BYTES_MAX: usize = 256 * 1024;

/// A state file that can be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateFile {
    /// Its file name.
    pub name: StateName,
    /// A hash of its bytes, recorded in the journal to show which version was used.
    pub digest: String,
    /// The labels that a worker of a cluster must have to carry it out; sorted, each once.
    pub runs_on: Vec<String>,
    /// Its contents.
    pub source: StateSource,
}

/// The contents of a state file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateSource {
    /// A prompt.
    Prompt(Box<Prompt>),
    /// A script. Nothing of its text is parsed but its labels.
    Script,
}

/// A prompt and its frontmatter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The parsed frontmatter.
    pub frontmatter: Frontmatter,
    /// The text after the frontmatter: the prompt before substitution.
    pub body: String,
    /// The place of the body in the file.
    pub body_span: Span,
    /// Findings that do not prevent its use.
    pub warnings: Vec<Diagnostic>,
}

/// Why a state file cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StateFileError {
    /// Not a state, or one for another platform.
    #[error(transparent)]
    Kind(#[from] StateKindError),
    /// A prompt that is not UTF-8.
    #[error("`{name}` is not UTF-8 text: byte {offset} (line {}) cannot be part of a character", position.line)]
    NotUtf8 {
        /// The file.
        name: String,
        /// The first invalid byte.
        offset: u64,
        /// The line and column of that byte.
        position: Position,
    },
    /// Frontmatter with errors. The diagnostics include warnings.
    #[error("{}", first(diagnostics))]
    Frontmatter {
        /// At least one of them is an error.
        diagnostics: Vec<Diagnostic>,
    },
}

fn first(diagnostics: &[Diagnostic]) -> String {
    let errors: Vec<_> =
        diagnostics.iter().filter(|found| found.severity == Severity::Error).collect();
    match errors.as_slice() {
        [] => "the frontmatter cannot be used".to_owned(),
        [only] => only.to_string(),
        [first, others @ ..] => format!("{first} (and {} more)", others.len()),
    }
}

impl StateFile {
    /// Parses the file called `name` for `platform`.
    pub fn read(name: &str, bytes: &[u8], platform: Platform) -> Result<Self, StateFileError> {
        let (runs_on, source) = match StateKind::of(name, platform)? {
            StateKind::Script => (script_labels(name, bytes)?, StateSource::Script),
            StateKind::Prompt => {
                let prompt = prompt(name, utf8(name, bytes)?)?;
                (prompt.frontmatter.labels(), StateSource::Prompt(Box::new(prompt)))
            }
        };
        Ok(Self { name: StateName::new(name), digest: fingerprint(bytes), runs_on, source })
    }

    /// How it is carried out.
    pub fn kind(&self) -> StateKind {
        match self.source {
            StateSource::Prompt(_) => StateKind::Prompt,
            StateSource::Script => StateKind::Script,
        }
    }
}

/// The first half of the SHA-256 in hexadecimal, which is enough to tell texts apart.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha256::digest(bytes);
    let nibbles = digest.iter().take(16).flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.map(|nibble| char::from(HEX[usize::from(nibble)])).collect()
}

fn utf8<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str, StateFileError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let valid = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let offset = error.valid_up_to() as u64;
        let position = Position::of(&valid, offset);
        StateFileError::NotUtf8 { name: name.to_owned(), offset, position }
    })
}

fn script_labels(name: &str, bytes: &[u8]) -> Result<Vec<String>, StateFileError> {
    // A script may have any bytes; those of the labels are ASCII.
    let text = String::from_utf8_lossy(bytes);
    let mut findings = Findings::new(name, &text);
    let runs_on = labels::of_script(&text, &mut findings);
    let diagnostics = findings.finish();
    if diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return Err(StateFileError::Frontmatter { diagnostics });
    }
    Ok(runs_on)
}

fn prompt(name: &str, text: &str) -> Result<Prompt, StateFileError> {
    let mut findings = Findings::new(name, text);
    let mut frontmatter = Frontmatter::default();
    let body_start = match Fences::find(text) {
        Fences::None { body_start } => body_start,
        Fences::Unclosed { fence } => {
            findings.error(fence, "frontmatter starts here but no line `---` ends it");
            text.len()
        }
        Fences::Both { yaml, body_start } => {
            let content = yaml.slice(text).unwrap_or_default();
            if content.len() > FRONTMATTER_BYTES_MAX {
                let message = format!("frontmatter has at most {FRONTMATTER_BYTES_MAX} bytes");
                findings.error(Span::new(yaml.start, yaml.start), message);
            } else {
                frontmatter = Frontmatter::read(content, yaml.start, &mut findings);
            }
            body_start
        }
    };
    let diagnostics = findings.finish();
    if diagnostics.iter().any(|found| found.severity == Severity::Error) {
        return Err(StateFileError::Frontmatter { diagnostics });
    }
    let body_span = Span::new(body_start as u64, text.len() as u64);
    let body = body_span.slice(text).unwrap_or_default().to_owned();
    Ok(Prompt { frontmatter, body, body_span, warnings: diagnostics })
}

/// Finds the frontmatter of a text. Only a fence on the very first line opens it, so a
/// `---` rule further down is part of the prompt.
enum Fences {
    None { body_start: usize },
    Unclosed { fence: Span },
    Both { yaml: Span, body_start: usize },
}

impl Fences {
    fn find(text: &str) -> Self {
        const BYTE_ORDER_MARK: char = '\u{feff}';
        let start = if text.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len_utf8() } else { 0 };
        let mut lines = LineIter { text, at: start };
        let yaml_start = match lines.next() {
            Some(line) if is_fence(line) => lines.at,
            _ => return Self::None { body_start: start },
        };
        loop {
            let line_start = lines.at;
            match lines.next() {
                None => {
                    let fence = Span::new(start as u64, start as u64 + 3);
                    return Self::Unclosed { fence };
                }
                Some(line) if is_fence(line) => {
                    let yaml = Span::new(yaml_start as u64, line_start as u64);
                    return Self::Both { yaml, body_start: lines.at };
                }
                Some(_) => {}
            }
        }
    }
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == "---"
}

/// An iterator over lines that knows the byte at which the next line starts.
struct LineIter<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for LineIter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
        let line = rest.split_inclusive('\n').next()?;
        self.at += line.len();
        Some(line)
    }
}
