//! The git worktree that a fork gives to its worker.

/// A worktree as a fork asks for it, with the commit from which it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorktreePlan {
    /// What its name and that of its branch end with, after the name of the worker; `None` if the worker's name is
    /// all of it.
    pub name: Option<String>,
    /// The checkout from which it is made; absolute.
    pub repository: String,
    /// The directory of the worker, relative to the top of the checkout; empty for the top itself.
    pub inside: String,
    /// The commit from which it is made: the parent's HEAD when it forked. What the parent commits later is not part of
    /// it, however long the worker waits for a place.
    pub commit: String,
}

/// The longest name: with that of the worker it must fit into the name of a file.
const NAME_BYTES_MAX: usize = 60;

/// The value of `worktree` that asks for a worktree named after the worker alone.
const AFTER_THE_WORKER: &str = "true";

/// The name that the value `text` of `worktree` asks for, if it can be one. It becomes part of a path and of the name of a
/// branch. `false` cannot: a fork without a worktree has no such attribute.
#[expect(clippy::option_option, reason = "no name is a value, too")]
pub(crate) fn worktree_name(text: &str) -> Option<Option<String>> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let is_name = !text.is_empty() && text.len() <= NAME_BYTES_MAX && text.chars().all(is_plain);
    match text {
        AFTER_THE_WORKER => Some(None),
        "false" => None,
        name => is_name.then(|| Some(name.to_owned())),
    }
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
