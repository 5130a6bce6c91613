//! What travels through Temporal, and stays in its histories: inputs and outputs of the workflow and its activities, and
//! signals. Frozen like the journal: a field may be added if it has a default, and nothing is renamed or removed.

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
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        segments: Vec<Segment>,
        /// What follows its agents.
        #[serde(default)]
        luggage: Luggage,
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
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        segments: Vec<Segment>,
        /// The sessions that agents may go on with, and the workers that have them.
        #[serde(default)]
        homes: Vec<(SessionId, Home)>,
        /// What follows its agents.
        #[serde(default)]
        luggage: Luggage,
    },
}

/// What a run is carried out with.
#[derive(Debug, Serialize, Deserialize)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is something that a later program has added; histories name them"
)]
pub struct Terms {
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
    /// The coding agents that it may use.
    pub coding_agents: CodingAgents,
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
    /// The repository whose checkouts move with the agents; `None` if all workers see the working directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<Repository>,
    /// Whether workers make the worktrees of forks in the shared working directory. Earlier programs did not.
    #[serde(default)]
    pub makes_worktrees: bool,
    /// Whether only some more steps than workers carry out are in flight, and histories are cut by steps that have ended.
    /// Earlier programs launched all that were ready, and counted these.
    #[serde(default)]
    pub limits_flights: bool,
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
    /// What follows its agents, for the same reason.
    #[serde(default)]
    pub luggage: Luggage,
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
    pub records: Vec<Record>,
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

/// What follows the agents of a run from worker to worker, by agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Luggage(pub(crate) BTreeMap<AgentId, AgentLuggage>);

/// What follows one agent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct AgentLuggage {
    /// The files of its sessions after their last turns: hashes of lists in the store.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sessions: BTreeMap<SessionId, String>,
    /// Its checkout after its last step, if checkouts move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkout: Option<StoredCheckout>,
    /// The agent that forked it: its branch is in the checkout of that one, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bundles: Vec<StoredBundle>,
    /// Why that commit does not have all that the steps of the agent have left: the first reason that a step gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<StoredCheckout>,
}

/// A signal: something that a user wants of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Signal {
    /// The input for the machine.
    pub input: Input,
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
    pub run: Run,
    /// The hash of the archive with the workflow's files.
    pub bundle: String,
    /// Whether the step was started before, under an earlier history of the run.
    #[serde(default)]
    pub is_started: bool,
    /// Whether it is offered to this worker only because it has the session: it refuses if all its places are taken.
    #[serde(default)]
    pub is_offer: bool,
    /// Whether any worker may refuse it for that reason. Earlier programs do not launch it again.
    #[serde(default)]
    pub may_refuse: bool,
    /// The files of the sessions that it needs: hashes of lists in the store.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sessions: BTreeMap<SessionId, String>,
    /// The checkout that it needs, if checkouts move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// Whether the worker refused an offer; nothing was started.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_refused: bool,
    /// The hash of its packed files, for mirrors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// The files of its session, if they can move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<StoredSession>,
    /// The checkout of its agent, if checkouts move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
