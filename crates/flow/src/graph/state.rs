//! One state of a graph.

use std::collections::BTreeSet;

use crate::{
    id::StateName,
    policy::AllowedTransition,
    source::{Prompt, Schema, StateFileError, StateKind},
    tag::TagKind,
    text::{Span, Spanned},
};

use super::{Named, Slip, Way};

/// A state file, and the transitions that it declares.
#[derive(Clone, Debug)]
pub struct State {
    /// Its file name.
    pub name: StateName,
    /// Prompt or script.
    pub kind: StateKind,
    /// Its text. All spans are byte ranges of it.
    pub text: String,
    /// The parsed file.
    pub content: Content,
    /// The transitions in the frontmatter: those of the policy, and those that evaluators may follow
    /// instead.
    pub declared: Vec<Way>,
    /// The tags in its text.
    pub mentions: Vec<Way>,
    /// The kinds of tags in its text, complete or not.
    pub mentioned_kinds: BTreeSet<TagKind>,
    /// Markup in its text that was meant to be a tag and is none.
    pub slips: Vec<Slip>,
    /// The schema of its structured output, or why it cannot be used.
    pub schema: Option<Result<Schema, String>>,
    /// The evaluators that it asks.
    pub evaluators: Vec<Named>,
    /// The known transitions out of the state.
    pub ways: Vec<Way>,
    /// Whether it may also lead elsewhere: a part of it could not be read, or a target is decided
    /// only at run time.
    pub is_open: bool,
    /// Whether it is only used as an evaluator, and never entered.
    pub is_evaluator: bool,
}

/// The result of parsing a state file.
#[derive(Clone, Debug)]
pub enum Content {
    /// A prompt.
    Prompt(Box<Prompt>),
    /// A script.
    Script,
    /// A prompt with errors.
    Unusable(StateFileError),
}

impl State {
    /// The prompt, if it is one without errors.
    pub fn prompt(&self) -> Option<&Prompt> {
        match &self.content {
            Content::Prompt(prompt) => Some(prompt),
            Content::Script | Content::Unusable(_) => None,
        }
    }

    /// The entries of `allowed_transitions`.
    pub fn entries(&self) -> impl Iterator<Item = &Spanned<AllowedTransition>> {
        self.prompt().into_iter().flat_map(|prompt| &prompt.frontmatter.allowed_transitions)
    }

    /// Whether its frontmatter has a policy.
    pub fn has_policy(&self) -> bool {
        self.entries().next().is_some()
    }

    /// All transitions that it mentions, in the frontmatter and in the text.
    pub fn said(&self) -> impl Iterator<Item = &Way> {
        self.declared.iter().chain(&self.mentions)
    }

    /// Whether its transitions are not completely known, because it is open or names missing states.
    /// Missing states have a lint rule of their own, so their consequences are not reported as well.
    pub fn is_uncertain(&self) -> bool {
        self.is_open || self.ways.iter().any(|way| !way.is_known())
    }

    /// Whether its file declares a result.
    pub fn has_result(&self) -> bool {
        self.ways.iter().any(|way| way.tag == TagKind::Result)
    }

    /// Whether none of its transitions is known.
    pub fn leads_nowhere(&self) -> bool {
        self.ways.is_empty() && !self.is_open
    }

    /// The words of its text, both whole and split at dots and dashes.
    pub fn words(&self) -> BTreeSet<&str> {
        let is_plain = |c: char| c.is_alphanumeric() || c == '_';
        let plain = self.text.split(move |c| !is_plain(c));
        let joined = self.text.split(move |c| !is_plain(c) && !matches!(c, '.' | '-'));
        plain.chain(joined.map(|word| word.trim_matches(['.', '-']))).collect()
    }

    /// The first line of its body: the place for findings about something that is missing.
    pub fn first_line(&self) -> Span {
        let start = self.prompt().map_or(0, |prompt| prompt.body_span.start);
        let body = Span::new(start, self.text.len() as u64).slice(&self.text).unwrap_or_default();
        let blank = body.len() - body.trim_start().len();
        let line = body.trim_start().lines().next().unwrap_or_default().trim_end();
        if line.is_empty() {
            return Span::new(0, 0);
        }
        let start = start + blank as u64;
        Span::new(start, start + line.len() as u64)
    }
}
