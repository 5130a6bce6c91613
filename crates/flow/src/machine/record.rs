//! Everything that can become true of a run.
//!
//! All records of one decision are atomic. They are a durable format: see [`formats`](crate::formats).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    formats::is_default,
    id::{AgentId, AskId, RunId, SessionId, StateName, StepId},
    money::Usd,
    payload::Payload,
    policy::{Question, Source, Transition},
};

use super::{
    Evaluation, FailureClass, Left, Limits, Message, Response, SavedWork, Settings, Spent, Status,
    Step, Taken, Work, Worktree,
};

/// One fact about a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Record {
    /// The run began. Always the first record, and only that.
    Started(Box<Started>),
    /// An agent is about to start a step.
    Intended {
        /// The agent that intends the step.
        agent: AgentId,
        /// The intent of the step.
        step: Box<Step>,
    },
    /// A turn must wait because `max_parallel` turns are running.
    Queued {
        /// The agent whose turn waits.
        agent: AgentId,
    },
    /// A queued turn may start.
    Called {
        /// The agent whose turn is next.
        agent: AgentId,
    },
    /// A step ended and was paid for. What follows from it is a later record of the same decision.
    Ended {
        /// The agent whose step ended.
        agent: AgentId,
        /// The number of the step within the agent.
        number: u32,
        /// Its cost, tokens and duration.
        spent: Spent,
    },
    /// An agent followed a transition.
    Followed {
        /// The agent that followed it.
        agent: AgentId,
        /// The transition, with its states resolved.
        transition: Transition,
        /// Whether the agent, the policy or an evaluator chose it.
        via: Via,
        /// The session of the answer; `None` for a script, which leaves the session alone.
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// The agents that a fork started, in the order of its workers.
        #[serde(default, skip_serializing_if = "is_default")]
        workers: Vec<AgentId>,
        /// How many pending returns a reset discarded. More than none is worth a warning.
        #[serde(default, skip_serializing_if = "is_default")]
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
    /// The worktree of a worker was made, and the worker can start in it.
    WorktreeMade {
        /// The worker.
        agent: AgentId,
        /// The worktree.
        worktree: Box<Worktree>,
        /// The directory in which the worker starts; absolute.
        cwd: String,
    },
    /// What a worker leaves in its worktree was committed, or cannot be. It ends or fails now.
    WorktreeSaved {
        /// The worker.
        agent: AgentId,
        /// What became of it.
        saved: SavedWork,
    },
    /// An agent asked for a transition, and something else happens instead.
    Overridden {
        /// The agent that asked.
        agent: AgentId,
        /// What it asked for.
        asked: Transition,
        /// Whether the agent wrote a tag or the policy implied it.
        source: Source,
        /// The session of the answer; `None` for a script.
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
        /// The limit or evaluator that overrides it.
        by: Overrider,
        /// What happens instead.
        instead: Instead,
    },
    /// An agent asks a person, and waits for the answer.
    Asked {
        /// Who asks.
        agent: AgentId,
        /// Which one of its questions, from 1.
        number: u32,
        /// The question, with its deadline.
        question: Box<Question>,
        /// Who wanted it.
        via: Via,
        /// The session of the answer that asks; `None` for a script.
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<SessionId>,
    },
    /// A question was answered. That the answer is followed is a later record of the same decision.
    Answered {
        /// Who asked.
        agent: AgentId,
        /// Which one of its questions.
        number: u32,
        /// The answer.
        response: Box<Response>,
    },
    /// A person sent a message to an agent.
    Told {
        /// The agent that it is for.
        agent: AgentId,
        /// The message.
        message: Message,
    },
    /// Messages have reached an agent: its turn was answered, and knew them.
    Heard {
        /// The agent.
        agent: AgentId,
        /// The ids of the messages.
        messages: Vec<String>,
    },
    /// An answer broke the protocol; the agent is reminded.
    Reminded {
        /// The agent that is reminded.
        agent: AgentId,
        /// What was wrong.
        problem: String,
        /// The reminder to give.
        work: Work,
    },
    /// An evaluator is asked about a transition.
    Evaluating {
        /// The agent that asked for the transition.
        agent: AgentId,
        /// The transition and the evaluator that is asked about it.
        evaluation: Box<Evaluation>,
    },
    /// The same work is started again.
    Retried {
        /// The agent that retries.
        agent: AgentId,
        /// The reason, for the user.
        why: String,
        /// The counter that the retry increments.
        counts_as: CountsAs,
        /// The wait before the retry.
        delay_ms: u64,
        /// What the failed start may have left in a session.
        #[serde(skip_serializing_if = "Option::is_none")]
        left: Option<Left>,
    },
    /// The wait before another try is over.
    Woke {
        /// The agent that waited.
        agent: AgentId,
    },
    /// An agent failed.
    Failed {
        /// The agent that failed.
        agent: AgentId,
        /// The reason, for the user.
        error: String,
        /// The kind of failure, if a coding agent failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<FailureClass>,
        /// The work to retry when the run is resumed.
        work: Work,
        /// What a failed start of that work may have left in a session.
        #[serde(skip_serializing_if = "Option::is_none")]
        left: Option<Left>,
        /// Whether the agent's session is gone, so that it can only continue in a fresh one.
        #[serde(default, skip_serializing_if = "is_default")]
        loses_session: bool,
    },
    /// No new step starts.
    Halted {
        /// The reason.
        why: Halt,
    },
    /// The provider's usage limit was reached: all agents wait.
    UsageLimited {
        /// When it is lifted, in seconds since 1970; `None` if the provider did not say.
        resets_at: Option<u64>,
    },
    /// The provider of a coding agent is not available: others stand in for it.
    AgentStopped {
        /// The coding agent.
        coding_agent: String,
        /// The reason, for the user.
        why: String,
        /// When it is available again, in seconds since 1970; `None` if the provider did not say.
        #[serde(skip_serializing_if = "Option::is_none")]
        resets_at: Option<u64>,
    },
    /// The usage limit is over, and every coding agent is tried again.
    UsageLimitLifted,
    /// The run ended.
    Finished {
        /// How the run ended.
        status: Status,
    },
    /// The user resumed the run.
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
    /// Everything before this happened in another run. From here on it is a run of its own.
    Rewound {
        /// The other run.
        from: RunId,
        /// The step before which it was left, as in `main.3`; `None` if it was left as it was.
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<String>,
        /// The sessions to branch off instead of those that went on since.
        #[serde(default, skip_serializing_if = "is_default")]
        sessions: BTreeMap<SessionId, SessionId>,
    },
}

