//! One start of one child process, as it was meant before it happened.

use serde::{Deserialize, Serialize};

use crate::{
    id::{SessionId, StateName},
    money::Usd,
    policy::Policy,
    source::Timeout,
};

/// A step's intent. It is durable before anything is started, and complete enough to judge the
/// outcome by, whenever and by whomever that is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Which one of its agent's steps, from 1.
    pub number: u32,
    /// The state file that is carried out.
    pub state: StateName,
    /// A fingerprint of that file as it was read; a reminder reads none.
    pub digest: Option<String>,
    /// How often this work has been started, this time included.
    pub attempt: u32,
    /// What is started.
    pub action: Action,
}

/// What a step starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A script; free.
    Script {
        /// How long it may stay silent.
        timeout: Timeout,
    },
    /// A turn of a coding agent; paid.
    Turn(Turn),
}

/// One turn: a prompt in a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// In which session.
    pub session: SessionPlan,
    /// By which program and model.
    pub settings: TurnSettings,
    /// What the answer is judged by.
    pub policy: Policy,
    /// A fingerprint of the prompt.
    pub prompt_digest: String,
    /// Whether an earlier attempt may have left something in the session. If it did, the session
    /// is asked to go on, not given the prompt a second time.
    pub recovers: bool,
}

/// Who carries a turn out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnSettings {
    /// Which coding agent; `None` is the engine's default.
    pub agent: Option<String>,
    /// Which model; `None` is the coding agent's default.
    pub model: Option<String>,
    /// Which effort; `None` is the coding agent's default.
    pub effort: Option<String>,
    /// How long it may stay silent.
    pub timeout: Timeout,
    /// Whether it may do anything without asking.
    pub skip_permissions: bool,
    /// The tools that the state asks to use without asking; `None` if it says nothing.
    pub tools: Option<Vec<String>>,
    /// The permission mode that the state asks for.
    pub permissions: Option<String>,
}

/// How a turn's session comes about. Ids of new sessions are chosen beforehand, so that they are
/// known even if everything dies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionPlan {
    /// A new conversation.
    Fresh {
        /// Its id.
        id: SessionId,
    },
    /// The next turn of a conversation.
    Resume {
        /// Its id.
        id: SessionId,
    },
    /// A new conversation that begins with all that was said in another, which stays as it is.
    Branch {
        /// The other one.
        from: SessionId,
        /// The new one's id.
        id: SessionId,
    },
}

impl SessionPlan {
    /// The session in which the turn happens.
    pub fn id(&self) -> &SessionId {
        match self {
            Self::Fresh { id } | Self::Resume { id } | Self::Branch { id, .. } => id,
        }
    }
}

/// What a step reported of itself: what it cost, what it was not given, where it happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// In money.
    pub cost_usd: Usd,
    /// In tokens.
    pub tokens: Tokens,
    /// On which model, as it calls itself.
    pub model: Option<String>,
    /// How long it took.
    pub duration_ms: u64,
    /// What it asked for and was not allowed to do. It went on without, so a person should know.
    pub denied: Vec<String>,
    /// The session of the turn, if the coding agent reported it.
    pub session: Option<SessionId>,
}

/// Tokens as providers bill them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Read anew.
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
