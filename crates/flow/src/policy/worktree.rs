//! The git worktree that a fork gives to its worker.

use serde::{Deserialize, Serialize};

use crate::formats::is_default;

/// A worktree as a fork asks for it, with the commit from which it is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorktreePlan {
    /// What its name and that of its branch end with, after the name of the worker; `None` if the worker's name is
    /// all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The checkout from which it is made; absolute.
    pub repository: String,
    /// The directory of the worker, relative to the top of the checkout; empty for the top itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub inside: String,
    /// The commit from which it is made: the parent's HEAD when it forked. What the parent commits later is not part of
    /// it, however long the worker waits for a place.
    pub commit: String,
}

/// The longest name: with that of the worker it must fit into the name of a file.
const NAME_BYTES_MAX: usize = 60;

/// The value of `worktree` that asks for a worktree named after the worker alone.
const AFTER_THE_WORKER: &str = "true";

/// Whether `text` can be the value of `worktree`. It becomes part of a path and of the name of a branch. `false` cannot: a
/// fork without a worktree has no such attribute.
pub(crate) fn is_worktree(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.chars().all(is_plain);
    is_name && text != "false"
}

/// The name that the value `text` of `worktree` asks for; `None` if the worker's name is all of it.
pub(crate) fn worktree_name(text: &str) -> Option<String> {
    (text != AFTER_THE_WORKER).then(|| text.to_owned())
}

impl WorktreePlan {
    /// The value of `worktree` that asks for it.
    pub fn word(&self) -> &str {
        self.name.as_deref().unwrap_or(AFTER_THE_WORKER)
    }

    /// The name of the worktree of worker `agent`. No two workers of a run have the same.
    pub fn name_for(&self, agent: &str) -> String {
        match &self.name {
            None => agent.to_owned(),
            // Names of agents have no dash.
            Some(name) => format!("{agent}-{name}"),
        }
    }
}
