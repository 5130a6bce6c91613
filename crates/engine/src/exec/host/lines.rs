//! The lines between a host, as a process of its own, and the worker that gives it orders: one JSON object each.

use std::{path::PathBuf, time::Duration};

use raymond_flow::{
    history::{CodingAgentsMessage, InputMessage, StartedMessage},
    id::{AgentId, SessionId, StepId},
    snapshot::RunMessage,
};
use serde::{Deserialize, Serialize};

use super::{Hosted, Mapping, Order, Report, SessionPlace};

/// The longest line: an excerpt of a run with a payload whose every byte is escaped.
pub const LINE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// An order, on standard input.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderLine {
    /// [`Order::Start`]
    Start(HostedLine),
    /// [`Order::Find`]
    Find(HostedLine),
    /// [`Order::Extend`]
    Extend {
        /// The step.
        id: StepId,
        /// How long from now on it may run, in milliseconds.
        patience_ms: u64,
    },
    /// [`Order::End`]
    End(StepId),
    /// [`Order::Prepare`]
    Prepare {
        /// The excerpt of the run.
        run: RunMessage,
        /// The agent.
        agent: AgentId,
        /// The id of a session that does not exist yet.
        fresh: SessionId,
        /// Where the agent's checkout is.
        #[serde(default)]
        mapping: Option<Mapping>,
    },
    /// [`Order::Locate`]
    Locate {
        /// The step.
        id: StepId,
        /// The excerpt of the run.
        run: RunMessage,
        /// Where the agent's checkout is.
        #[serde(default)]
        mapping: Option<Mapping>,
    },
}

/// [`Hosted`]
#[derive(Debug, Serialize, Deserialize)]
pub struct HostedLine {
    /// The step.
    pub id: StepId,
    /// The excerpt of the run.
    pub run: RunMessage,
    /// [`Hosted::patience`] in milliseconds.
    pub patience_ms: u64,
    /// Where the agent's checkout is, if it moves from machine to machine.
    #[serde(default)]
    pub mapping: Option<Mapping>,
}

/// A report, on standard output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "one exists at a time")]
pub enum ReportLine {
    /// The host has the run, and takes orders.
    Open,
    /// [`Report::Ended`]
    Ended {
        /// The step.
        id: StepId,
        /// What the orchestrator must decide about, in this order.
        inputs: Vec<InputMessage>,
    },
    /// [`Report::Prepared`]
    Prepared(InputMessage),
    /// [`Report::Located`]
    Located {
        /// The step.
        id: StepId,
        /// Its sessions.
        sessions: Vec<SessionPlace>,
    },
    /// A failure without consequences for the run.
    Trouble(String),
}

/// What `raymond start` would start, for an orchestrator on another machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The run.
    pub started: StartedMessage,
    /// The coding agents that it may use.
    pub coding_agents: CodingAgentsMessage,
    /// The state directory of the project.
    pub state_dir: PathBuf,
}

impl From<OrderLine> for Order {
    fn from(line: OrderLine) -> Self {
        match line {
            OrderLine::Start(hosted) => Self::Start(hosted.into()),
            OrderLine::Find(hosted) => Self::Find(hosted.into()),
            OrderLine::Extend { id, patience_ms } => {
                Self::Extend { id, patience: Duration::from_millis(patience_ms) }
            }
            OrderLine::End(id) => Self::End(id),
            OrderLine::Prepare { run: RunMessage(run), agent, fresh, mapping } => {
                Self::Prepare { run: Box::new(run), agent, fresh, mapping }
            }
            OrderLine::Locate { id, run: RunMessage(run), mapping } => {
                Self::Locate { id, run: Box::new(run), mapping }
            }
        }
    }
}

impl From<HostedLine> for Hosted {
    fn from(HostedLine { id, run: RunMessage(run), patience_ms, mapping }: HostedLine) -> Self {
        Self { id, run: Box::new(run), patience: Duration::from_millis(patience_ms), mapping }
    }
}

impl From<Report> for ReportLine {
    fn from(report: Report) -> Self {
        match report {
            Report::Ended { id, inputs } => {
                Self::Ended { id, inputs: inputs.into_iter().map(InputMessage::from).collect() }
            }
            Report::Prepared(input) => Self::Prepared((*input).into()),
            Report::Located { id, sessions } => Self::Located { id, sessions },
        }
    }
}
