//! What a run was started with, and may be continued with otherwise.

use crate::{money::Usd, source::Timeout};

/// Defaults for everything that a state does not say itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// The model; `None` leaves the choice to the coding agent.
    pub model: Option<String>,
    /// The effort; `None` leaves the choice to the coding agent.
    pub effort: Option<String>,
    /// How long a step may stay silent.
    pub timeout: Option<Timeout>,
    /// Which coding agent; `None` is the engine's default.
    pub agent: Option<String>,
    /// Whether coding agents may do anything without asking.
    pub skip_permissions: bool,
    /// What a usage limit does to the run.
    pub on_usage_limit: OnUsageLimit,
    /// What a question to a person does to the run.
    pub on_ask: OnAsk,
}

/// What a question to a person does to the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnAsk {
    /// The agent waits for the answer.
    #[default]
    Wait,
    /// The agent waits. When only questions are left, the run is paused and ends.
    Pause,
    /// The question's default is the answer. Without a default the agent fails.
    Default,
    /// The agent fails.
    Fail,
}

/// What a usage limit of the model's provider does to the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUsageLimit {
    /// All agents wait until it is lifted.
    #[default]
    Wait,
    /// The run is paused and ends; it can be continued later.
    Pause,
}

/// How far a run may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// What all agents together may spend; `None` is no limit.
    pub budget_usd: Option<Usd>,
    /// How many states all agents together may enter; `None` is no limit.
    pub max_iterations: Option<u64>,
    /// How many turns of coding agents may run at once. Scripts do not count.
    pub max_parallel: u32,
    /// How often an agent is reminded of the protocol in one state.
    pub max_reminders: u32,
    /// How often a turn is tried again after a failure that may pass.
    pub max_retries: u32,
    /// How often a step is started whose outcome nobody knows.
    pub max_attempts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            budget_usd: Some(Usd::from_billionths(10_000_000_000)),
            max_iterations: None,
            // A coding agent takes some 300 MB.
            max_parallel: 16,
            max_reminders: 3,
            max_retries: 3,
            max_attempts: 3,
        }
    }
}
