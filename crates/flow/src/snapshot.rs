//! The state file: a run as one JSON object.
//!
//! It is a snapshot for users, for scripts and for quick loading; the journal is the source of truth.
//! The field names are those of the workflow documents (`workflow_id`, `agents`, `stack`, …), so the
//! format has its own types here instead of using those of the machine. Like the records, it is a
//! durable format: fields may be added with defaults, nothing else changes within a version.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use thiserror::Error;

use crate::{
    history::{
        Convert as _,
        v1::{
            self, Halt, Phase, Response, Settings, Status, Tries, UsageLimit, is_retry_for_default,
            retry_for_default,
        },
    },
    id::{AgentId, RunId, SessionId, StateName},
    machine::{Agent, Crew, Frame, Limits, Message, Run, Session, UsageWindow},
    money::Usd,
    payload::Payload,
};

/// The version of this format.
pub const VERSION: u32 = 1;

/// A run, and the length of the journal that led to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The run.
    pub run: Run,
    /// The number of journal bytes that are applied in `run`.
    pub journal_offset: u64,
}

/// Why a text is not a state file.
#[derive(Debug, Error)]
pub enum SnapshotError {
    /// A newer version of Raymond wrote it.
    #[error("it has format version {found}, and this program knows versions up to {VERSION}")]
    Newer {
        /// Its format version.
        found: u32,
    },
    /// Not JSON, or not the expected fields.
    #[error("it is not a state file")]
    Malformed(#[from] serde_json::Error),
    /// Two agents have the same name.
    #[error("agent `{agent}` occurs twice")]
    DuplicateAgent {
        /// The name.
        agent: AgentId,
    },
    /// Written before agents knew their parents. The journal tells who forked whom.
    #[error("it does not say who forked agent `{agent}`")]
    NoParent {
        /// The worker.
        agent: AgentId,
    },
    /// Written before workers could be joined. The journal tells what they handed back.
    #[error("it does not tell of the workers of agent `{agent}`")]
    NoCrew {
        /// The parent.
        agent: AgentId,
    },
}

impl Snapshot {
    /// Serializes a run as a state file, ending in a newline.
    pub fn to_json(run: &Run, journal_offset: u64) -> serde_json::Result<String> {
        let mut text = serde_json::to_string_pretty(&WireRun::of(run, journal_offset))?;
        text.push('\n');
        Ok(text)
    }

    /// Parses a state file.
    pub fn from_json(text: &str) -> Result<Self, SnapshotError> {
        /// Parsed first, because a newer version may have other fields.
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(text)?;
        if version > VERSION {
            return Err(SnapshotError::Newer { found: version });
        }
        serde_json::from_str::<WireRun>(text)?.into_snapshot()
    }
}

/// A run on its way to another machine, in the format of the state file. It belongs to no journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunMessage(pub Run);

impl Serialize for RunMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        WireRun::of(&self.0, 0).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for RunMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = WireRun::deserialize(deserializer)?;
        if wire.version > VERSION {
            return Err(D::Error::custom(SnapshotError::Newer { found: wire.version }));
        }
        wire.into_snapshot().map(|snapshot| Self(snapshot.run)).map_err(D::Error::custom)
    }
}

#[derive(Serialize, Deserialize)]
struct WireRun {
    version: u32,
    workflow_id: RunId,
    scope_dir: String,
    status: Status,
    started_at_ms: u64,
    agents: Vec<WireAgent>,
    /// Of every agent that has forked and not ended; absent in state files of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    workers: BTreeMap<AgentId, WireCrew>,
    /// Worktrees that were made, by worker.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    worktrees: BTreeMap<AgentId, v1::Worktree>,
    #[serde(default)]
    fork_counters: BTreeMap<AgentId, u32>,
    total_cost_usd: Usd,
    budget_usd: Option<Usd>,
    iteration_count: u64,
    max_iterations: Option<u64>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    halt: Option<Halt>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    usage_limit: Option<UsageLimit>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    windows: BTreeMap<String, Vec<UsageWindow>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    stopped: BTreeMap<String, UsageLimit>,
    settings: Settings,
    max_parallel: u32,
    max_reminders: u32,
    max_retries: u32,
    #[serde(default = "retry_for_default", skip_serializing_if = "is_retry_for_default")]
    retry_for_ms: u64,
    max_attempts: u32,
    agents_born: u64,
    next_ticket: u64,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    irregular_names: BTreeSet<AgentId>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    identity: String,
    journal_offset: u64,
}

