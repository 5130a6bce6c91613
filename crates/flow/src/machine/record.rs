//! Everything that can become true of a run.
//!
//! All records of one decision stand or fall together. How they lie on disk is told by
//! [`history`](crate::history), not here.

use std::collections::BTreeMap;

use crate::{
    id::{AgentId, RunId, SessionId, StateName},
    money::Usd,
    policy::{Source, Transition},
};

use super::{Evaluation, FailureClass, Left, Limits, Settings, Spent, Status, Step, Taken, Work};

/// One fact about a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The run began. Always the first record, and only that.
    Started(Box<Started>),
    /// An agent is about to start a step.
    Intended {
        /// Who.
        agent: AgentId,
        /// The step.
        step: Box<Step>,
    },
    /// A turn must wait because enough are under way.
    Queued {
        /// Whose.
        agent: AgentId,
    },
    /// A queued turn may go on.
    Called {
        /// Whose.
        agent: AgentId,
    },
    /// A step ended and was paid for. What follows from it is a later record of the same decision.
    Ended {
        /// Whose.
        agent: AgentId,
        /// Which one of its steps.
        number: u32,
        /// What it cost.
        spent: Spent,
    },
    /// An agent followed a transition.
    Followed {
        /// Who.
        agent: AgentId,
        /// The transition.
        transition: Transition,
        /// Who wanted it.
        via: Via,
        /// The session of the answer; `None` for a script, which leaves the session alone.
        session: Option<SessionId>,
        /// The agent that a fork started.
        worker: Option<AgentId>,
        /// The further agents that the same fork started.
        more_workers: Vec<AgentId>,
        /// How many pending returns a reset discarded. More than none is worth a warning.
        discarded_returns: usize,
    },
    /// The join of an agent is complete: it goes on with what these workers handed over.
    Joined {
        /// Who.
        agent: AgentId,
        /// The workers, in the order in which they are handed over.
        workers: Vec<Taken>,
    },
    /// A worker got its place among its siblings.
    Placed {
        /// Which.
        agent: AgentId,
    },
    /// An agent asked for one thing and something else happens.
    Overridden {
        /// Who.
        agent: AgentId,
        /// What it asked for.
        asked: Transition,
        /// Where that came from.
        source: Source,
        /// The session of the answer; `None` for a script.
        session: Option<SessionId>,
        /// Who decided otherwise.
        by: Overrider,
        /// What happens.
        instead: Instead,
    },
    /// An answer broke the protocol; the agent is told so.
    Reminded {
        /// Who.
        agent: AgentId,
        /// What was wrong.
        problem: String,
        /// The reminder.
        work: Work,
    },
    /// An evaluator is asked about a transition.
    Evaluating {
        /// Who asked for the transition.
        agent: AgentId,
        /// The question.
        evaluation: Box<Evaluation>,
    },
    /// The same work is started again.
    Retried {
        /// Who.
        agent: AgentId,
        /// Why.
        why: String,
        /// Which counter it uses up.
        counts_as: CountsAs,
        /// How long to wait before.
        delay_ms: u64,
        /// What the start may have left.
        left: Option<Left>,
    },
    /// The wait before another try is over.
    Woke {
        /// Whose.
        agent: AgentId,
    },
    /// An agent failed.
    Failed {
        /// Who.
        agent: AgentId,
        /// Why.
        error: String,
        /// Of which kind the failure is, if a coding agent failed.
        class: Option<FailureClass>,
        /// What is taken up again if the run is continued.
        work: Work,
        /// What a start of it may have left.
        left: Option<Left>,
        /// Whether the agent's session is gone, so that it can only go on in a fresh one.
        loses_session: bool,
    },
    /// Nothing new starts any more.
    Halted {
        /// Why.
        why: Halt,
    },
    /// The provider's usage limit was reached: all agents wait.
    UsageLimited {
        /// Until when, in seconds since 1970; `None` if it did not say.
        resets_at: Option<u64>,
    },
    /// The usage limit is over.
    UsageLimitLifted,
    /// The run ended.
    Finished {
        /// How.
        status: Status,
    },
    /// Somebody continued the run.
    Resumed {
        /// Settings from now on.
        settings: Settings,
        /// Limits from now on.
        limits: Limits,
    },
    /// A user changed the limits of the run.
    LimitsChanged {
        /// Limits from now on.
        limits: Limits,
    },
}

