//! What travels through Temporal, and stays in its histories: inputs and outputs of the workflow and its activities, and
//! signals. Frozen like the journal: a field may be added if it has a default, and nothing is renamed or removed.

use raymond_flow::{
    history::{CodingAgentsMessage, InputMessage, Records, StartedMessage},
    id::{AgentId, SessionId, StepId},
    snapshot::RunMessage,
};
use serde::{Deserialize, Serialize};

/// The input of the workflow.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunInput {
    /// The run.
    pub begin: Begin,
    /// What never changes in the course of a run.
    pub terms: Terms,
}

/// Where a run begins, or goes on.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "one exists at a time")]
pub enum Begin {
    /// At its beginning.
    New(StartedMessage),
    /// Where it rested, after the user has resumed it with this input.
    Resumed {
        /// The run.
        run: RunMessage,
        /// The resume.
        input: InputMessage,
        /// What it had decided before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        segments: Vec<Segment>,
    },
    /// In its middle: the history before was long enough.
    Continued {
        /// The run.
        run: RunMessage,
        /// The running steps, and the workers that have them.
        found: Vec<(StepId, String)>,
        /// How often all agents have waited for a usage limit.
        limit_waits: u32,
        /// What it had decided before.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        segments: Vec<Segment>,
        /// The sessions that agents may go on with, and the workers that have them.
        #[serde(default)]
        homes: Vec<(SessionId, Home)>,
    },
}

/// What a run is carried out with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
    /// The coding agents that it may use.
    pub coding_agents: CodingAgentsMessage,
    /// After how many milliseconds without a heartbeat a step counts as lost.
    pub heartbeat_ms: u64,
    /// After how many steps the history is continued as a new one.
    #[serde(default = "steps_per_history")]
    pub steps_per_history: u32,
    /// Whether everything that is decided is kept in the store when a history ends, for mirrors. Histories of programs
    /// that kept nothing have no such activity.
    #[serde(default)]
    pub keeps_records: bool,
    /// Whether the next turn of a session is offered to the worker that had the last one.
    #[serde(default)]
    pub prefers_homes: bool,
}

/// The worker that had the last turn of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Home {
    /// Its name.
    pub worker: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
}

/// A Temporal server ends a workflow after 51,200 events. A step has at most 7, and a replay of 2,000 takes a second.
pub(crate) fn steps_per_history() -> u32 {
    2000
}

/// The output of the workflow: the run at its end, or where it rests.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunOutput {
    /// The run.
    pub run: RunMessage,
    /// What it was carried out with, for when it is resumed.
    pub terms: Terms,
    /// Everything that was decided.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<Segment>,
}

/// A part of what a run has decided, in the store as a JSON array of entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The hash of the object; empty if it could not be stored.
    pub hash: String,
    /// How many decisions it has.
    pub entries: u64,
}

/// A decision, as a line of the journal has it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Entry {
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// Its records.
    pub records: Records,
    /// The files of the step that it is about the end of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<StepFiles>,
}

/// The files of a step in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepFiles {
    /// The step.
    pub step: StepId,
    /// The hash of its packed files.
    pub hash: String,
}

/// A page of what a run has decided.
#[derive(Debug, Serialize, Deserialize)]
pub struct Page {
    /// The hash of the archive with the workflow's files; `None` if nothing is kept.
    pub bundle: Option<String>,
    /// What is in the store.
    pub segments: Vec<Segment>,
    /// The next decisions, if they are in no segment.
    pub entries: Vec<Entry>,
    /// How many decisions there are.
    pub decisions: u64,
}

/// A signal: something that a user wants of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Signal {
    /// The input for the machine.
    pub input: InputMessage,
    /// Whether running steps are ended.
    #[serde(default)]
    pub ends_steps: bool,
    /// The workers that have steps of the run, so that they hear of it before their next heartbeat. `None` in the signals
    /// of earlier programs.
    #[serde(default)]
    pub workers: Option<Vec<String>>,
}

/// The input of the activity `end_steps`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EndOrder {
    /// The identity of the run.
    pub identity: String,
    /// The steps in flight. A worker ends those that it has.
    pub steps: Vec<StepId>,
}

/// The input of the activity `step`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepOrder {
    /// The step.
    pub id: StepId,
    /// The excerpt of the run in which the step is running.
    pub run: RunMessage,
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
    /// Whether the step was started before, under an earlier history of the run.
    #[serde(default)]
    pub is_started: bool,
    /// Whether it is offered to this worker only because it has the session: it refuses if all its places are taken.
    #[serde(default)]
    pub is_offer: bool,
}

/// The output of the activity `step`.
#[derive(Debug, Serialize, Deserialize)]
pub struct StepEnd {
    /// What the machine must decide about, in this order.
    pub inputs: Vec<InputMessage>,
    /// The worker that had the step.
    pub worker: String,
    /// The labels of that worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Whether the worker refused an offer; nothing was started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_refused: bool,
    /// The hash of its packed files, for mirrors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
}

/// A step that a worker has.
#[derive(Debug, Serialize, Deserialize)]
pub struct Place {
    /// The id of the activity: the step as it is displayed.
    pub step: String,
    /// The name of the worker.
    pub worker: String,
}

/// The input of the activity `prepare`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PrepareOrder {
    /// The excerpt of the run.
    pub run: RunMessage,
    /// The agent.
    pub agent: AgentId,
    /// The id of a session that does not exist yet.
    pub fresh: SessionId,
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
}
