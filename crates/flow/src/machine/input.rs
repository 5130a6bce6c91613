//! Everything that can happen to a run.
//!
//! What the machine cannot know by itself enters here as a field: what a file said, how a child ended,
//! which id a new session has, when a limit is lifted.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{
    id::{AgentId, AskId, StepId},
    policy::{Source, Transition},
};

use super::{
    Evaluation, Halt, Launch, Left, Limits, Message, Overrider, Response, SavedWork, Settings,
    Spent, Step, Work, worktree::MadeWorktree,
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "one exists at a time, and lives for one decision")]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// An agent's next step was prepared: the answer to [`Effect::Prepare`](super::Effect::Prepare).
    Prepared {
        /// The agent that the step is for.
        agent: AgentId,
        /// The step, or why it cannot be prepared.
        prepared: Result<Prepared, String>,
    },
    /// A step ended: the answer to [`Effect::Launch`](super::Effect::Launch) and
    /// [`Effect::Reattach`](super::Effect::Reattach).
    Ended {
        /// The step that ended.
        step: StepId,
        /// What it cost, however it ended.
        spent: Spent,
        /// What its outcome means.
        conclusion: Conclusion,
    },
    /// The wait before another try is over: the answer to [`Effect::Wait`](super::Effect::Wait).
    Woke {
        /// The agent that waited.
        agent: AgentId,
    },
    /// The worktree of a worker was made: the answer to [`Effect::MakeWorktree`](super::Effect::MakeWorktree).
    WorktreeMade {
        /// The worker.
        agent: AgentId,
        /// The worktree and the directory of the worker in it, or why it cannot be made.
        made: Result<MadeWorktree, String>,
    },
    /// What a worker leaves in its worktree was committed, or cannot be: the answer to
    /// [`Effect::SaveWorktree`](super::Effect::SaveWorktree).
    WorktreeSaved {
        /// The worker.
        agent: AgentId,
        /// What became of it.
        saved: SavedWork,
    },
    /// A question was answered: the answer to [`Effect::Ask`](super::Effect::Ask).
    Answered {
        /// Which question.
        id: AskId,
        /// What was answered.
        response: Box<Response>,
    },
    /// A person sends a message to an agent.
    Told {
        /// The agent.
        agent: AgentId,
        /// The message.
        message: Message,
    },
    /// The usage limit is lifted: the answer to
    /// [`Effect::WaitForUsageLimit`](super::Effect::WaitForUsageLimit).
    UsageLimitLifted,
    /// The provider's usage limit is known to be in effect: another run of this user has reached it. Comes instead of
    /// [`Prepared`](Self::Prepared), before a turn is paid for that would be refused.
    UsageLimited {
        /// The coding agent whose limit it is; `None` if it has no name.
        #[serde(skip_serializing_if = "Option::is_none")]
        coding_agent: Option<String>,
        /// When it is lifted, in seconds since 1970; `None` if the provider did not say.
        resets_at: Option<u64>,
    },
    /// Every effect so far was performed, and the loop that performs them is about to wait: only a message, a timer or a
    /// person can change the run.
    Idle,
    /// Nothing new may start.
    Halt(Halt),
    /// The user resumes a run that ended, was interrupted or died. Carries no effects: ask
    /// [`pending`](super::pending) once it is applied.
    Resume {
        /// Settings from now on.
        settings: Settings,
        /// Limits from now on.
        limits: Limits,
    },
    /// A user changes the limits, whether or not the run is under way.
    ChangeLimits {
        /// Limits from now on.
        limits: Limits,
    },
}

/// A step that can start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "one exists at a time, and lives for one decision")]
#[serde(rename_all = "snake_case")]
pub enum Prepared {
    /// Start this.
    Start {
        /// The intent.
        step: Box<Step>,
        /// What must be handed to the child.
        launch: Launch,
    },
    /// It has to wait, because its coding agent is not available.
    Blocked,
    /// Nothing has to start: an answer that was refused before is good now.
    Settled(Conclusion),
}

/// What the outcome of a step means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Conclusion {
    /// A transition to follow.
    Follow {
        /// The transition, with its states resolved.
        transition: Transition,
        /// Where it comes from.
        source: Source,
        /// The answer's session; `None` for a script.
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<crate::id::SessionId>,
        /// The transition that an evaluator replaced by this one, if one did.
        #[serde(skip_serializing_if = "Option::is_none")]
        replaced: Option<Replaced>,
    },
    /// A valid transition that an evaluator must be asked about first.
    Evaluate(Box<Evaluation>),
    /// An answer that breaks the protocol, in a state that lists what is allowed: the agent is reminded.
    Remind {
        /// What is wrong.
        problem: String,
        /// The reminder to give.
        work: Work,
        /// The work to retry when the run is resumed, if reminders do not help.
        otherwise: Work,
    },
    /// The agent fails.
    Fail {
        /// The reason, for the user.
        error: String,
        /// The work to retry when the run is resumed.
        work: Work,
        /// Whether it stops the whole run, as a script's failure does.
        is_fatal: bool,
    },
    /// The same work must be started again.
    Again {
        /// The reason.
        why: Again,
        /// What the failed start may have left in a session.
        #[serde(skip_serializing_if = "Option::is_none")]
        left: Option<Left>,
    },
}

/// A transition that was not followed because an evaluator replaced it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// What the agent asked for.
    pub asked: Transition,
    /// The evaluator that replaced it.
    pub by: Overrider,
}

/// Why work must be started again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Again {
    /// The coding agent failed.
    Failed(TurnFailure),
    /// The outcome of the step is lost.
    Lost,
    /// It was never started.
    NotStarted,
    /// Raymond killed it, together with the run.
    Interrupted,
    /// The disk was full when it ended: its output is not whole.
    NoRoom,
}

/// A coding agent did not answer.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
#[error("{message}")]
pub struct TurnFailure {
    /// The kind of failure, which decides what follows.
    pub class: FailureClass,
    /// The coding agent's own message.
    pub message: String,
}

/// Failures by what follows from them: a retry, a wait, or the end of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    /// Overload, network, server: a transient failure.
    Transient {
        /// How long to wait at least, if the provider said so.
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// The provider's usage limit: passes at a known time.
    UsageLimit {
        /// When, in seconds since 1970; `None` if it did not say.
        resets_at: Option<u64>,
    },
    /// The turn reached what it may spend: its share of the run's budget, or the budget of its state.
    Budget,
    /// The coding agent is not logged in, or its key is wrong.
    Authentication,
    /// The provider's account has no money.
    Billing,
    /// No such model.
    UnknownModel,
    /// The session to resume does not exist.
    SessionMissing,
    /// The program is not installed.
    NotInstalled,
    /// The program rejects an argument, a setting or a permission.
    Misconfigured,
    /// The program speaks differently from the versions that are known.
    NotUnderstood,
    /// The prompt, with all that its session has, is longer than the model accepts.
    PromptTooLong,
    /// The model's answer reached its largest length, again and again.
    AnswerTooLong,
    /// The model refuses to answer this prompt.
    Refused,
    /// The turn has asked the model as often as its state or the settings allow.
    MaxTurns,
    /// The coding agent itself gave up on a structured output that fits the schema.
    BadOutput,
    /// Another process killed the program.
    Killed,
    /// The program printed nothing for too long.
    TimedOut,
    /// Anything else.
    Other,
}
