//! Everything that can happen to a run.
//!
//! Whatever the machine cannot know by itself enters here as a field: what a file said, how a
//! child ended, which id a new session has, when a limit is lifted.

use thiserror::Error;

use crate::{
    id::{AgentId, AskId, StepId},
    policy::{Source, Transition},
};

use super::{
    Evaluation, Halt, Launch, Left, Limits, Overrider, Response, Settings, Spent, Step, Work,
};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// An agent's next step was prepared: the answer to [`Effect::Prepare`](super::Effect::Prepare).
    Prepared {
        /// Whose.
        agent: AgentId,
        /// What it will be, or why there can be none.
        prepared: Result<Prepared, String>,
    },
    /// A step ended: the answer to [`Effect::Launch`](super::Effect::Launch) and
    /// [`Effect::Reattach`](super::Effect::Reattach).
    Ended {
        /// Which.
        step: StepId,
        /// What it cost, however it ended.
        spent: Spent,
        /// What its outcome means.
        conclusion: Conclusion,
    },
    /// The wait before another try is over: the answer to [`Effect::Wait`](super::Effect::Wait).
    Woke {
        /// Whose.
        agent: AgentId,
    },
    /// A question was answered: the answer to [`Effect::Ask`](super::Effect::Ask).
    Answered {
        /// Which question.
        id: AskId,
        /// What was answered.
        response: Box<Response>,
    },
    /// The usage limit is lifted: the answer to
    /// [`Effect::WaitForUsageLimit`](super::Effect::WaitForUsageLimit).
    UsageLimitLifted,
    /// Nothing new may start.
    Halt(Halt),
    /// Somebody continues a run that ended, was interrupted or died. Carries no effects: ask
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Prepared {
    /// Start this.
    Start {
        /// The intent.
        step: Box<Step>,
        /// What must be handed to the child.
        launch: Launch,
    },
    /// Nothing has to start: an answer that was refused before is good now.
    Settled(Conclusion),
}

/// What the outcome of a step means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// A transition to follow.
    Follow {
        /// Which.
        transition: Transition,
        /// Where it comes from.
        source: Source,
        /// The answer's session; `None` for a script.
        session: Option<crate::id::SessionId>,
        /// What it takes the place of, if an evaluator decided so.
        replaced: Option<Replaced>,
    },
    /// A valid transition that an evaluator must be asked about first.
    Evaluate(Box<Evaluation>),
    /// An answer that breaks the protocol; the agent can be told.
    Remind {
        /// What is wrong.
        problem: String,
        /// The reminder to be given.
        work: Work,
        /// What to take up again when reminders do not help.
        otherwise: Work,
    },
    /// Nothing more can be done.
    Fail {
        /// Why.
        error: String,
        /// What to take up again if the run is continued.
        work: Work,
        /// Whether it stops the whole run, as a script's failure does.
        is_fatal: bool,
    },
    /// The same work must be started again.
    Again {
        /// Why.
        why: Again,
        /// What the start may have left.
        left: Option<Left>,
    },
}

/// A transition that was not followed because an evaluator knew better.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// What the agent asked for.
    pub asked: Transition,
    /// Who decided.
    pub by: Overrider,
}

/// Why work must be started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Again {
    /// The coding agent failed.
    Failed(Failure),
    /// Nobody knows how the step ended.
    Lost,
    /// It was never started.
    NotStarted,
    /// It was ended on purpose, with the run.
    Interrupted,
}

/// A coding agent did not answer.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct Failure {
    /// Of which kind.
    pub class: FailureClass,
    /// In its own words.
    pub message: String,
}

/// Failures told apart by what follows from them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureClass {
    /// Overload, network, server: a transient failure.
    Transient {
        /// How long to wait at least, if the provider said so.
        retry_after_ms: Option<u64>,
    },
    /// The provider's usage limit: passes at a known time.
    UsageLimit {
        /// When, in seconds since 1970; `None` if it did not say.
        resets_at: Option<u64>,
    },
    /// The turn reached what was left of the run's budget.
    Budget,
    /// Nobody is logged in, or the key is wrong.
    Authentication,
    /// No money at the provider.
    Billing,
    /// No such model.
    UnknownModel,
    /// The session that should go on does not exist.
    SessionMissing,
    /// The program is not installed.
    NotInstalled,
    /// The program does not take what it is given: an argument, a setting, a permission.
    Misconfigured,
    /// The prompt does not fit.
    PromptTooLong,
    /// The model will not answer this.
    Refused,
    /// The program was killed by somebody else.
    Killed,
    /// The program printed nothing for too long.
    TimedOut,
    /// Anything else.
    Other,
}
