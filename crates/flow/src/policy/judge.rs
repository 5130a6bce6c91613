//! Tag, policy and scope in; verdict out.

use std::{cell::RefCell, collections::BTreeMap, path::Path};

use serde::{Deserialize, Serialize};

use crate::{
    id::StateName,
    scope::{Folder, ResolveError},
    tag::{Attribute, AttributeRole, Tag, TagError, TagKind, Target},
    text::{Span, Spanned, excerpt, is_word, looks_like_an_option},
    world::{Checkout, World, WorldError},
};

use super::{
    AllowedTransition, Chooser, Forked, Join, OnFailed, Policy, Problem, Transition, WorktreePlan,
    ask, check_variable_name, is_worktree, join::number, worktree_name,
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The agent wrote the tag.
    Tag,
    /// The policy allows only this transition, and the agent wrote no tag.
    Implicit,
    /// A person answered the agent's question.
    Answer,
}

/// What is needed to judge an answer besides its tag and the policy.
pub struct JudgeContext<'a> {
    /// The files and environment.
    pub world: &'a dyn World,
    /// The working directory of the agent.
    pub cwd: &'a str,
    /// The folder of the scope in which its names are looked up: that of its state.
    pub folder: &'a str,
}

impl<'a> JudgeContext<'a> {
    fn names(&self) -> Result<Folder<'a>, WorldError> {
        Folder::open(self.world, self.folder)
    }
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
    let names = match context.names() {
        Ok(names) => names,
        Err(error) => return Verdict::Fail(error.into()),
    };
    let judge = Judge { policy, context, names, checkouts: RefCell::default() };
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
    let names = context.names()?;
    let judge = Judge { policy: &Policy::default(), context, names, checkouts: RefCell::default() };
    judge.transition(&authored(entry), |_, _| Chooser::Author)
}

/// Judges the tag that a script printed. A script has no policy: the author of the workflow wrote it.
pub fn judge_script(
    answer: Result<Spanned<Tag>, TagError>,
    context: &JudgeContext<'_>,
) -> Result<Transition, Problem> {
    let tag = answer?;
    let names = context.names()?;
    let judge = Judge { policy: &Policy::default(), context, names, checkouts: RefCell::default() };
    judge.transition(&tag.value, |_, _| Chooser::Author)
}

struct Judge<'a> {
    policy: &'a Policy,
    context: &'a JudgeContext<'a>,
    names: Folder<'a>,
    /// The checkouts that were asked for, by directory.
    checkouts: RefCell<BTreeMap<String, Result<Checkout, String>>>,
}

