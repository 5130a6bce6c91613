//! A transition that can be followed: its states exist, its directory is known.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Serialize};

use crate::{formats::is_default, id::StateName, payload::Payload, tag::TagKind};

use super::{Join, OnFailed, Question, WorktreePlan};

/// What an agent does next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transition {
    /// Continue in the same session.
    Goto {
        /// The state to continue at.
        target: StateName,
        /// A text for the target state.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<String>,
    },
    /// Continue in a fresh session, with no pending returns.
    Reset {
        /// The state to continue at.
        target: StateName,
        /// The new working directory; absolute.
        #[serde(skip_serializing_if = "Option::is_none")]
        cd: Option<String>,
        /// A text for the target state.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<String>,
    },
    /// Do a subtask in a branch of the session.
    Call {
        /// The state that does the subtask.
        target: StateName,
        /// The state to continue at with its result.
        #[serde(rename = "return")]
        return_to: StateName,
        /// The working directory until the subtask returns; absolute.
        #[serde(skip_serializing_if = "Option::is_none")]
        cd: Option<String>,
        /// A text for the target state.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        /// Variables until the subtask returns.
        #[serde(default, skip_serializing_if = "is_default")]
        arguments: BTreeMap<String, String>,
    },
    /// Do a subtask in a fresh session.
    Function {
        /// The state that does the subtask.
        target: StateName,
        /// The state to continue at with its result.
        #[serde(rename = "return")]
        return_to: StateName,
        /// The working directory until the subtask returns; absolute.
        #[serde(skip_serializing_if = "Option::is_none")]
        cd: Option<String>,
        /// The model for its states that name none.
        #[serde(skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// A text for the target state.
        #[serde(skip_serializing_if = "Option::is_none")]
        input: Option<String>,
        /// Variables until the subtask returns.
        #[serde(default, skip_serializing_if = "is_default")]
        arguments: BTreeMap<String, String>,
    },
    /// Start workers and continue.
    Fork {
        /// The state at which the parent continues.
        next: StateName,
        /// The workers, at least one, in the order of the answer.
        workers: Vec<Forked>,
    },
    /// Wait for workers, then go on in the same session.
    Join(Join),
    /// Ask a person, and go on with the answer in the same session.
    Ask(Box<Question>),
    /// Return to the caller, or end.
    Result {
        /// The result.
        payload: Payload,
    },
}

/// A worker as a fork asks for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forked {
    /// Its first state.
    pub target: StateName,
    /// Its working directory; absolute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cd: Option<String>,
    /// Its variables.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attributes: BTreeMap<String, String>,
    /// How many workers of the parent may be under way; `None` is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The worktree that it gets; `None` if it works in the directory itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Box<WorktreePlan>>,
    /// A text for its first state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
}

impl Transition {
    /// A fork's workers, in the order of forking; none for other transitions.
    pub fn workers(&self) -> &[Forked] {
        if let Self::Fork { workers, .. } = self { workers } else { &[] }
    }

    /// The tag that asks for it.
    pub fn kind(&self) -> TagKind {
        match self {
            Self::Goto { .. } => TagKind::Goto,
            Self::Reset { .. } => TagKind::Reset,
            Self::Call { .. } => TagKind::Call,
            Self::Function { .. } => TagKind::Function,
            Self::Fork { .. } => TagKind::Fork,
            Self::Join(_) => TagKind::Join,
            Self::Ask(_) => TagKind::Ask,
            Self::Result { .. } => TagKind::Result,
        }
    }
}

impl fmt::Display for Transition {
    /// The tag that an agent would write for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goto { target, input } => {
                f.write_str("<goto")?;
                attribute(f, "input", input.as_deref())?;
                write!(f, ">{target}</goto>")
            }
            Self::Reset { target, cd, input } => {
                f.write_str("<reset")?;
                attribute(f, "cd", cd.as_deref())?;
                attribute(f, "input", input.as_deref())?;
                write!(f, ">{target}</reset>")
            }
            Self::Call { target, return_to, cd, input, arguments } => {
                write!(f, "<call return=\"{return_to}\"")?;
                attribute(f, "cd", cd.as_deref())?;
                attribute(f, "input", input.as_deref())?;
                attributes(f, arguments)?;
                write!(f, ">{target}</call>")
            }
            Self::Function { target, return_to, cd, model, input, arguments } => {
                write!(f, "<function return=\"{return_to}\"")?;
                attribute(f, "cd", cd.as_deref())?;
                attribute(f, "model", model.as_deref())?;
                attribute(f, "input", input.as_deref())?;
                attributes(f, arguments)?;
                write!(f, ">{target}</function>")
            }
            Self::Fork { next, workers } => {
                workers.iter().try_for_each(|worker| worker.write(f, next))
            }
            Self::Join(Join { target, count, failed, input }) => {
                f.write_str("<join")?;
                attribute(f, "count", count.map(|count| count.to_string()).as_deref())?;
                let failed = Some(*failed).filter(|failed| *failed != OnFailed::default());
                attribute(f, "failed", failed.map(OnFailed::word))?;
                attribute(f, "input", input.as_deref())?;
                write!(f, ">{target}</join>")
            }
            Self::Ask(question) => {
                let Question { text, next, choices, attach, .. } = &**question;
                let choices = choices.iter().map(|choice| {
                    let super::Choice { label, target } = choice;
                    format!("{label}={target}")
                });
                let choices = choices.collect::<Vec<_>>().join("|");
                let given = |text: String| Some(text).filter(|text| !text.is_empty());
                f.write_str("<ask")?;
                attribute(f, "next", next.as_ref().map(StateName::as_str))?;
                attribute(f, "choices", given(choices).as_deref())?;
                attribute(f, "attach", given(attach.join("|")).as_deref())?;
                write!(f, ">{text}</ask>")
            }
            Self::Result { payload } => write!(f, "<result>{payload}</result>"),
        }
    }
}

impl Forked {
    fn write(&self, f: &mut fmt::Formatter<'_>, next: &StateName) -> fmt::Result {
        write!(f, "<fork next=\"{next}\"")?;
        attribute(f, "cd", self.cd.as_deref())?;
        attribute(f, "limit", self.limit.map(|limit| limit.to_string()).as_deref())?;
        attribute(f, "worktree", self.worktree.as_deref().map(WorktreePlan::word))?;
        attribute(f, "input", self.input.as_deref())?;
        attributes(f, &self.attributes)?;
        write!(f, ">{}</fork>", self.target)
    }
}

fn attributes(f: &mut fmt::Formatter<'_>, pairs: &BTreeMap<String, String>) -> fmt::Result {
    pairs.iter().try_for_each(|(name, value)| attribute(f, name, Some(value)))
}

fn attribute(f: &mut fmt::Formatter<'_>, name: &str, value: Option<&str>) -> fmt::Result {
    match value {
        None => Ok(()),
        Some(value) if value.contains('"') => write!(f, " {name}='{value}'"),
        Some(value) => write!(f, " {name}=\"{value}\""),
    }
}