impl Record {
    /// The agent that it is about; `None` if it is about the whole run.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Intended { agent, .. }
            | Self::Queued { agent }
            | Self::Called { agent }
            | Self::Ended { agent, .. }
            | Self::Followed { agent, .. }
            | Self::Joined { agent, .. }
            | Self::Placed { agent }
            | Self::Overridden { agent, .. }
            | Self::Reminded { agent, .. }
            | Self::Evaluating { agent, .. }
            | Self::Retried { agent, .. }
            | Self::Woke { agent }
            | Self::Failed { agent, .. } => Some(agent),
            Self::Started(_)
            | Self::Halted { .. }
            | Self::UsageLimited { .. }
            | Self::UsageLimitLifted
            | Self::Finished { .. }
            | Self::Resumed { .. }
            | Self::LimitsChanged { .. } => None,
        }
    }
}

/// With what a run begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its id.
    pub workflow_id: RunId,
    /// Where its files come from: a folder or an archive.
    pub scope_dir: String,
    /// The first state.
    pub entry: StateName,
    /// The working directory of `main`; absolute.
    pub cwd: String,
    /// When, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// What the first state is given.
    pub input: Option<String>,
    /// Variables for all prompts.
    pub metadata: BTreeMap<String, String>,
    /// Defaults.
    pub settings: Settings,
    /// Limits.
    pub limits: Limits,
    /// A random value that the engine makes: it tells this run from any other of the same id.
    /// Empty in journals of programs that had none.
    pub identity: String,
}

/// Who wanted a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The agent wrote the tag.
    Tag,
    /// The policy left only one way.
    Implicit,
    /// An evaluator put it in the place of another.
    Evaluator,
    /// The state was visited too often, and says what is done then.
    Visits,
}

impl From<Source> for Via {
    fn from(source: Source) -> Self {
        match source {
            Source::Tag => Self::Tag,
            Source::Implicit => Self::Implicit,
        }
    }
}

/// Who overrode an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Overrider {
    /// A limit of the run.
    Limit(Limit),
    /// An evaluator whose pattern matched.
    Match {
        /// The pattern.
        pattern: String,
    },
    /// An evaluator that was asked.
    Prompt {
        /// Its state file.
        prompt: String,
    },
    /// A state that was visited as often as it may be.
    Visits {
        /// How often it may be.
        max_visits: u32,
    },
}

/// What happens in the place of what an agent asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Instead {
    /// Another transition.
    Follow(Transition),
    /// The agent is held, and the run stops.
    Stop,
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Money.
    Budget {
        /// What was spent.
        spent_usd: Usd,
        /// What could be.
        budget_usd: Usd,
    },
    /// States entered.
    Iterations {
        /// How many could be.
        max_iterations: u64,
    },
}

/// Which counter another start uses up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsAs {
    /// A retry after a failure that may pass.
    Retry,
    /// A lost outcome.
    Loss,
    /// None: it was nobody's fault.
    Nothing,
}

/// Why nothing new starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Halt {
    /// A script failed.
    ScriptFailed {
        /// Whose.
        agent: AgentId,
    },
    /// A limit was reached.
    Limit(Limit),
    /// Somebody pressed Ctrl-C or sent a signal.
    Interrupted,
    /// The provider's usage limit was reached and nobody wants to wait.
    UsageLimit {
        /// When it is lifted, in seconds since 1970.
        resets_at: Option<u64>,
    },
    /// The disk is nearly full.
    DiskLow {
        /// What is free.
        free_bytes: u64,
    },
    /// Somebody cancelled the run.
    Cancelled,
}
