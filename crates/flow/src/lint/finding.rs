//! One thing that was found, and the report in which rules write it down.

use serde::Serialize;

use crate::{
    graph::{Graph, Origin, State},
    source::Severity,
    text::{Position, Span},
};

use super::{Known, Rule};

/// Something to tell an author about a place in a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The rule that found it.
    pub rule: &'static str,
    /// How bad it is.
    pub severity: Severity,
    /// The file; none if it is about the workflow as a whole.
    pub file: Option<String>,
    /// The bytes it is about.
    pub span: Span,
    /// The same place for people.
    #[serde(flatten)]
    pub position: Position,
    /// What is wrong.
    pub message: String,
    /// What was probably meant, or what could be done.
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

    /// Offers what was probably meant, if anything was.
    pub(super) fn meant(&mut self, suggestion: Option<&str>) -> &mut Self {
        if let Some(suggestion) = suggestion {
            self.help = Some(format!("did you mean `{suggestion}`?"));
        }
        self
    }
}

/// What one rule sees and says.
#[derive(Debug)]
pub(super) struct Report<'g> {
    pub(super) graph: &'g Graph,
    pub(super) known: &'g Known,
    pub(super) rule: &'static Rule,
    pub(super) found: Vec<Finding>,
}

impl<'g> Report<'g> {
    /// Says something about a place in a state's file.
    pub(super) fn at(
        &mut self,
        state: &State,
        span: Span,
        message: impl Into<String>,
    ) -> &mut Finding {
        let position = Position::of(&state.text, span.start);
        self.push(Some(state.name.to_string()), span, position, message.into())
    }

    /// Says something about the workflow as a whole.
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
        let Rule { name, severity, .. } = *self.rule;
        let index = self.found.len();
        let finding = Finding { rule: name, severity, file, span, position, message, help: None };
        self.found.push(finding);
        &mut self.found[index]
    }

    /// All states, as the borrow checker likes them: they outlive the report.
    pub(super) fn states(&self) -> impl Iterator<Item = &'g State> + use<'g> {
        self.graph.states.values()
    }
}

/// How bad a wrong name is: in frontmatter and scripts it cannot work; in the words of a prompt it
/// may be an example.
pub(super) fn by_origin(origin: Origin) -> Severity {
    match origin {
        Origin::Policy | Origin::Evaluator | Origin::Script => Severity::Error,
        Origin::Prose => Severity::Warning,
    }
}
