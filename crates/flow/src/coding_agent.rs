//! What the language must know of the programs that carry out prompts: which there are, and what they
//! can do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::source::OPTION_KEYS;

/// What a coding agent can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a question of its own")]
pub struct Capabilities {
    /// It chooses the ids of its sessions and reports them. Otherwise Raymond chooses them beforehand.
    pub names_sessions: bool,
    /// It can begin a session with all that was said in another: `<call>` needs it.
    pub can_branch: bool,
    /// The cost of its turns is known: a budget needs it.
    pub reports_cost: bool,
    /// The session of a turn that was cut off has kept the prompt, so that it can be asked to go on.
    /// Otherwise the prompt is given again.
    pub can_continue: bool,
    /// It can be told which tools a turn may use: `tools` of a state needs it.
    pub limits_tools: bool,
    /// It has modes of permissions: `permissions` of a state needs it.
    pub has_permissions: bool,
    /// It stops a turn that has spent its share of the budget: `budget` of a state needs it. Otherwise a turn may
    /// exceed the run's budget.
    pub can_limit: bool,
    /// It has the options of Claude Code: `fallback_model`, `max_turns`, `system`, `mcp`, `add_dirs` and `schema` of a state
    /// need it.
    pub has_options: bool,
}

impl Capabilities {
    /// What Claude Code can do: everything, in sessions that Raymond names.
    pub const FULL: Self = Self {
        names_sessions: false,
        can_branch: true,
        reports_cost: true,
        can_continue: true,
        limits_tools: true,
        has_permissions: true,
        can_limit: true,
        has_options: true,
    };

    /// Whether it can do what this key of a state's frontmatter asks for.
    pub fn can_do(self, key: &str) -> bool {
        match key {
            "tools" => self.limits_tools,
            "permissions" => self.has_permissions,
            "budget" => self.can_limit,
            key => self.has_options || !OPTION_KEYS.contains(&key),
        }
    }
}

/// The coding agents that a run can use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodingAgents {
    /// The one for turns that name none.
    default: Capabilities,
    named: BTreeMap<String, Capabilities>,
    /// Whether the default takes every turn, whatever it asks for.
    #[serde(skip)]
    is_only: bool,
}

/// A name that no coding agent has.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is no coding agent `{name}`; known: {}", known.join(", "))]
pub struct UnknownAgent {
    /// The name.
    pub name: String,
    /// Those that there are.
    pub known: Vec<String>,
}

impl CodingAgents {
    /// These; `default` is for turns that name none.
    pub fn new(default: Capabilities, named: BTreeMap<String, Capabilities>) -> Self {
        Self { default, named, is_only: false }
    }

    /// One that takes every turn, whatever it asks for: for rehearsals.
    pub fn only(default: Capabilities) -> Self {
        Self { default, named: BTreeMap::new(), is_only: true }
    }

    /// What the one for turns that name none can do.
    pub fn default_capabilities(&self) -> Capabilities {
        self.default
    }

    /// Those that have names.
    pub fn named(&self) -> impl Iterator<Item = (&str, Capabilities)> {
        self.named.iter().map(|(name, can)| (name.as_str(), *can))
    }

    /// What the coding agent for a turn that asks for `name` can do.
    pub fn get(&self, name: Option<&str>) -> Result<Capabilities, UnknownAgent> {
        match name {
            Some(name) if !self.is_only => self.named.get(name).copied().ok_or_else(|| {
                let known = self.named.keys().cloned().collect();
                UnknownAgent { name: name.to_owned(), known }
            }),
            Some(_) | None => Ok(self.default),
        }
    }
}
