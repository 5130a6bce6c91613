//! The messages that travel through Temporal and stay in its histories: inputs and outputs of the workflow and its
//! activities, and signals. Durable like the journal: once a version is released, a field may be added if it has a default, and
//! nothing is renamed or removed.

use std::collections::BTreeMap;

use raymond_flow::{
    coding_agent::CodingAgents,
    id::{AgentId, SessionId, StepId},
    machine::{Input, Record, Run, Started},
};
use serde::{Deserialize, Serialize};

/// The files of an answer are in the store: `files` of its response is this and a hash.
pub(crate) const STORED: &str = "raymond-store:";

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
    New(Started),
    /// Where it rested, after the user has resumed it with this input.
    Resumed {
        /// The run.
        run: Run,
        /// The resume.
        input: Input,
        /// What it had decided before.
        segments: Vec<Segment>,
        /// What moves with its agents.
        stored: StoredAgents,
    },
    /// In its middle: the history before was long enough.
    Continued {
        /// The run.
        run: Run,
        /// The running steps, and the workers that have them.
        found: Vec<(StepId, String)>,
        /// How often all agents have waited for a usage limit.
        limit_waits: u32,
        /// What it had decided before.
        segments: Vec<Segment>,
        /// The sessions that agents may continue, and the workers that have them.
        homes: Vec<(SessionId, Home)>,
        /// What moves with its agents.
        stored: StoredAgents,
    },
}

/// What a run is carried out with.
#[derive(Debug, Serialize, Deserialize)]
pub struct Terms {
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
    /// The coding agents that it may use.
    pub coding_agents: CodingAgents,
    /// After how many milliseconds without a heartbeat a step counts as lost.
    pub heartbeat_ms: u64,
    /// After how many steps the history is continued as a new one.
    pub steps_per_history: u32,
    /// The repository whose checkouts move with the agents; `None` if all workers see the working directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
}

/// The worker that had the last turn of a session.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Home {
    /// Its name.
    pub worker: String,
    /// Its labels.
    pub labels: Vec<String>,
}

/// The repository of a run whose agents have checkouts of their own, as it was when the run started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Repository {
    /// Its top directory on the machine on which the run was started. In the paths of the run it stands for the checkout of
    /// each agent.
    pub root: String,
    /// The commit from which all start.
    pub commit: String,
    /// The hash of the bundle that has that commit.
    pub bundle: String,
}

/// A Temporal server ends a workflow after 51,200 events. A step has at most 7, one that was offered and refused 13, a look
/// at the server 11, and a replay of 2,000 steps takes a second.
pub(crate) fn steps_per_history() -> u32 {
    2000
}

/// The output of the workflow: the run at its end, or where it rests.
#[derive(Debug, Serialize, Deserialize)]
pub struct RunOutput {
    /// The run.
    pub run: Run,
    /// What it was carried out with, for when it is resumed.
    pub terms: Terms,
    /// What moves with its agents, for the same reason.
    pub stored: StoredAgents,
    /// Everything that was decided.
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
    pub records: Vec<Record>,
    /// The files of the step that it is about the end of.
    #[serde(skip_serializing_if = "Option::is_none")]
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
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
    /// What is in the store.
    pub segments: Vec<Segment>,
    /// The next decisions, if they are in no segment.
    pub entries: Vec<Entry>,
    /// How many decisions there are.
    pub decisions: u64,
}

/// Sessions and checkouts that move with the agents of a run between workers, by agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StoredAgents(pub(crate) BTreeMap<AgentId, StoredAgent>);

/// What moves with one agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct StoredAgent {
    /// The files of its sessions after their last turns: hashes of lists in the store.
    pub sessions: BTreeMap<SessionId, String>,
    /// Its checkout after its last step, if checkouts move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<StoredCheckout>,
    /// The agent that forked it: its branch is in the checkout of that one, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
}

/// The checkout of an agent after a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredCheckout {
    /// The branch of the agent.
    pub branch: String,
    /// The commit that has everything of it.
    pub commit: String,
    /// The bundles that lead from the start of the run to that commit, in this order.
    pub bundles: Vec<StoredBundle>,
    /// Why that commit does not have all that the steps of the agent have left: the first reason that a step gave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A git bundle in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBundle {
    /// Its hash.
    pub hash: String,
    /// The commit to which it leads.
    pub commit: String,
}

/// The checkout that a step needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckoutOrder {
    /// The repository of the run.
    pub repository: Repository,
    /// The checkout of the agent.
    pub own: StoredCheckout,
    /// The work of its workers.
    pub workers: Vec<StoredCheckout>,
}

/// A signal: something that a user wants of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Signal {
    /// The input for the machine.
    pub input: Input,
    /// Whether running steps are ended.
    pub ends_steps: bool,
    /// The workers that have steps of the run, so that they learn of it before their next heartbeat.
    pub workers: Vec<String>,
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
    pub run: Run,
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
    /// Whether the step was started before, under an earlier history of the run.
    pub is_started: bool,
    /// The files of the sessions that it needs: hashes of lists in the store.
    pub sessions: BTreeMap<SessionId, String>,
    /// The checkout that it needs, if checkouts move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<CheckoutOrder>,
}

/// The output of the activity `step`.
#[derive(Debug, Serialize, Deserialize)]
pub struct StepEnd {
    /// What the machine must decide about, in this order.
    pub inputs: Vec<Input>,
    /// The worker that had the step.
    pub worker: String,
    /// The labels of that worker.
    pub labels: Vec<String>,
    /// Whether the worker refused the step because all its places are taken; nothing was started.
    pub is_refused: bool,
    /// The hash of its packed files, for mirrors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// The files of its session, if they can move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<StoredSession>,
    /// The checkout of its agent, if checkouts move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<StoredCheckout>,
}

/// A session after a turn.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredSession {
    /// The session.
    pub id: SessionId,
    /// The hash of the list of its files in the store.
    pub files: String,
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
    pub run: Run,
    /// The agent.
    pub agent: AgentId,
    /// The id of a session that does not exist yet.
    pub fresh: SessionId,
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
    /// The checkout that it needs, if checkouts move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkout: Option<CheckoutOrder>,
}

/// The input of the activity `worktree`: make the worktree of an agent or, if the run has it, commit what is left in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorktreeOrder {
    /// The excerpt of the run, with the worktree if that was made.
    pub run: Run,
    /// The agent.
    pub agent: AgentId,
}