impl Record {
    /// The payload that the record hands on, for those who keep long ones elsewhere. Every other record that has one was made
    /// from the run, which has it from such a record.
    pub fn payload(&self) -> Option<&Payload> {
        let transition = if let Self::Followed { transition, .. }
        | Self::Overridden { asked: transition, .. } = self
        {
            transition
        } else if let Self::Evaluating { evaluation, .. } = self {
            &evaluation.transition
        } else {
            return None;
        };
        if let Transition::Result { payload } = transition { Some(payload) } else { None }
    }

    /// The same, to replace it.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        let transition = if let Self::Followed { transition, .. }
        | Self::Overridden { asked: transition, .. } = self
        {
            transition
        } else if let Self::Evaluating { evaluation, .. } = self {
            &mut evaluation.transition
        } else {
            return None;
        };
        if let Transition::Result { payload } = transition { Some(payload) } else { None }
    }

    /// With what the run began, if this is its first record.
    pub fn started(&self) -> Option<&Started> {
        if let Self::Started(started) = self { Some(started) } else { None }
    }

    /// The same, to change it.
    pub fn started_mut(&mut self) -> Option<&mut Started> {
        if let Self::Started(started) = self { Some(started) } else { None }
    }

    /// The step that it intends, and whose.
    pub fn intent(&self) -> Option<(&AgentId, &Step)> {
        if let Self::Intended { agent, step } = self { Some((agent, step)) } else { None }
    }

    /// The step that has ended.
    pub fn ended(&self) -> Option<(StepId, &Spent)> {
        let Self::Ended { agent, number, spent } = self else { return None };
        Some((StepId { agent: agent.clone(), number: *number }, spent))
    }

    /// The question that is answered.
    pub fn answered(&self) -> Option<(AskId, &Response)> {
        let Self::Answered { agent, number, response } = self else { return None };
        Some((AskId { agent: agent.clone(), number: *number }, response))
    }

    /// The result that an agent hands over.
    pub fn result(&self) -> Option<(&AgentId, &Payload)> {
        let Self::Followed { agent, transition: Transition::Result { payload }, .. } = self else {
            return None;
        };
        Some((agent, payload))
    }

    /// The status with which the run ends.
    pub fn finished(&self) -> Option<Status> {
        if let Self::Finished { status } = self { Some(*status) } else { None }
    }

    /// Whether no new step starts from here on.
    pub fn halts(&self) -> bool {
        matches!(self, Self::Halted { .. } | Self::Finished { .. })
    }

    /// The agent that the record is about; `None` if it is about the whole run.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Self::Intended { agent, .. }
            | Self::Queued { agent }
            | Self::Called { agent }
            | Self::Ended { agent, .. }
            | Self::Followed { agent, .. }
            | Self::Joined { agent, .. }
            | Self::Placed { agent }
            | Self::WorktreeMade { agent, .. }
            | Self::WorktreeSaved { agent, .. }
            | Self::Overridden { agent, .. }
            | Self::Asked { agent, .. }
            | Self::Answered { agent, .. }
            | Self::Told { agent, .. }
            | Self::Heard { agent, .. }
            | Self::Reminded { agent, .. }
            | Self::Evaluating { agent, .. }
            | Self::Retried { agent, .. }
            | Self::Woke { agent }
            | Self::Failed { agent, .. } => Some(agent),
            Self::Started(_)
            | Self::Halted { .. }
            | Self::UsageLimited { .. }
            | Self::AgentStopped { .. }
            | Self::UsageLimitLifted
            | Self::Finished { .. }
            | Self::Resumed { .. }
            | Self::LimitsChanged { .. }
            | Self::Rewound { .. } => None,
        }
    }
}

