//! Everything that the machine may ask for.
//!
//! Effects are never journalled: after a crash, [`pending`](super::pending) derives them from the
//! run. So every effect says what happens when it is asked for twice.

use std::collections::BTreeMap;

use crate::{
    id::{AgentId, StepId},
    money::Usd,
};

use super::Step;

/// A wish, addressed to the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Look at the workflow's files and prepare this agent's next step with
    /// [`turn::prepare`](crate::turn::prepare). Reads only, so it may be repeated and needs
    /// nothing to be durable first.
    Prepare {
        /// Whose.
        agent: AgentId,
    },
    /// Start a child. Its intent must be durable first. The id names the attempt for ever: the
    /// engine starts each id at most once and finds what it left by its name.
    Launch {
        /// Which step.
        id: StepId,
        /// Its intent.
        step: Box<Step>,
        /// Where it runs.
        cwd: String,
        /// What it is given.
        launch: Launch,
        /// What a turn may spend; `None` is no limit.
        budget_left_usd: Option<Usd>,
    },
    /// Find out what became of a step whose intent is durable but whose outcome is not: harvest
    /// it, wait for it, or say that it is lost.
    Reattach {
        /// Which step.
        id: StepId,
        /// Its intent.
        step: Box<Step>,
    },
    /// Wait before the next try, with some jitter. Waiting twice costs time only.
    Wait {
        /// Whose.
        agent: AgentId,
        /// How long.
        delay_ms: u64,
    },
    /// Wait until the provider's usage limit is lifted.
    WaitForUsageLimit {
        /// When, in seconds since 1970; `None` if nobody said.
        resets_at: Option<u64>,
    },
}

/// What a child is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Launch {
    /// For a script.
    Script {
        /// The variables that Raymond sets.
        environment: BTreeMap<String, String>,
    },
    /// For a turn.
    Turn {
        /// The prompt.
        prompt: String,
        /// What to say in its place if the session already has the prompt.
        continuation: String,
        /// Files that the prompt names, by path, and what must be in them.
        files: BTreeMap<String, String>,
    },
}
