//! A transition that can be followed: its states exist, its directory is known.

use std::{collections::BTreeMap, fmt};

use crate::{id::StateName, tag::TagKind};

use super::Question;

/// What an agent does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    /// Continue in the same session.
    Goto {
        /// The state to continue at.
        target: StateName,
    },
    /// Continue in a fresh session, with no pending returns.
    Reset {
        /// The state to continue at.
        target: StateName,
        /// The new working directory; absolute.
        cd: Option<String>,
    },
    /// Do a subtask in a branch of the session.
    Call {
        /// The state that does the subtask.
        target: StateName,
        /// The state to continue at with its result.
        return_to: StateName,
    },
    /// Do a subtask in a fresh session.
    Function {
        /// The state that does the subtask.
        target: StateName,
        /// The state to continue at with its result.
        return_to: StateName,
        /// The model for its states that name none.
        model: Option<String>,
    },
    /// Start a worker and continue.
    Fork {
        /// The worker's first state.
        target: StateName,
        /// The state at which the parent continues.
        next: StateName,
        /// The worker's working directory; absolute.
        cd: Option<String>,
        /// The worker's variables.
        attributes: BTreeMap<String, String>,
    },
    /// Ask a person, and go on with the answer in the same session.
    Ask(Box<Question>),
    /// Return to the caller, or end.
    Result {
        /// The result.
        payload: String,
    },
}

impl Transition {
    /// The tag that asks for it.
    pub fn kind(&self) -> TagKind {
        match self {
            Self::Goto { .. } => TagKind::Goto,
            Self::Reset { .. } => TagKind::Reset,
            Self::Call { .. } => TagKind::Call,
            Self::Function { .. } => TagKind::Function,
            Self::Fork { .. } => TagKind::Fork,
            Self::Ask(_) => TagKind::Ask,
            Self::Result { .. } => TagKind::Result,
        }
    }
}

impl fmt::Display for Transition {
    /// The tag that an agent would write for it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Goto { target } => write!(f, "<goto>{target}</goto>"),
            Self::Reset { target, cd } => {
                f.write_str("<reset")?;
                attribute(f, "cd", cd.as_deref())?;
                write!(f, ">{target}</reset>")
            }
            Self::Call { target, return_to } => {
                write!(f, "<call return=\"{return_to}\">{target}</call>")
            }
            Self::Function { target, return_to, model } => {
                write!(f, "<function return=\"{return_to}\"")?;
                attribute(f, "model", model.as_deref())?;
                write!(f, ">{target}</function>")
            }
            Self::Fork { target, next, cd, attributes } => {
                write!(f, "<fork next=\"{next}\"")?;
                attribute(f, "cd", cd.as_deref())?;
                for (name, value) in attributes {
                    attribute(f, name, Some(value))?;
                }
                write!(f, ">{target}</fork>")
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

fn attribute(f: &mut fmt::Formatter<'_>, name: &str, value: Option<&str>) -> fmt::Result {
    match value {
        None => Ok(()),
        Some(value) if value.contains('"') => write!(f, " {name}='{value}'"),
        Some(value) => write!(f, " {name}=\"{value}\""),
    }
}
