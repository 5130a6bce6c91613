//! Everything that the machine may ask for.
//!
//! Effects are never journalled: after a crash, [`pending`](super::pending) derives them from the
//! run. So every effect says what happens when it is asked for twice.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    formats::is_default,
    id::{AgentId, AskId, StateName, StepId},
    payload::Payload,
    policy::{Question, WorktreePlan},
};

use super::{Message, Step, Worktree};

/// Something that the engine shall do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Look at the workflow's files and prepare this agent's next step with
    /// [`turn::prepare`](crate::turn::prepare). Reads only, so it may be repeated and needs
    /// nothing to be durable first.
    Prepare {
        /// The agent whose step is prepared.
        agent: AgentId,
    },
    /// Start a child. Its intent must be durable first. The id names this start for ever: the engine starts
    /// each id at most once, and finds what it left by its name.
    Launch {
        /// The id of the step.
        id: StepId,
        /// The intent of the step.
        step: Box<Step>,
        /// The working directory.
        cwd: String,
        /// What the child is given.
        launch: Launch,
    },
    /// Find out what became of a step whose intent is durable but whose outcome is not: read its outcome, wait
    /// for it, or report that it is lost.
    Reattach {
        /// The id of the step.
        id: StepId,
        /// The intent of the step.
        step: Box<Step>,
    },
    /// Wait before a retry. Waiting twice costs only time.
    Wait {
        /// The agent that retries.
        agent: AgentId,
        /// The wait, in milliseconds.
        delay_ms: u64,
    },
    /// Put a question to a person and wait for the answer, until the deadline if it has one. A question that
    /// was put before is not put again, and an answer that is there is delivered at once.
    Ask {
        /// Which question.
        id: AskId,
        /// The state that asks.
        state: StateName,
        /// The question.
        question: Box<Question>,
        /// The directory of the files to show.
        cwd: String,
    },
    /// Give a running turn a message, if its coding agent takes messages during a turn. One that was given before is
    /// found by its id, and not given again.
    Tell {
        /// The step of the turn.
        step: StepId,
        /// The message.
        message: Message,
    },
    /// Make a worktree for a worker. One that was made for it before, completely or not, is found by its name and
    /// used, or made again if nobody can have worked in it.
    MakeWorktree {
        /// The worker.
        agent: AgentId,
        /// The worktree.
        plan: Box<WorktreePlan>,
    },
    /// Commit what a worker leaves in its worktree. If nothing is left to commit, that is reported.
    SaveWorktree {
        /// The worker.
        agent: AgentId,
        /// Its worktree.
        worktree: Box<Worktree>,
    },
    /// Wait until the provider's usage limit is lifted.
    WaitForUsageLimit {
        /// When it is lifted, in seconds since 1970; `None` if the provider did not say.
        resets_at: Option<u64>,
    },
}

/// What a child is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Launch {
    /// For a script.
    Script {
        /// The variables that Raymond sets.
        environment: BTreeMap<String, Payload>,
    },
    /// For a turn.
    Turn {
        /// The prompt.
        prompt: String,
        /// The message to send instead if the session already contains the prompt.
        continuation: String,
        /// The messages that the session should contain if it contains the prompt. A process that was killed may not have
        /// saved them.
        #[serde(default, skip_serializing_if = "is_default")]
        earlier: Vec<Message>,
        /// Files that the prompt names, by path, and what must be in them.
        files: BTreeMap<String, Payload>,
    },
}
