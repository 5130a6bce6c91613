//! One state of a graph.

use std::collections::BTreeSet;

use crate::{
    id::StateName,
    policy::AllowedTransition,
    source::{Prompt, StateFileError, StateKind},
    tag::TagKind,
    text::{Span, Spanned},
};

use super::{Named, Slip, Way};

/// A state file, read for what it says about where it leads.
#[derive(Clone, Debug)]
pub struct State {
    /// Its file name.
    pub name: StateName,
    /// How it is carried out.
    pub kind: StateKind,
    /// Its text. Spans of everything in it count its bytes.
    pub text: String,
    /// What could be made of it.
    pub content: Content,
    /// What the frontmatter declares: its policy and what its evaluators put in the place of it.
    pub declared: Vec<Way>,
    /// The tags in its text.
    pub mentions: Vec<Way>,
    /// The names of tags in its text, complete or not.
    pub mentioned_kinds: BTreeSet<TagKind>,
    /// Markup in its text that was meant to be a tag and is none.
    pub slips: Vec<Slip>,
    /// The evaluators that it asks.
    pub asks: Vec<Named>,
    /// The ways out, as far as they are known.
    pub ways: Vec<Way>,
    /// Whether it may lead somewhere else, too: something in it could not be read or is decided
    /// only when it runs.
    pub is_open: bool,
    /// Whether it is only asked for its opinion, and never entered.
    pub is_evaluator: bool,
}

/// What could be made of a state file.
#[derive(Clone, Debug)]
pub enum Content {
    /// A prompt.
    Prompt(Box<Prompt>),
    /// A script.
    Script,
    /// A prompt that cannot be used.
    Unusable(StateFileError),
}

impl State {
    /// The prompt, if it is one that can be used.
    pub fn prompt(&self) -> Option<&Prompt> {
        match &self.content {
            Content::Prompt(prompt) => Some(prompt),
            Content::Script | Content::Unusable(_) => None,
        }
    }

    /// The entries of its `allowed_transitions`.
    pub fn entries(&self) -> impl Iterator<Item = &Spanned<AllowedTransition>> {
        self.prompt().into_iter().flat_map(|prompt| &prompt.frontmatter.allowed_transitions)
    }

    /// Whether its frontmatter lists the ways out.
    pub fn has_policy(&self) -> bool {
        self.entries().next().is_some()
    }

    /// Everything that it says about ways out, in the frontmatter and in the text.
    pub fn said(&self) -> impl Iterator<Item = &Way> {
        self.declared.iter().chain(&self.mentions)
    }

    /// Whether not all is known of where it leads, because it is open or names what is not there. The
    /// latter has rules of its own; what follows from it need not be told, too.
    pub fn is_uncertain(&self) -> bool {
        self.is_open || self.ways.iter().any(|way| !way.is_known())
    }

    /// Whether it can end with a result, as far as its file tells.
    pub fn has_result(&self) -> bool {
        self.ways.iter().any(|way| way.tag == TagKind::Result)
    }

    /// Whether nothing is known of where it leads.
    pub fn leads_nowhere(&self) -> bool {
        self.ways.is_empty() && !self.is_open
    }

    /// The words of its text, with dots and dashes within them and without.
    pub fn words(&self) -> BTreeSet<&str> {
        let is_plain = |c: char| c.is_alphanumeric() || c == '_';
        let plain = self.text.split(move |c| !is_plain(c));
        let joined = self.text.split(move |c| !is_plain(c) && !matches!(c, '.' | '-'));
        plain.chain(joined.map(|word| word.trim_matches(['.', '-']))).collect()
    }

    /// The first line of the text itself, where something that is missing would stand.
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