impl Judge<'_> {
    fn tag(&self, tag: &Tag) -> Verdict {
        if let Some(problem) = ask::for_authors(tag) {
            return self.remind(problem.into());
        }
        let allowed = &self.policy.allowed;
        let further = &tag.more;
        for tag in std::iter::once(tag).chain(further.iter().map(|fork| &fork.value)) {
            let mut matching = self.matching(tag).peekable();
            if matching.peek().is_none() && !allowed.is_empty() {
                return self.remind(Problem::NotAllowed { tag: written(tag) });
            }
            if !further.is_empty() && !matching.any(|entry| entry.many) {
                return self.remind(Problem::SeveralForks { count: 1 + further.len() });
            }
        }
        let entry = self.matching(tag).next();
        let chooser = |tag: &Tag, name: &str| {
            let is_declared = self.matching(tag).any(|entry| entry.declares(name));
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
        match self.transition(&authored(entry), |_, _| Chooser::Author) {
            Ok(transition) => Verdict::Accept(Accepted { transition, source: Source::Implicit }),
            Err(problem) => Verdict::Fail(problem),
        }
    }

    fn remind(&self, problem: Problem) -> Verdict {
        if self.policy.can_remind() { Verdict::Remind(problem) } else { Verdict::Fail(problem) }
    }

    /// The entries of the policy that allow `tag`.
    fn matching(&self, tag: &Tag) -> impl Iterator<Item = &AllowedTransition> {
        self.policy.allowed.iter().filter(move |entry| self.matches(entry, tag))
    }

    /// Tag, target and every attribute that the entry names must match; the rest is free.
    fn matches(&self, entry: &AllowedTransition, tag: &Tag) -> bool {
        if entry.tag != tag.kind {
            return false;
        }
        if entry.tag == TagKind::Ask {
            return ask::agrees(entry, tag, |one, other| self.same_state(one, other));
        }
        let target_matches = match (&entry.target, tag.target()) {
            (None, _) => true,
            (Some(allowed), Some(target)) => self.same_state(allowed, &target.value),
            (Some(_), None) => false,
        };
        target_matches
            && entry.attributes.iter().all(|(name, allowed)| match tag.attribute(name) {
                // The entry completes the tag: isolation must not depend on what a model remembers to write.
                None => entry.tag.role_of(name) == Some(AttributeRole::Worktree),
                Some(value) if Some(name.as_str()) == entry.tag.continuation_attribute() => {
                    self.same_state(allowed, &value.value)
                }
                Some(value) => value.value == *allowed,
            })
    }

    /// Whether two names refer to the same file; a name that refers to none equals only itself.
    fn same_state(&self, one: &str, other: &str) -> bool {
        one == other
            || match (self.names.target(one), self.names.target(other)) {
                (Ok(one), Ok(other)) => one == other,
                _ => false,
            }
    }

    /// A state of the agent's own folder.
    fn resolve(&self, name: &str) -> Result<StateName, ResolveError> {
        self.names.state(name)
    }

    /// The target of a tag that may enter a subworkflow.
    fn target(&self, target: &Target) -> Result<StateName, Problem> {
        self.names.target(&target.value).map_err(|error| {
            if let ResolveError::Unlisted(error) = error { error.into() } else { error.into() }
        })
    }

    /// `chooser` says who chose the name of a variable in a tag.
    fn transition(
        &self,
        tag: &Tag,
        chooser: impl Fn(&Tag, &str) -> Chooser,
    ) -> Result<Transition, Problem> {
        let text = |name: &str| tag.attribute(name).map(|text| text.value.clone());
        let here = || self.resolve(&tag.content.value);
        let directory = || self.directory(tag.attribute("cd"));
        Ok(match tag.kind {
            TagKind::Goto => Transition::Goto { target: here()?, input: text("input") },
            TagKind::Reset => {
                Transition::Reset { target: here()?, cd: directory()?, input: text("input") }
            }
            TagKind::Call => Transition::Call {
                target: self.target(&tag.content)?,
                return_to: self.continuation(tag)?,
                cd: directory()?,
                input: text("input"),
                arguments: self.variables(tag, &chooser)?,
            },
            TagKind::Function => Transition::Function {
                target: self.target(&tag.content)?,
                return_to: self.continuation(tag)?,
                cd: directory()?,
                model: tag.attribute("model").map(model_name).transpose()?,
                input: text("input"),
                arguments: self.variables(tag, &chooser)?,
            },
            TagKind::Fork => self.fork(tag, &chooser)?,
            TagKind::Join => Transition::Join(Join {
                target: here()?,
                count: whole_number("count", tag.attribute("count"))?,
                failed: tag.attribute("failed").map(on_failed).transpose()?.unwrap_or_default(),
                input: text("input"),
            }),
            TagKind::Ask => {
                let JudgeContext { world, cwd, .. } = self.context;
                let resolve = |name: &str| self.resolve(name);
                let question = ask::question::<Problem>(tag, cwd, *world, resolve)?;
                Transition::Ask(Box::new(question))
            }
            TagKind::Result => Transition::Result { payload: tag.content.value.clone().into() },
        })
    }

    /// The state at which the agent itself continues.
    fn continuation(&self, tag: &Tag) -> Result<StateName, ResolveError> {
        self.resolve(tag.continuation().map_or("", |target| &target.value))
    }

    /// One fork, or all of one answer.
    fn fork(
        &self,
        tag: &Tag,
        chooser: &impl Fn(&Tag, &str) -> Chooser,
    ) -> Result<Transition, Problem> {
        let (next, first) = self.forked(tag, chooser)?;
        let mut workers = vec![first];
        for fork in &tag.more {
            let (other, worker) = self.forked(&fork.value, chooser)?;
            if other != next {
                return Err(Problem::DifferentNext { one: next, other });
            }
            workers.push(worker);
        }
        Ok(Transition::Fork { next, workers })
    }

    /// Where the parent goes on, and the worker.
    fn forked(
        &self,
        tag: &Tag,
        chooser: &impl Fn(&Tag, &str) -> Chooser,
    ) -> Result<(StateName, Forked), Problem> {
        let cd = self.directory(tag.attribute("cd"))?;
        let declared = || self.matching(tag).find_map(|entry| entry.attributes.get("worktree"));
        let worktree = tag.attribute("worktree").map(|text| &text.value).or_else(declared);
        let worker = Forked {
            target: self.target(&tag.content)?,
            attributes: self.variables(tag, chooser)?,
            limit: whole_number("limit", tag.attribute("limit"))?,
            worktree: worktree.map(|text| self.worktree(text, cd.as_deref())).transpose()?,
            cd,
            input: tag.attribute("input").map(|input| input.value.clone()),
        };
        Ok((self.continuation(tag)?, worker))
    }

    /// The worktree that `text` asks for, from the checkout that has the worker's directory.
    fn worktree(&self, text: &str, cd: Option<&str>) -> Result<Box<WorktreePlan>, Problem> {
        if !is_worktree(text) {
            return Err(Problem::NotAWorktree { text: excerpt(text) });
        }
        let name = worktree_name(text);
        let JudgeContext { world, cwd, .. } = self.context;
        let directory = cd.unwrap_or(cwd);
        // Asked once for all forks of an answer: the world looks at all files for it.
        let mut asked = self.checkouts.borrow_mut();
        let checkout =
            asked.entry(directory.to_owned()).or_insert_with(|| world.checkout(directory));
        let checkout = checkout.clone().map_err(|why| Problem::NoWorktree { why })?;
        let Checkout { repository, inside, commit } = checkout;
        Ok(Box::new(WorktreePlan { name, repository, inside, commit }))
    }

    fn variables(
        &self,
        tag: &Tag,
        chooser: &impl Fn(&Tag, &str) -> Chooser,
    ) -> Result<BTreeMap<String, String>, Problem> {
        tag.variables()
            .map(|Attribute { name, value }| {
                self.variable(&name.value, &value.value, chooser(tag, &name.value))
            })
            .collect()
    }

    fn directory(&self, cd: Option<&Spanned<String>>) -> Result<Option<String>, Problem> {
        let Some(cd) = cd else {
            return Ok(None);
        };
        if cd.value.is_empty() {
            return Err(Problem::EmptyDirectory);
        }
        let JudgeContext { world, cwd, .. } = self.context;
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
        Problem::NotANumber { attribute, .. } => entry.attributes.contains_key(*attribute),
        Problem::NotOnFailed { .. } => entry.attributes.contains_key("failed"),
        Problem::NotAWorktree { .. } | Problem::NoWorktree { .. } => {
            entry.attributes.contains_key("worktree")
        }
        Problem::Ask(problem) => {
            problem.attribute().is_some_and(|name| entry.attributes.contains_key(name))
        }
        Problem::World(_) => true,
        Problem::Tag(_)
        | Problem::Output(_)
        | Problem::NotAllowed { .. }
        | Problem::SeveralForks { .. }
        | Problem::DifferentNext { .. } => false,
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

/// The `limit` of a fork or the `count` of a join.
fn whole_number(
    attribute: &'static str,
    text: Option<&Spanned<String>>,
) -> Result<Option<u32>, Problem> {
    let Some(Spanned { value, .. }) = text else { return Ok(None) };
    match number(value) {
        Some(number) => Ok(Some(number)),
        None => Err(Problem::NotANumber { attribute, text: excerpt(value) }),
    }
}

fn on_failed(text: &Spanned<String>) -> Result<OnFailed, Problem> {
    let text = &text.value;
    OnFailed::of_word(text).ok_or_else(|| Problem::NotOnFailed { text: excerpt(text) })
}

/// The tag that an entry with nothing left open stands for.
fn authored(entry: &AllowedTransition) -> Tag {
    let nowhere = |value: &str| Spanned::new(value.to_owned(), Span::default());
    let content = nowhere(entry.target.as_deref().unwrap_or_default());
    if entry.tag == TagKind::Ask {
        return ask::filled(&Tag::new(entry.tag, content, Vec::new()), entry);
    }
    let pairs = entry.attributes.iter();
    let attributes = pairs.map(|(n, v)| Attribute { name: nowhere(n), value: nowhere(v) });
    Tag::new(entry.tag, content, attributes.collect())
}

/// The tag in the protocol's own form, for a message.
fn written(tag: &Tag) -> String {
    let pairs = tag.attributes.iter().map(|a| (a.name.value.clone(), a.value.value.clone()));
    let question = ask::part(tag, "question").map(|text| ("question".to_owned(), text.to_owned()));
    let attributes = pairs.chain(question).collect();
    let target = tag.target().map(|target| target.value.clone());
    let (declared, many) = (Vec::new(), false);
    AllowedTransition { tag: tag.kind, target, attributes, declared, many }.example()
}
