//! Tag, policy and scope in; verdict out.

use std::{collections::BTreeMap, path::Path};

use thiserror::Error;

use crate::{
    id::StateName,
    scope::{Listing, ResolveError, resolve},
    tag::{Attribute, Tag, TagError, TagKind, Target},
    text::{Spanned, excerpt, is_word, looks_like_an_option},
    world::{World, WorldError},
};

use super::{
    AllowedTransition, AskProblem, Chooser, Policy, Transition, UnsafeName, ask,
    check_variable_name,
};

/// The verdict on an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The transition may be followed.
    Accept(Accepted),
    /// The agent is reminded of what is allowed.
    Remind(Problem),
    /// A reminder would not help, or the state does not list what is allowed.
    Fail(Problem),
}

/// A transition that the state allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The transition to follow.
    pub transition: Transition,
    /// Whether the agent wrote a tag or the policy implied it.
    pub source: Source,
}

/// Whether the agent wrote a tag or the policy implied it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The agent wrote the tag.
    Tag,
    /// The policy allows only this transition, and the agent wrote no tag.
    Implicit,
    /// A person answered the agent's question.
    Answer,
}

/// What is wrong with an answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Problem {
    /// The answer does not have exactly one complete tag.
    #[error(transparent)]
    Tag(#[from] TagError),
    /// A complete tag that this state does not allow.
    #[error("`{tag}` is not among the transitions that this state allows")]
    NotAllowed {
        /// The tag.
        tag: String,
    },
    /// A state that does not exist.
    #[error(transparent)]
    Unresolved(#[from] ResolveError),
    /// A variable that may not be set.
    #[error("the attribute {0}")]
    UnsafeAttribute(#[from] UnsafeName),
    /// A `cd` to a directory that does not exist.
    #[error("`cd` names `{path}`, which is not a directory")]
    NoSuchDirectory {
        /// The path, made absolute.
        path: String,
    },
    /// An empty `cd`.
    #[error("`cd` is empty: leave it out to stay in the same directory")]
    EmptyDirectory,
    /// A `model` that is not a valid name.
    #[error("`{model}` in `model` is not a model: one word that does not begin with a dash")]
    NotAModel {
        /// The beginning of it.
        model: String,
    },
    /// A question that cannot be asked.
    #[error(transparent)]
    Ask(#[from] AskProblem),
    /// The scope could not be read.
    #[error(transparent)]
    World(#[from] WorldError),
}

/// What is needed to judge an answer besides its tag and the policy.
pub struct JudgeContext<'a> {
    /// The files and environment.
    pub world: &'a dyn World,
    /// The working directory of the agent.
    pub cwd: &'a str,
}

impl std::fmt::Debug for JudgeContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JudgeContext").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}

/// Judges the tag of an answer by the state's policy.
pub fn judge(
    answer: Result<Spanned<Tag>, TagError>,
    policy: &Policy,
    context: &JudgeContext<'_>,
) -> Verdict {
    let listing = match context.world.listing() {
        Ok(listing) => listing,
        Err(error) => return Verdict::Fail(error.into()),
    };
    let judge = Judge { policy, context, listing: &listing };
    match answer {
        Ok(tag) => judge.tag(&tag.value),
        Err(TagError::None) if let Some(entry) = policy.implicit() => judge.implicit(entry),
        Err(error) => judge.remind(error.into()),
    }
}

/// Makes a transition out of an entry that the author wrote out in full, such as an evaluator's
/// `then`. It needs no policy to allow it.
pub fn judge_transition(
    entry: &AllowedTransition,
    context: &JudgeContext<'_>,
) -> Result<Transition, Problem> {
    let listing = context.world.listing()?;
    let judge = Judge { policy: &Policy::default(), context, listing: &listing };
    judge.transition(&authored(entry), |_| Chooser::Author)
}

/// Judges the tag that a script printed. A script has no policy: the author of the workflow wrote it.
pub fn judge_script(
    answer: Result<Spanned<Tag>, TagError>,
    context: &JudgeContext<'_>,
) -> Result<Transition, Problem> {
    let tag = answer?;
    let listing = context.world.listing()?;
    let judge = Judge { policy: &Policy::default(), context, listing: &listing };
    judge.transition(&tag.value, |_| Chooser::Author)
}

struct Judge<'a> {
    policy: &'a Policy,
    context: &'a JudgeContext<'a>,
    listing: &'a Listing,
}

impl Judge<'_> {
    fn tag(&self, tag: &Tag) -> Verdict {
        if let Some(problem) = ask::for_authors(tag) {
            return self.remind(problem.into());
        }
        let allowed = &self.policy.allowed;
        let matching: Vec<_> = allowed.iter().filter(|entry| self.matches(entry, tag)).collect();
        let entry = matching.first();
        if entry.is_none() && !allowed.is_empty() {
            return self.remind(Problem::NotAllowed { tag: written(tag) });
        }
        let chooser = |name: &str| {
            let is_declared = matching.iter().any(|entry| entry.declares(name));
            if is_declared { Chooser::Author } else { Chooser::Agent }
        };
        let filled = entry.filter(|entry| entry.tag == TagKind::Ask);
        let filled = filled.map(|entry| ask::filled(tag, entry));
        match self.transition(filled.as_ref().unwrap_or(tag), chooser) {
            Ok(transition) => Verdict::Accept(Accepted { transition, source: Source::Tag }),
            // The agent cannot change what the author prescribed: a reminder would cost money and change
            // nothing.
            Err(problem) if entry.is_some_and(|entry| is_authors(&problem, entry)) => {
                Verdict::Fail(problem)
            }
            Err(problem) => self.remind(problem),
        }
    }

    fn implicit(&self, entry: &AllowedTransition) -> Verdict {
        match self.transition(&authored(entry), |_| Chooser::Author) {
            Ok(transition) => Verdict::Accept(Accepted { transition, source: Source::Implicit }),
            Err(problem) => Verdict::Fail(problem),
        }
    }

    fn remind(&self, problem: Problem) -> Verdict {
        if self.policy.can_remind() { Verdict::Remind(problem) } else { Verdict::Fail(problem) }
    }

    /// Tag, target and every attribute that the entry names must match; the rest is free.
    fn matches(&self, entry: &AllowedTransition, tag: &Tag) -> bool {
        if entry.tag != tag.kind() {
            return false;
        }
        if entry.tag == TagKind::Ask {
            return ask::agrees(entry, tag, |one, other| self.same_state(one, other));
        }
        let target_matches = match (&entry.target, target_of(tag)) {
            (None, _) => true,
            (Some(allowed), Some(target)) => self.same_state(allowed, &target.value),
            (Some(_), None) => false,
        };
        target_matches
            && entry.attributes.iter().all(|(name, allowed)| match attribute_of(tag, name) {
                None => false,
                Some(value) if Some(name.as_str()) == entry.tag.continuation_attribute() => {
                    self.same_state(allowed, value)
                }
                Some(value) => value == allowed,
            })
    }

    /// Whether two names refer to the same file; a name that refers to none equals only itself.
    fn same_state(&self, one: &str, other: &str) -> bool {
        one == other
            || match (self.resolve(one), self.resolve(other)) {
                (Ok(one), Ok(other)) => one == other,
                _ => false,
            }
    }

    fn resolve(&self, name: &str) -> Result<StateName, ResolveError> {
        resolve(self.listing, name, self.context.world.platform())
    }

    /// `chooser` says who chose the name of a fork's attribute.
    fn transition(
        &self,
        tag: &Tag,
        chooser: impl Fn(&str) -> Chooser,
    ) -> Result<Transition, Problem> {
        let state = |target: &Target| self.resolve(&target.value);
        Ok(match tag {
            Tag::Goto { target } => Transition::Goto { target: state(target)? },
            Tag::Reset { target, cd } => {
                Transition::Reset { target: state(target)?, cd: self.directory(cd.as_ref())? }
            }
            Tag::Call { target, return_to } => {
                Transition::Call { target: state(target)?, return_to: state(return_to)? }
            }
            Tag::Function { target, return_to, model } => Transition::Function {
                target: state(target)?,
                return_to: state(return_to)?,
                model: model.as_ref().map(model_name).transpose()?,
            },
            Tag::Fork { target, next, cd, attributes } => Transition::Fork {
                target: state(target)?,
                next: state(next)?,
                cd: self.directory(cd.as_ref())?,
                attributes: attributes
                    .iter()
                    .map(|Attribute { name, value }| {
                        self.variable(&name.value, &value.value, chooser(&name.value))
                    })
                    .collect::<Result<_, _>>()?,
            },
            Tag::Ask(_) => {
                let JudgeContext { world, cwd } = self.context;
                let resolve = |name: &str| self.resolve(name);
                let question = ask::question::<Problem>(tag, cwd, *world, resolve)?;
                Transition::Ask(Box::new(question))
            }
            Tag::Result { payload } => Transition::Result { payload: payload.value.clone() },
        })
    }

    fn directory(&self, cd: Option<&Spanned<String>>) -> Result<Option<String>, Problem> {
        let Some(cd) = cd else {
            return Ok(None);
        };
        if cd.value.is_empty() {
            return Err(Problem::EmptyDirectory);
        }
        let JudgeContext { world, cwd } = self.context;
        let joined = Path::new(cwd).join(&cd.value);
        let path = joined.to_string_lossy().into_owned();
        match world.directory(&path) {
            Some(real) => Ok(Some(real)),
            None => Err(Problem::NoSuchDirectory { path }),
        }
    }

    fn variable(
        &self,
        name: &str,
        value: &str,
        chooser: Chooser,
    ) -> Result<(String, String), Problem> {
        let world = self.context.world;
        check_variable_name(name, chooser, world.platform(), |name| world.has_variable(name))?;
        Ok((name.to_owned(), value.to_owned()))
    }
}

/// Whether `problem` lies in what `entry` prescribes, not in what it leaves to the agent.
fn is_authors(problem: &Problem, entry: &AllowedTransition) -> bool {
    match problem {
        Problem::Unresolved(_) => entry.is_complete(),
        Problem::UnsafeAttribute(unsafe_name) => entry.attributes.contains_key(unsafe_name.name()),
        Problem::NoSuchDirectory { .. } | Problem::EmptyDirectory => {
            entry.attributes.contains_key("cd")
        }
        Problem::NotAModel { .. } => entry.attributes.contains_key("model"),
        Problem::Ask(problem) => {
            problem.attribute().is_some_and(|name| entry.attributes.contains_key(name))
        }
        Problem::World(_) => true,
        Problem::Tag(_) | Problem::NotAllowed { .. } => false,
    }
}

/// The model of a function: it becomes an argument of the coding agent.
fn model_name(model: &Spanned<String>) -> Result<String, Problem> {
    let model = &model.value;
    if is_word(model) && !looks_like_an_option(model) {
        Ok(model.clone())
    } else {
        Err(Problem::NotAModel { model: excerpt(model) })
    }
}

fn target_of(tag: &Tag) -> Option<&Target> {
    match tag {
        Tag::Goto { target }
        | Tag::Reset { target, .. }
        | Tag::Call { target, .. }
        | Tag::Function { target, .. }
        | Tag::Fork { target, .. } => Some(target),
        Tag::Ask(_) | Tag::Result { .. } => None,
    }
}

fn attribute_of<'t>(tag: &'t Tag, name: &str) -> Option<&'t str> {
    if let Tag::Ask(_) = tag {
        return ask::part(tag, name);
    }
    let value = match (tag, name) {
        (Tag::Call { return_to, .. } | Tag::Function { return_to, .. }, "return") => {
            Some(return_to)
        }
        (Tag::Fork { next, .. }, "next") => Some(next),
        (Tag::Reset { cd, .. } | Tag::Fork { cd, .. }, "cd") => cd.as_ref(),
        (Tag::Function { model, .. }, "model") => model.as_ref(),
        (Tag::Fork { attributes, .. }, name) => attributes
            .iter()
            .find(|attribute| attribute.name.value == name)
            .map(|attribute| &attribute.value),
        _ => None,
    };
    value.map(|value| value.value.as_str())
}