#[derive(Serialize, Deserialize)]
struct WireAgent {
    id: AgentId,
    /// Absent for `main`, and in state files of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<AgentId>,
    current_state: StateName,
    /// The session with which the agent entered the state.
    session_id: Option<SessionId>,
    /// Whether the state's prompt starts a branch of that session.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    branches: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_agent: Option<String>,
    stack: Vec<WireFrame>,
    cwd: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worktree_plan: Option<Box<v1::WorktreePlan>>,
    fork_attributes: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    response: Option<Box<Response>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    input: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    said: Option<String>,
    /// Absent if the agent has entered only its current state, once, and in state files of earlier versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    visits: BTreeMap<StateName, u32>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    diverted: bool,
    born: u64,
    steps: u32,
    #[serde(default, skip_serializing_if = "is_zero")]
    asks: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    messages: Vec<Message>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    heard: Vec<String>,
    cost_usd: Usd,
    tries: Tries,
    phase: Phase,
}

#[derive(Serialize, Deserialize)]
struct WireFrame {
    session: Option<SessionId>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    branches: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session_agent: Option<String>,
    state: StateName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    arguments: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    visits: BTreeMap<StateName, u32>,
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    workers_since: u64,
}

#[derive(Serialize, Deserialize)]
struct WireCrew {
    #[serde(default, skip_serializing_if = "is_zero_u64")]
    stops: u64,
    unjoined: Vec<WireWorker>,
}

#[derive(Serialize, Deserialize)]
struct WireWorker {
    born: u64,
    #[serde(flatten)]
    worker: v1::Worker,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero_u64(number: &u64) -> bool {
    *number == 0
}

impl WireRun {
    fn of(run: &Run, journal_offset: u64) -> Self {
        let Limits {
            budget_usd,
            max_iterations,
            max_parallel,
            max_reminders,
            max_retries,
            retry_for_ms,
            max_attempts,
        } = run.limits.clone();
        Self {
            version: VERSION,
            workflow_id: run.id.clone(),
            scope_dir: run.scope_dir.clone(),
            identity: run.identity.clone(),
            status: run.status.convert(),
            started_at_ms: run.started_at_ms,
            agents: run.agents_by_birth().into_iter().map(WireAgent::of).collect(),
            workers: run.crews.iter().map(|(id, crew)| (id.clone(), WireCrew::of(crew))).collect(),
            worktrees: run
                .worktrees
                .iter()
                .map(|(id, worktree)| (id.clone(), worktree.clone().convert()))
                .collect(),
            fork_counters: run.fork_counters.clone(),
            total_cost_usd: run.total_cost_usd,
            budget_usd,
            iteration_count: run.iteration_count,
            max_iterations,
            metadata: run.metadata.clone(),
            result: run.result.clone(),
            halt: run.halt.clone().convert(),
            usage_limit: run.usage_limit.convert(),
            windows: run.windows.clone(),
            stopped: convert_values(run.stopped.clone()),
            settings: run.settings.clone().convert(),
            max_parallel,
            max_reminders,
            max_retries,
            retry_for_ms,
            max_attempts,
            agents_born: run.agents_born,
            next_ticket: run.next_ticket,
            irregular_names: run.irregular_names.clone(),
            journal_offset,
        }
    }

    fn into_snapshot(self) -> Result<Snapshot, SnapshotError> {
        let mut agents = BTreeMap::new();
        for agent in self.agents {
            let agent = agent.into_agent();
            if agent.parent.is_none() && agent.id != AgentId::main() {
                return Err(SnapshotError::NoParent { agent: agent.id });
            }
            if let Some(twin) = agents.insert(agent.id.clone(), agent) {
                return Err(SnapshotError::DuplicateAgent { agent: twin.id });
            }
        }
        let has_forked = |agent: &&Agent| self.fork_counters.contains_key(&agent.id);
        let is_untold =
            |agent: &&Agent| !self.workers.contains_key(&agent.id) && !agent.phase.is_passed();
        if let Some(agent) = agents.values().filter(has_forked).find(is_untold) {
            return Err(SnapshotError::NoCrew { agent: agent.id.clone() });
        }
        let limits = Limits {
            budget_usd: self.budget_usd,
            max_iterations: self.max_iterations,
            max_parallel: self.max_parallel,
            max_reminders: self.max_reminders,
            max_retries: self.max_retries,
            retry_for_ms: self.retry_for_ms,
            max_attempts: self.max_attempts,
        };
        let mut run = Run {
            id: self.workflow_id,
            scope_dir: self.scope_dir,
            identity: self.identity,
            started_at_ms: self.started_at_ms,
            settings: self.settings.convert(),
            limits,
            metadata: self.metadata,
            agents,
            crews: self.workers.into_iter().map(|(id, crew)| (id, crew.into_crew())).collect(),
            worktrees: self.worktrees.into_iter().map(|(id, own)| (id, own.convert())).collect(),
            fork_counters: self.fork_counters,
            agents_born: self.agents_born,
            total_cost_usd: self.total_cost_usd,
            iteration_count: self.iteration_count,
            halt: self.halt.convert(),
            usage_limit: self.usage_limit.convert(),
            windows: self.windows,
            stopped: convert_values(self.stopped),
            result: self.result,
            status: self.status.convert(),
            irregular_names: self.irregular_names,
            next_ticket: self.next_ticket,
            queue: BTreeMap::new(),
            due: BTreeSet::new(),
            counts: crate::machine::Counts::default(),
        };
        run.derive();
        Ok(Snapshot { run, journal_offset: self.journal_offset })
    }
}

impl WireAgent {
    fn of(agent: &Agent) -> Self {
        let (session_id, branches) = session_to_wire(&agent.session);
        Self {
            id: agent.id.clone(),
            parent: agent.parent.clone(),
            current_state: agent.current_state.clone(),
            session_id,
            branches,
            session_agent: agent.session_agent.clone(),
            stack: agent.stack.iter().map(WireFrame::of).collect(),
            cwd: agent.cwd.clone(),
            worktree_plan: agent.worktree_plan.clone().convert(),
            fork_attributes: agent.fork_attributes.clone(),
            result: agent.result.clone(),
            response: agent.response.clone().convert(),
            input: agent.input.clone(),
            output: agent.output.clone(),
            said: agent.said.clone(),
            visits: if agent.visits == first_visit(&agent.current_state) {
                BTreeMap::new()
            } else {
                agent.visits.clone()
            },
            diverted: agent.diverted,
            born: agent.born,
            steps: agent.steps,
            asks: agent.asks,
            messages: agent.messages.clone(),
            heard: agent.heard.clone(),
            cost_usd: agent.cost_usd,
            tries: agent.tries.clone().convert(),
            phase: agent.phase.clone().convert(),
        }
    }

