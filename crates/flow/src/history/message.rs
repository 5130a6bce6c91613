//! Inputs as they travel from one machine to another, and stay in the histories of whatever carries them.
//!
//! Frozen like [`v1`](super::v1), whose types they share: a field may be added if it has a default, and nothing is
//! renamed, removed or given another meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    convert::{Convert, mirror},
    v1::{
        Evaluation, FailureClass, Halt, Left, Limits, Overrider, Response, SavedWork, Settings,
        Source, Spent, Started, Step, Transition, Work, Worktree,
    },
};
use crate::{
    coding_agent,
    id::{AgentId, AskId, SessionId, StepId},
    machine,
    payload::Payload,
};

mirror! {
    #[serde(rename_all = "snake_case")]
    #[expect(clippy::large_enum_variant, reason = "one exists at a time, on its way to another machine")]
    enum machine::Input {
        Prepared { agent: AgentId, prepared: Result<Prepared, String> },
        Ended { step: StepId, spent: Spent, conclusion: Conclusion },
        Woke { agent: AgentId },
        WorktreeMade { agent: AgentId, made: Result<MadeWorktree, String> },
        WorktreeSaved { agent: AgentId, saved: SavedWork },
        Answered { id: AskId, response: Box<Response> },
        Told { agent: AgentId, message: machine::Message },
        UsageLimitLifted,
        UsageLimited {
            #[serde(default, skip_serializing_if = "Option::is_none")]
            coding_agent: Option<String>,
            resets_at: Option<u64>,
        },
        Idle,
        Halt(Halt),
        Resume { settings: Settings, limits: Limits },
        ChangeLimits { limits: Limits },
    }

    struct machine::MadeWorktree {
        worktree: Box<Worktree>,
        cwd: String,
    }

    #[serde(rename_all = "snake_case")]
    #[expect(clippy::large_enum_variant, reason = "one exists at a time, on its way to another machine")]
    enum machine::Prepared {
        Start { step: Box<Step>, launch: Launch },
        Blocked,
        Settled(Conclusion),
    }

    #[serde(rename_all = "snake_case")]
    enum machine::Launch {
        Script { environment: BTreeMap<String, Payload> },
        Turn {
            prompt: String,
            continuation: String,
            #[serde(default, skip_serializing_if = "Vec::is_empty")]
            earlier: Vec<machine::Message>,
            files: BTreeMap<String, Payload>,
        },
    }

    #[serde(rename_all = "snake_case")]
    enum machine::Conclusion {
        Follow {
            transition: Transition,
            source: Source,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            session: Option<SessionId>,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            replaced: Option<Replaced>,
        },
        Evaluate(Box<Evaluation>),
        Remind { problem: String, work: Work, otherwise: Work },
        Fail { error: String, work: Work, is_fatal: bool },
        Again {
            why: Again,
            #[serde(default, skip_serializing_if = "Option::is_none")]
            left: Option<Left>,
        },
    }

    struct machine::Replaced {
        asked: Transition,
        by: Overrider,
    }

    #[serde(rename_all = "snake_case")]
    enum machine::Again {
        Failed(TurnFailure),
        Lost,
        NotStarted,
        Interrupted,
        NoRoom,
    }

    struct machine::TurnFailure {
        class: FailureClass,
        message: String,
    }

    #[derive(Clone, Copy)]
    struct coding_agent::Capabilities {
        names_sessions: bool,
        can_branch: bool,
        reports_cost: bool,
        can_continue: bool,
        limits_tools: bool,
        has_permissions: bool,
        can_limit: bool,
        #[serde(default)]
        has_options: bool,
    }
}

impl<X: Convert<Y>, Y> Convert<Result<Y, String>> for Result<X, String> {
    fn convert(self) -> Result<Y, String> {
        self.map(Convert::convert)
    }
}

/// An input on its way to the machine that decides.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InputMessage(Input);

impl From<machine::Input> for InputMessage {
    fn from(input: machine::Input) -> Self {
        Self(input.convert())
    }
}

impl From<InputMessage> for machine::Input {
    fn from(message: InputMessage) -> Self {
        message.0.convert()
    }
}

/// What a run is started with, on its way to the machine that decides.
#[derive(Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartedMessage(Started);

impl From<machine::Started> for StartedMessage {
    fn from(started: machine::Started) -> Self {
        Self(started.convert())
    }
}

impl From<StartedMessage> for machine::Started {
    fn from(message: StartedMessage) -> Self {
        message.0.convert()
    }
}

/// The coding agents of a run, for a machine that decides about it and has none of them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CodingAgentsMessage {
    default: Capabilities,
    named: BTreeMap<String, Capabilities>,
}

impl From<&coding_agent::CodingAgents> for CodingAgentsMessage {
    fn from(agents: &coding_agent::CodingAgents) -> Self {
        let named = agents.named().map(|(name, can)| (name.to_owned(), can.convert()));
        Self { named: named.collect(), default: agents.default_capabilities().convert() }
    }
}

impl From<CodingAgentsMessage> for coding_agent::CodingAgents {
    fn from(message: CodingAgentsMessage) -> Self {
        let named = message.named.into_iter().map(|(name, can)| (name, can.convert()));
        Self::new(message.default.convert(), named.collect())
    }
}