/// What a run is started with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The id of the run.
    pub workflow_id: RunId,
    /// The directory or archive of the workflow.
    pub scope_dir: String,
    /// The first state.
    pub entry: StateName,
    /// The working directory of `main`; absolute.
    pub cwd: String,
    /// The time of the start, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// The input for the first state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// Variables for all prompts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub metadata: BTreeMap<String, String>,
    /// Defaults for what states do not set themselves.
    pub settings: Settings,
    /// The limits at the start.
    pub limits: Limits,
    /// A random value that the engine generates: it tells this run from any other with the same id.
    pub identity: String,
    /// The state directory in which the engine started it; absolute. Empty if no engine did.
    #[serde(default, skip_serializing_if = "is_default")]
    pub state_dir: String,
}

/// What chose a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Via {
    /// The agent wrote the tag.
    Tag,
    /// The policy allows only this transition, and the answer has no tag.
    Implicit,
    /// An evaluator replaced another transition by it.
    Evaluator,
    /// The state was visited too often, and says what is done then.
    Visits,
    /// A person answered a question.
    Answer,
}

impl From<Source> for Via {
    fn from(source: Source) -> Self {
        match source {
            Source::Tag => Self::Tag,
            Source::Implicit => Self::Implicit,
            Source::Answer => Self::Answer,
        }
    }
}

/// What overrode the transition that an agent asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overrider {
    /// A limit of the run.
    Limit(Limit),
    /// An evaluator whose pattern matched.
    Match {
        /// The pattern.
        pattern: String,
    },
    /// An evaluator prompt that answered otherwise.
    Prompt {
        /// The evaluator's state file.
        prompt: String,
    },
    /// A state that was visited as often as it may be.
    Visits {
        /// How often it may be.
        max_visits: u32,
    },
}

/// What happens instead of the transition that an agent asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Instead {
    /// Another transition.
    Follow(Transition),
    /// The agent is held, and the run halts.
    Stop,
}

/// A limit of the run that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The budget.
    Budget {
        /// What all agents have spent.
        spent_usd: Usd,
        /// The limit.
        budget_usd: Usd,
    },
    /// The number of states entered.
    Iterations {
        /// The limit.
        max_iterations: u64,
    },
}

/// The counter that another start of the same work increments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountsAs {
    /// A retry after a transient failure.
    Retry,
    /// A lost outcome.
    Loss,
    /// No counter: neither the agent nor its coding agent caused it.
    Nothing,
}

/// Why no new step starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Halt {
    /// A script failed.
    ScriptFailed {
        /// The agent whose script failed.
        agent: AgentId,
    },
    /// A limit was reached.
    Limit(Limit),
    /// The user pressed Ctrl-C, stopped the run or sent a signal.
    Interrupted,
    /// The provider's usage limit was reached, and the run is set to pause instead of waiting.
    UsageLimit {
        /// When it is lifted, in seconds since 1970.
        resets_at: Option<u64>,
    },
    /// The disk is nearly full.
    DiskLow {
        /// The free space when that was found.
        free_bytes: u64,
    },
    /// Only questions to people are left, and the run does not wait for answers.
    Asks,
    /// The user cancelled the run.
    Cancelled,
}