    fn into_agent(self) -> Agent {
        let visits =
            if self.visits.is_empty() { first_visit(&self.current_state) } else { self.visits };
        Agent {
            id: self.id,
            parent: self.parent,
            born: self.born,
            current_state: self.current_state,
            session: session_from_wire(self.session_id, self.branches),
            session_agent: self.session_agent,
            stack: self.stack.into_iter().map(WireFrame::into_frame).collect(),
            cwd: self.cwd,
            worktree_plan: self.worktree_plan.convert(),
            fork_attributes: self.fork_attributes,
            result: self.result,
            response: self.response.convert(),
            input: self.input,
            output: self.output,
            said: self.said,
            visits,
            diverted: self.diverted,
            steps: self.steps,
            asks: self.asks,
            messages: self.messages,
            heard: self.heard,
            cost_usd: self.cost_usd,
            tries: self.tries.convert(),
            phase: self.phase.convert(),
        }
    }
}

fn first_visit(state: &StateName) -> BTreeMap<StateName, u32> {
    BTreeMap::from([(state.clone(), 1)])
}

impl WireFrame {
    fn of(frame: &Frame) -> Self {
        let (session, branches) = session_to_wire(&frame.session);
        let Frame {
            session: _,
            session_agent,
            state,
            cwd,
            model,
            arguments,
            visits,
            workers_since,
        } = frame.clone();
        Self {
            session,
            branches,
            session_agent,
            state,
            cwd,
            model,
            arguments,
            visits,
            workers_since,
        }
    }

    fn into_frame(self) -> Frame {
        let Self { session, branches, session_agent, state, cwd, model, .. } = self;
        let session = session_from_wire(session, branches);
        let Self { arguments, visits, workers_since, .. } = self;
        Frame { session, session_agent, state, cwd, model, arguments, visits, workers_since }
    }
}

impl WireCrew {
    fn of(crew: &Crew) -> Self {
        let worker = |(born, worker): (&u64, &crate::machine::Worker)| WireWorker {
            born: *born,
            worker: worker.clone().convert(),
        };
        Self { stops: crew.stops(), unjoined: crew.workers().iter().map(worker).collect() }
    }

    fn into_crew(self) -> Crew {
        let workers = self.unjoined.into_iter();
        Crew::of(workers.map(|worker| (worker.born, worker.worker.convert())).collect(), self.stops)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn session_to_wire(session: &Session) -> (Option<SessionId>, bool) {
    match session {
        Session::Fresh => (None, false),
        Session::Open(id) => (Some(id.clone()), false),
        Session::Branch(from) => (Some(from.clone()), true),
    }
}

fn session_from_wire(id: Option<SessionId>, branches: bool) -> Session {
    match (id, branches) {
        (None, _) => Session::Fresh,
        (Some(id), false) => Session::Open(id),
        (Some(from), true) => Session::Branch(from),
    }
}

/// The same map with values of the other kind.
fn convert_values<X: crate::history::Convert<Y>, Y>(
    map: BTreeMap<String, X>,
) -> BTreeMap<String, Y> {
    map.into_iter().map(|(name, value)| (name, value.convert())).collect()
}
