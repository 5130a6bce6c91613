//! The intent of one start of one child process.

use serde::{Deserialize, Serialize};

use crate::{
    formats::is_default,
    id::{SessionId, StateName},
    money::Usd,
    policy::Policy,
    source::{Timeout, TurnOptions},
};

use super::UsageWindow;

/// A step's intent. It is durable before anything is started, and complete enough to judge the outcome,
/// whenever and by whichever orchestrator it is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// The number of the step within its agent, from 1.
    pub number: u32,
    /// The state file that is carried out.
    pub state: StateName,
    /// A fingerprint of that file as it was read; `None` for a reminder, which reads no file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The number of starts of this work, including this one.
    pub attempt: u32,
    /// The script or turn to start.
    pub action: Action,
}

impl Step {
    /// The coding agent that carries it out; `None` for a script, and if it has no name.
    pub fn coding_agent(&self) -> Option<&str> {
        let Action::Turn(turn) = &self.action else { return None };
        turn.settings.agent.as_deref()
    }

    /// Whether it is a turn in `session`, or one that branches off it.
    pub(super) fn is_in(&self, session: &SessionId) -> bool {
        let Action::Turn(turn) = &self.action else { return false };
        turn.session.id() == session || turn.session.source() == Some(session)
    }
}

/// What a step starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "a step is always in a box")]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A script, which costs nothing.
    Script {
        /// How long it may print nothing.
        timeout: Timeout,
    },
    /// A turn of a coding agent, which costs money.
    Turn(Turn),
}

/// One turn: a prompt in a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// The session of the turn.
    pub session: SessionPlan,
    /// The coding agent, model and effort.
    pub settings: TurnSettings,
    /// What the answer is judged by.
    #[serde(default, skip_serializing_if = "is_default")]
    pub policy: Policy,
    /// A fingerprint of the prompt.
    pub prompt_digest: String,
    /// Whether an earlier attempt may have left the prompt in the session. If it did, the session is asked to
    /// continue and is not given the prompt a second time.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recovers: bool,
    /// Whether the earlier attempt was stopped because it had spent its share of the budget. The session then has the
    /// prompt, and perhaps the whole answer.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spent_share: bool,
    /// The coding agent that it stands in for, if the one that was asked for is not available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<StandIn>,
    /// The messages that its prompt or its session contains, by their ids.
    #[serde(default, skip_serializing_if = "is_default")]
    pub given: Vec<String>,
    /// What the turn may spend: its share of the budget, reserved while it runs, or what is left of its state's own
    /// budget if that is less. `None` is no limit. Set by `decide` when the turn starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<Usd>,
}

/// A turn that another coding agent takes than the one that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StandIn {
    /// The coding agent that was asked for.
    pub of: String,
    /// The session that it cannot resume, and of which it is given a summary.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff_from: Option<SessionId>,
}

/// The coding agent and the settings that a turn is carried out with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnSettings {
    /// The coding agent; `None` is the engine's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The model; `None` is the coding agent's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort; `None` is the coding agent's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// How long it may print nothing.
    pub timeout: Timeout,
    /// Whether it may use every tool without asking.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_permissions: bool,
    /// The tools that the state asks to use without asking; `None` if it says nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The permission mode that the state asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<String>,
    /// The tools that a person has allowed since the state was entered, because the coding agent asked.
    #[serde(default, skip_serializing_if = "is_default")]
    pub granted: Vec<String>,
    /// What the state lets one turn spend, its retries included. It only narrows the turn's share of the run's budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<Usd>,
    /// Options that the state asks for.
    #[serde(default, skip_serializing_if = "is_default")]
    pub options: TurnOptions,
}

impl TurnSettings {
    /// The keys of the state that not every coding agent can do, as far as they are given.
    pub fn demands(&self) -> impl Iterator<Item = &'static str> {
        let keys = [
            ("tools", self.tools.is_some()),
            ("permissions", self.permissions.is_some()),
            ("budget", self.budget_usd.is_some()),
        ];
        let keys = keys.into_iter().filter_map(|(key, is_given)| is_given.then_some(key));
        keys.chain(self.options.keys())
    }
}

/// How a turn gets its session. Ids of new sessions are chosen beforehand, so that they are known even if
/// the orchestrator and the coding agent die.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionPlan {
    /// A new session.
    Fresh {
        /// The id of the new session.
        id: SessionId,
    },
    /// The next turn of a session.
    Resume {
        /// The id of the session.
        id: SessionId,
    },
    /// A new session that begins with the history of another one, which does not change.
    Branch {
        /// The session to branch off.
        from: SessionId,
        /// The id of the new session.
        id: SessionId,
        /// The directory of the session to branch off, if the turn runs in another one.
        #[serde(skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
    },
}

impl SessionPlan {
    /// The id of the session in which the turn runs.
    pub fn id(&self) -> &SessionId {
        match self {
            Self::Fresh { id } | Self::Resume { id } | Self::Branch { id, .. } => id,
        }
    }

    /// The session that it branches off.
    pub fn source(&self) -> Option<&SessionId> {
        match self {
            Self::Fresh { .. } | Self::Resume { .. } => None,
            Self::Branch { from, .. } => Some(from),
        }
    }
}

/// What a step reported: its cost, what it was denied, its session and its structured output.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// In money.
    pub cost_usd: Usd,
    /// Whether that is an estimate, at least in part: the turn ended before it could report all of it.
    #[serde(rename = "estimated", default, skip_serializing_if = "is_default")]
    pub is_estimate: bool,
    /// In tokens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tokens: Tokens,
    /// The model, as the coding agent reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The coding agent and its version, as in `claude 2.1.326`, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How long the step took.
    pub duration_ms: u64,
    /// The tools that it asked for and was denied. It continued without them, so the user should know.
    #[serde(default, skip_serializing_if = "is_default")]
    pub denied: Vec<String>,
    /// The session of the turn, if the coding agent reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionId>,
    /// The structured output of the turn, as JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// The messages that it took while it ran, by their ids.
    #[serde(default, skip_serializing_if = "is_default")]
    pub heard: Vec<String>,
    /// How much of its provider's limits is used, if the coding agent tells.
    #[serde(default, skip_serializing_if = "is_default")]
    pub windows: Vec<UsageWindow>,
    /// Why its cost is not known although the coding agent should have told it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// Tokens as providers bill them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read without the cache.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_write: u64,
}

impl std::ops::AddAssign for Tokens {
    fn add_assign(&mut self, other: Self) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
    }
}
