//! The tag `ask`: how an entry of a policy completes it, and how it becomes a [`Question`].
//!
//! For every other tag, an entry only restricts what an agent writes. For `ask` it also fills in what the
//! agent leaves out, so that an author can fix the choices, the deadline or the whole question. What an agent
//! does write must agree with the entry.

use std::path::{Component, Path};

use thiserror::Error;

use crate::{
    id::StateName,
    scope::ResolveError,
    source::Timeout,
    tag::{Attribute, ChoicesError, Tag, TagKind, WrittenChoice, choices},
    text::{Span, Spanned, excerpt},
    world::World,
};

use super::{AllowedTransition, Choice, Question};

/// The most files that a question shows.
pub const ATTACHMENTS_MAX: usize = 16;

/// Why a person cannot be asked this.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AskProblem {
    /// No question.
    #[error("<ask> asks nothing: the question is written between the tags")]
    NoQuestion,
    /// A label that leads nowhere.
    #[error("the choice `{label}` leads nowhere: name a state (`{label}=STATE`) or give `next`")]
    NoState {
        /// The label.
        label: String,
    },
    /// A free text that leads nowhere.
    #[error("<ask> lacks the attribute `next`: the state that the answer leads to")]
    NoNext,
    /// Choices that cannot be offered.
    #[error("`choices`: {0}")]
    Choices(#[from] ChoicesError),
    /// A default that is not one of the choices.
    #[error("the default `{default}` is not one of the choices")]
    NotAChoice {
        /// The beginning of it.
        default: String,
    },
    /// One without the other.
    #[error("<ask> has `{name}` without `{other}`: after `timeout` the answer is `default`")]
    OnlyOne {
        /// The one.
        name: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A timeout that is none.
    #[error(
        "`timeout` should be a duration of at least one second such as `90s`, `10m` or `2h`, not `{text}`"
    )]
    Timeout {
        /// The beginning of it.
        text: String,
    },
    /// A model tried to set what only an author may.
    #[error(
        "`{name}` is not for coding agents: only a script or an entry of `allowed_transitions` may set it"
    )]
    ForAuthors {
        /// The attribute.
        name: &'static str,
    },
    /// Too many files.
    #[error("`attach` names {count} files, and at most {ATTACHMENTS_MAX} can be shown")]
    TooManyFiles {
        /// How many.
        count: usize,
    },
    /// A file that cannot be shown.
    #[error("`attach` names `{path}`: {why}")]
    Attachment {
        /// The file.
        path: String,
        /// Why.
        why: String,
    },
}

impl AskProblem {
    /// The attribute that is wrong, if it is one that an entry may prescribe.
    pub(super) fn attribute(&self) -> Option<&'static str> {
        match self {
            Self::NoState { .. } | Self::Choices(_) => Some("choices"),
            Self::NotAChoice { .. } => Some("default"),
            Self::OnlyOne { name, .. } => Some(name),
            Self::Timeout { .. } => Some("timeout"),
            Self::TooManyFiles { .. } | Self::Attachment { .. } => Some("attach"),
            Self::NoQuestion | Self::NoNext | Self::ForAuthors { .. } => None,
        }
    }
}

/// The attributes of an `ask` that only an author may give.
const FOR_AUTHORS: [&str; 2] = ["timeout", "default"];

/// What a coding agent wrote that only an author may.
pub(super) fn for_authors(tag: &Tag) -> Option<AskProblem> {
    let is_there = |name: &&str| part(tag, name).is_some();
    FOR_AUTHORS.into_iter().find(is_there).map(|name| AskProblem::ForAuthors { name })
}

/// The part of an `ask` that an entry names `name`.
pub(super) fn part<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    if tag.kind != TagKind::Ask {
        return None;
    }
    let found = match name {
        "question" => Some(&tag.content).filter(|question| !question.value.is_empty()),
        name => tag.attribute(name),
    };
    found.map(|part| part.value.as_str())
}

/// Whether what the tag says agrees with what the entry says. `same_state` compares two names.
pub(super) fn agrees(
    entry: &AllowedTransition,
    tag: &Tag,
    same_state: impl Fn(&str, &str) -> bool,
) -> bool {
    entry.attributes.iter().all(|(name, allowed)| match (name.as_str(), part(tag, name)) {
        (_, None) => true,
        ("next", Some(own)) => same_state(allowed, own),
        ("choices", Some(own)) => match (choices(allowed), choices(own)) {
            (Ok(allowed), Ok(own)) => same_choices(&allowed, &own, &same_state),
            _ => allowed == own,
        },
        ("attach", Some(own)) => paths(allowed).eq(paths(own)),
        (_, Some(own)) => allowed.trim() == own.trim(),
    })
}

