//! The settings and limits of a run. They can be changed when the run is resumed.

use serde::{Deserialize, Serialize};

use crate::{formats::is_default, money::Usd, source::Timeout};

/// Defaults for what a state does not set itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The model; `None` leaves the choice to the coding agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort; `None` leaves the choice to the coding agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// How long a step may print nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Timeout>,
    /// The coding agent; `None` is the engine's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether coding agents may use every tool without asking.
    #[serde(default, skip_serializing_if = "is_default")]
    pub skip_permissions: bool,
    /// What a usage limit of the provider does to the run.
    pub on_usage_limit: OnUsageLimit,
    /// From which use of a provider's window on the run takes its limit as reached, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_max: Option<u32>,
    /// What a question to a person does to the run.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_ask: OnAsk,
    /// Which coding agents stand in for each other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub failover: Failover,
}

/// Which coding agents stand in for each other when the provider of one is not available.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failover {
    /// Their names, the preferred one first; empty if none stands in for another.
    pub order: Vec<String>,
    /// Whether a turn in a session begins afresh with the next one, with a summary, instead of waiting.
    #[serde(default, skip_serializing_if = "is_default")]
    pub handoff: bool,
}

/// What a question to a person does to the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnUsageLimit {
    /// All agents wait until it is lifted.
    #[default]
    Wait,
    /// The run is paused and ends; it can be resumed later.
    Pause,
}

/// Ten minutes: most outages of a provider are shorter.
pub(crate) const RETRY_FOR_MS: u64 = 600_000;

/// How far a run may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// What all agents together may spend; `None` is no limit.
    pub budget_usd: Option<Usd>,
    /// How many states all agents together may enter; `None` is no limit.
    pub max_iterations: Option<u64>,
    /// How many turns of coding agents may run at once. Scripts do not count.
    pub max_parallel: u32,
    /// How often an agent is reminded of the protocol in one state.
    pub max_reminders: u32,
    /// How often a turn is retried after a failure of an unknown kind, a timeout or a kill.
    pub max_retries: u32,
    /// How long the waits after transient failures of one turn may be in total. The turn is retried until
    /// they add up to this.
    pub retry_for_ms: u64,
    /// How often a step is started whose outcome is lost.
    pub max_attempts: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            budget_usd: Some(Usd::from_billionths(10_000_000_000)),
            max_iterations: None,
            // A coding agent takes about 300 MB of memory.
            max_parallel: 16,
            max_reminders: 3,
            max_retries: 3,
            retry_for_ms: RETRY_FOR_MS,
            max_attempts: 3,
        }
    }
}
