//! One finding, and the report to which rules add findings.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{
    graph::{Graph, State, Way, WayOrigin},
    id::StateName,
    source::{FINDINGS_MAX, Severity, and_more},
    text::{Position, Span, beginning},
};

/// The most findings of one rule that are reported about one file. One more than the parser of a file reports,
/// whose last one may say that there are more.
const TOLD_MAX: usize = FINDINGS_MAX + 1;

/// The longest message or help: some lines of a terminal.
const TEXT_CHARS_MAX: usize = 300;

use super::{Known, Rule};

/// A problem at a place in a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// Its severity.
    pub severity: Severity,
    /// The file; none if it is about the workflow as a whole.
    pub file: Option<String>,
    /// The bytes in question.
    pub span: Span,
    /// The same place as line and column.
    #[serde(flatten)]
    pub position: Position,
    /// What is wrong.
    pub message: String,
    /// What was probably meant, or what the author can do.
    pub help: Option<String>,
}

impl Finding {
    /// Findings are shown by file, then by place.
    pub(super) fn key(&self) -> (Option<&str>, Position, &str, &str) {
        (self.file.as_deref(), self.position, self.rule, &self.message)
    }

    pub(super) fn help(&mut self, text: impl Into<String>) -> &mut Self {
        self.help = Some(text.into());
        self
    }

    pub(super) fn severity(&mut self, severity: Severity) -> &mut Self {
        self.severity = severity;
        self
    }

    /// Suggests what was probably meant, if there is a suggestion.
    pub(super) fn meant(&mut self, suggestion: Option<&str>) -> &mut Self {
        if let Some(suggestion) = suggestion {
            self.help = Some(format!("did you mean `{suggestion}`?"));
        }
        self
    }
}

/// The graph that one rule checks, and the findings that it adds.
#[derive(Debug)]
pub(super) struct Report<'g> {
    pub(super) graph: &'g Graph,
    pub(super) known: &'g Known,
    rule: &'static Rule,
    found: Vec<Finding>,
    /// The number of findings of each file.
    counts: BTreeMap<StateName, usize>,
    /// For a file with more than [`TOLD_MAX`]: the finding that replaces the others.
    rests: BTreeMap<StateName, Rest>,
    /// A finding that is only counted, until its severity is known.
    counted: Option<(StateName, Finding)>,
}

/// The findings of one file that are only counted.
#[derive(Debug)]
struct Rest {
    count: usize,
    severity: Severity,
    span: Span,
}

impl<'g> Report<'g> {
    pub(super) fn new(graph: &'g Graph, known: &'g Known, rule: &'static Rule) -> Self {
        let (counts, rests) = (BTreeMap::new(), BTreeMap::new());
        Self { graph, known, rule, found: Vec::new(), counts, rests, counted: None }
    }

    /// Adds a finding about a place in a state's file.
    pub(super) fn at(
        &mut self,
        state: &State,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Finding {
        self.count_rest();
        let count = self.counts.entry(state.name.clone()).or_default();
        *count += 1;
        if *count > TOLD_MAX {
            let finding = self.finding(None, span, Position { line: 1, column: 1 }, String::new());
            return &mut self.counted.insert((state.name.clone(), finding)).1;
        }
        let position = Position::of(&state.text, span.start);
        self.push(Some(state.name.to_string()), span, position, message.into())
    }

    /// Whether further findings about a file are only counted: their help need not be computed.
    pub(super) fn is_full(&self, state: &State) -> bool {
        self.counts.get(&state.name).is_some_and(|count| *count >= TOLD_MAX)
    }

    fn count_rest(&mut self) {
        if let Some((name, finding)) = self.counted.take() {
            let Finding { severity, span, .. } = finding;
            let rest = self.rests.entry(name).or_insert(Rest { count: 0, severity, span });
            rest.count += 1;
            // A finding that is not shown must not hide an error.
            rest.severity = rest.severity.max(severity);
        }
    }

    /// All findings, and the number of those that are not shown.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        self.count_rest();
        for (name, Rest { count, severity, span }) in std::mem::take(&mut self.rests) {
            let text = self.graph.state(&name).map_or("", |state| state.text.as_str());
            let position = Position::of(text, span.start);
            self.push(Some(name.to_string()), span, position, and_more(count)).severity(severity);
        }
        for finding in &mut self.found {
            // A name that a message quotes can be as long as its file.
            finding.message = beginning(&finding.message, TEXT_CHARS_MAX);
            finding.help = finding.help.take().map(|help| beginning(&help, TEXT_CHARS_MAX));
        }
        self.found
    }

    /// Adds a finding about the workflow as a whole.
    pub(super) fn whole(&mut self, message: impl Into<String>) -> &mut Finding {
        self.push(None, Span::default(), Position { line: 1, column: 1 }, message.into())
    }

    fn push(
        &mut self,
        file: Option<String>,
        span: Span,
        position: Position,
        message: String,
    ) -> &mut Finding {
        let index = self.found.len();
        self.found.push(self.finding(file, span, position, message));
        &mut self.found[index]
    }

    fn finding(
        &self,
        file: Option<String>,
        span: Span,
        position: Position,
        message: String,
    ) -> Finding {
        let Rule { name, severity, .. } = *self.rule;
        Finding { rule: name, severity, file, span, position, message, help: None }
    }

    /// All states. They outlive the report, so that a rule can add findings while it iterates.
    pub(super) fn states(&self) -> impl Iterator<Item = &'g State> + use<'g> {
        self.graph.states.values()
    }
}

/// The severity of a tag in `state` that cannot be followed: an error where it is certain to fail. That is so
/// in frontmatter, and in a script or a prompt without a policy if there is no other tag, or if the script
/// prints this one. Other tags may be searched for, written to a file or named as an example. With a policy
/// the agent is reminded.
pub(super) fn by_origin(state: &State, way: &Way) -> Severity {
    let is_alone = state.mentions.len() == 1;
    let is_certain = match way.origin {
        WayOrigin::Policy | WayOrigin::Evaluator => true,
        WayOrigin::Prose => is_alone && !state.has_policy() && !state.is_evaluator,
        WayOrigin::Script => is_alone || is_printed(state, way),
    };
    if is_certain { Severity::Error } else { Severity::Warning }
}

/// Whether the command around a tag in a script prints it to the standard output.
fn is_printed(state: &State, way: &Way) -> bool {
    let text = state.text.as_bytes();
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
    let (before, after) = (&text[..at(way.span.start)], &text[at(way.span.end)..]);
    let is_border = |byte: &u8| matches!(byte, b'\n' | b';' | b'&' | b'|');
    let before = before.rsplit(is_border).next().unwrap_or_default();
    let after = after.split(is_border).next().unwrap_or_default();
    let before = String::from_utf8_lossy(before);
    let prints = before
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| ["echo", "printf"].iter().any(|command| word.eq_ignore_ascii_case(command)));
    prints && !before.contains('>') && !after.contains(&b'>')
}