fn same_choices(
    one: &[WrittenChoice<'_>],
    other: &[WrittenChoice<'_>],
    same_state: impl Fn(&str, &str) -> bool,
) -> bool {
    one.len() == other.len()
        && one.iter().zip(other).all(|(one, other)| {
            one.label == other.label
                && match (one.state, other.state) {
                    (Some((_, one)), Some((_, other))) => same_state(one, other),
                    (one, other) => one.is_none() && other.is_none(),
                }
        })
}

/// The tag with everything that the entry says.
pub(super) fn filled(tag: &Tag, entry: &AllowedTransition) -> Tag {
    let value = |name: &str| {
        let own = part(tag, name).or_else(|| entry.attributes.get(name).map(String::as_str));
        own.map(|value| Spanned::new(value.to_owned(), Span::default()))
    };
    let names = TagKind::Ask.spec().attributes.iter().map(|(name, _)| *name);
    let attributes = names.filter(|name| *name != "question").filter_map(|name| {
        let written = Spanned::new(name.to_owned(), Span::default());
        Some(Attribute { name: written, value: value(name)? })
    });
    Tag::new(TagKind::Ask, value("question").unwrap_or_default(), attributes.collect())
}

/// Whether an entry says everything that a question needs.
pub(super) fn is_complete(entry: &AllowedTransition) -> bool {
    let value = |name: &str| entry.attributes.get(name);
    value("question").is_some() && (value("next").is_some() || all_lead(value("choices")))
}

/// Whether every answer leads to a state without `next`.
pub(super) fn all_lead(choices: Option<&String>) -> bool {
    choices.is_some_and(|text| {
        self::choices(text).is_ok_and(|all| all.iter().all(|choice| choice.state.is_some()))
    })
}

/// Makes a question of a complete tag. `resolve` finds the state that a name means.
pub(super) fn question<E: From<AskProblem> + From<ResolveError>>(
    tag: &Tag,
    cwd: &str,
    world: &dyn World,
    resolve: impl Fn(&str) -> Result<StateName, ResolveError>,
) -> Result<Question, E> {
    let text = part(tag, "question").ok_or(AskProblem::NoQuestion)?.to_owned();
    let next = part(tag, "next").map(&resolve).transpose()?;
    let written = part(tag, "choices").map(choices).transpose().map_err(AskProblem::from)?;
    let written = written.unwrap_or_default();
    let mut choices = Vec::new();
    for WrittenChoice { label, state } in &written {
        let label = (*label).to_owned();
        let target = match (state, &next) {
            (Some((_, name)), _) => resolve(name)?,
            (None, Some(next)) => next.clone(),
            (None, None) => return Err(AskProblem::NoState { label }.into()),
        };
        choices.push(Choice { label, target });
    }
    if choices.is_empty() && next.is_none() {
        return Err(AskProblem::NoNext.into());
    }
    let (timeout, default) = (part(tag, "timeout"), part(tag, "default"));
    check_default(timeout, default, &written)?;
    Ok(Question {
        text,
        next: next.filter(|_| written.is_empty()),
        choices,
        attach: attachments(part(tag, "attach"), cwd, world)?,
        timeout: timeout.map(duration).transpose()?,
        default: default.map(|default| default.trim().to_owned()),
        deadline_ms: None,
        continues: None,
        grants: None,
    })
}

/// Checks what an author says about the end of the wait. Also done when a file is read and by lint.
pub(crate) fn check_default(
    timeout: Option<&str>,
    default: Option<&str>,
    choices: &[WrittenChoice<'_>],
) -> Result<(), AskProblem> {
    let only = |name, other| Err(AskProblem::OnlyOne { name, other });
    let default = match (timeout, default) {
        (None, None) => return Ok(()),
        (Some(_), None) => return only("timeout", "default"),
        (None, Some(_)) => return only("default", "timeout"),
        (Some(timeout), Some(default)) => duration(timeout).map(|_| default.trim())?,
    };
    let is_choice = choices.is_empty() || choices.iter().any(|choice| choice.label == default);
    if is_choice { Ok(()) } else { Err(AskProblem::NotAChoice { default: excerpt(default) }) }
}

fn duration(text: &str) -> Result<Timeout, AskProblem> {
    let timeout = text.trim().parse::<Timeout>().ok().filter(|timeout| u64::from(*timeout) > 0);
    timeout.ok_or_else(|| AskProblem::Timeout { text: excerpt(text) })
}

/// The paths in `attach`.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.split('|').map(str::trim)
}

fn attachments(
    attach: Option<&str>,
    cwd: &str,
    world: &dyn World,
) -> Result<Vec<String>, AskProblem> {
    let files: Vec<&str> = attach.map(|attach| paths(attach).collect()).unwrap_or_default();
    if files.len() > ATTACHMENTS_MAX {
        return Err(AskProblem::TooManyFiles { count: files.len() });
    }
    for path in &files {
        let is_below = !path.is_empty()
            && Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        let checked = if is_below {
            world.attachment(cwd, path)
        } else {
            Err("a file below the agent's directory is meant, without `..`".to_owned())
        };
        let problem = |why| AskProblem::Attachment { path: excerpt(path), why };
        checked.map_err(problem)?;
    }
    Ok(files.into_iter().map(str::to_owned).collect())
}