/// The tag that an entry with nothing left open stands for.
fn authored(entry: &AllowedTransition) -> Tag {
    let nowhere = |value: &str| Spanned::new(value.to_owned(), crate::text::Span::default());
    let attribute = |name: &str| entry.attributes.get(name).map(|value| nowhere(value));
    let target = nowhere(entry.target.as_deref().unwrap_or_default());
    match entry.tag {
        TagKind::Goto => Tag::Goto { target },
        TagKind::Reset => Tag::Reset { target, cd: attribute("cd") },
        TagKind::Call => {
            Tag::Call { target, return_to: attribute("return").unwrap_or_else(|| nowhere("")) }
        }
        TagKind::Function => Tag::Function {
            target,
            return_to: attribute("return").unwrap_or_else(|| nowhere("")),
            model: attribute("model"),
        },
        TagKind::Fork => Tag::Fork {
            target,
            next: attribute("next").unwrap_or_else(|| nowhere("")),
            cd: attribute("cd"),
            attributes: entry
                .attributes
                .iter()
                .filter(|(name, _)| !matches!(name.as_str(), "next" | "cd"))
                .map(|(name, value)| Attribute { name: nowhere(name), value: nowhere(value) })
                .collect(),
        },
        TagKind::Ask => ask::filled(&Tag::Ask(Box::default()), entry),
        TagKind::Result => Tag::Result { payload: nowhere("") },
    }
}

/// The tag in the protocol's own form, for a message.
fn written(tag: &Tag) -> String {
    let mut attributes = BTreeMap::new();
    for name in ["return", "next", "cd", "model", "question"] {
        attributes.extend(attribute_of(tag, name).map(|v| (name.to_owned(), v.to_owned())));
    }
    if let Tag::Fork { attributes: others, .. } = tag {
        let pairs = others.iter().map(|a| (a.name.value.clone(), a.value.value.clone()));
        attributes.extend(pairs);
    }
    let target = target_of(tag).map(|target| target.value.clone());
    AllowedTransition { tag: tag.kind(), target, attributes, declared: Vec::new() }.example()
}
