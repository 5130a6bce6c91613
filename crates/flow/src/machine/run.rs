//! The complete persistent state of one run.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{
    formats::is_default,
    id::{AgentId, RunId, StepId},
    money::Usd,
    payload::Payload,
};

use super::{
    Agent, Crew, Halt, Limits, Phase, Settings, Started, Step, UsageWindow, Worktree,
    counts::Counts, join,
};

/// A run of a workflow. Made by [`replay`](super::replay) or [`Run::new`], changed by
/// [`apply`](super::apply) alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Run {
    /// Its id.
    #[serde(rename = "workflow_id")]
    pub id: RunId,
    /// Tells it from any other run with the same id.
    pub identity: String,
    /// The directory or archive of the workflow.
    pub scope_dir: String,
    /// When it began, in milliseconds since 1970.
    pub started_at_ms: u64,
    /// Defaults for what states do not set themselves.
    pub settings: Settings,
    /// The limits in effect.
    #[serde(flatten)]
    pub limits: Limits,
    /// Variables for all prompts.
    pub metadata: BTreeMap<String, String>,
    /// Every agent that has not ended with a result.
    #[serde(with = "by_birth")]
    pub agents: BTreeMap<AgentId, Agent>,
    /// Workers that were not joined yet, by the agent that forked them.
    #[serde(rename = "workers", default, skip_serializing_if = "is_default")]
    pub crews: BTreeMap<AgentId, Crew>,
    /// The worktrees that were made, by the workers that got them. Those of workers that have ended stay.
    #[serde(default, skip_serializing_if = "is_default")]
    pub worktrees: BTreeMap<AgentId, Worktree>,
    /// How many workers each agent has forked.
    pub fork_counters: BTreeMap<AgentId, u32>,
    /// The number of agents that have ever existed.
    pub agents_born: u64,
    /// What all agents have spent.
    pub total_cost_usd: Usd,
    /// How many states they have entered.
    pub iteration_count: u64,
    /// Why no new step starts; `None` if one may start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub halt: Option<Halt>,
    /// The usage limit that all agents wait for, if the provider's limit was reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage_limit: Option<UsageLimit>,
    /// How much of its provider's limits each coding agent last reported as used, by its name.
    #[serde(default, skip_serializing_if = "is_default")]
    pub windows: BTreeMap<String, Vec<UsageWindow>>,
    /// Coding agents whose provider is not available, while others stand in for them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stopped: BTreeMap<String, UsageLimit>,
    /// The result of `main`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    /// How it stands.
    pub status: Status,
    /// Names of agents that could be mistaken for other agents' names; see `naming`.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) irregular_names: BTreeSet<AgentId>,
    /// The number of the next ticket for the queue of turns.
    pub(crate) next_ticket: u64,
    /// Agents whose turns wait, by ticket. Derived from `agents`.
    #[serde(skip)]
    pub(crate) queue: BTreeMap<u64, AgentId>,
    /// Agents whose join is complete, or in whose crew a worker can have a place. Derived.
    #[serde(skip)]
    pub(crate) due: BTreeSet<AgentId>,
    /// The number of agents in each phase. Derived from `agents`, so that no decision has to look at all of
    /// them.
    #[serde(skip)]
    pub(crate) counts: Counts,
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Run {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut run = Self::deserialize(deserializer)?;
        run.derive();
        Ok(run)
    }
}

/// Agents as a list in the order of their birth.
mod by_birth {
    use super::{Agent, AgentId, BTreeMap, Deserialize, Deserializer, Serializer, by_birth};

    pub(super) fn serialize<S: Serializer>(
        agents: &BTreeMap<AgentId, Agent>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(by_birth(agents))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<AgentId, Agent>, D::Error> {
        let agents = Vec::<Agent>::deserialize(deserializer)?.into_iter();
        Ok(agents.map(|agent| (agent.id.clone(), agent)).collect())
    }
}

fn by_birth(agents: &BTreeMap<AgentId, Agent>) -> Vec<&Agent> {
    let mut agents: Vec<_> = agents.values().collect();
    agents.sort_by_key(|agent| agent.born);
    agents
}

/// A usage limit that all agents wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageLimit {
    /// When it is lifted, in seconds since 1970; `None` if the provider did not say.
    pub resets_at: Option<u64>,
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Running, or its orchestrator died.
    Running,
    /// Every agent ended with a result.
    Completed,
    /// An agent failed.
    Failed,
    /// A limit was reached.
    Stopped,
    /// Interrupted: it waits to be resumed.
    Paused,
    /// Cancelled by the user. It cannot be resumed.
    Cancelled,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Paused => "paused",
            Self::Cancelled => "cancelled",
        })
    }
}

impl Status {
    /// Whether the run can be resumed.
    pub fn can_resume(self) -> bool {
        match self {
            Self::Running | Self::Failed | Self::Stopped | Self::Paused => true,
            Self::Completed | Self::Cancelled => false,
        }
    }
}

impl Run {
    /// The run just after its first record.
    pub fn new(started: &Started) -> Self {
        let main = AgentId::main();
        let mut agent = Agent::new(main.clone(), 0, started.entry.clone(), started.cwd.clone());
        agent.input.clone_from(&started.input);
        let mut run = Self {
            id: started.workflow_id.clone(),
            identity: started.identity.clone(),
            scope_dir: started.scope_dir.clone(),
            started_at_ms: started.started_at_ms,
            settings: started.settings.clone(),
            limits: started.limits.clone(),
            metadata: started.metadata.clone(),
            agents: BTreeMap::from([(main, agent)]),
            crews: BTreeMap::new(),
            worktrees: BTreeMap::new(),
            fork_counters: BTreeMap::new(),
            agents_born: 1,
            total_cost_usd: Usd::ZERO,
            iteration_count: 1,
            halt: None,
            usage_limit: None,
            windows: BTreeMap::new(),
            stopped: BTreeMap::new(),
            result: None,
            status: Status::Running,
            irregular_names: BTreeSet::new(),
            next_ticket: 0,
            queue: BTreeMap::new(),
            due: BTreeSet::new(),
            counts: Counts::default(),
        };
        run.derive();
        run
    }

    /// Computes the fields that are derived from the agents.
    pub(crate) fn derive(&mut self) {
        self.counts = Counts::of(self.agents.values());
        self.queue = self
            .agents
            .values()
            .filter_map(|agent| {
                let Phase::Queued { ticket, .. } = agent.phase else { return None };
                Some((ticket, agent.id.clone()))
            })
            .collect();
        self.due.clear();
        let parents: BTreeSet<_> = self.crews.keys().chain(self.agents.keys()).cloned().collect();
        for parent in parents {
            join::review(self, &parent);
        }
    }

    /// The agents in the order of their birth.
    pub fn agents_by_birth(&self) -> Vec<&Agent> {
        by_birth(&self.agents)
    }

    /// The agent and the step, if that step is running.
    pub fn running_step(&self, id: &StepId) -> Option<(&Agent, &Step)> {
        let agent = self.agents.get(&id.agent)?;
        let step = agent.phase.step().filter(|step| step.number == id.number)?;
        Some((agent, step))
    }

    /// How many steps are running.
    pub fn running_steps(&self) -> usize {
        self.counts.running - self.counts.leaving
    }

    /// The run as far as a step of `agent` needs it: with no other agent, and not fit for decisions.
    #[must_use]
    pub fn excerpt(&self, agent: &AgentId) -> Self {
        let agents = self.agents.get(agent).map(|own| (agent.clone(), own.clone()));
        let mut run = Self {
            id: self.id.clone(),
            identity: self.identity.clone(),
            scope_dir: self.scope_dir.clone(),
            settings: self.settings.clone(),
            limits: self.limits.clone(),
            metadata: self.metadata.clone(),
            agents: agents.into_iter().collect(),
            crews: BTreeMap::new(),
            worktrees: BTreeMap::new(),
            fork_counters: BTreeMap::new(),
            halt: self.halt.clone(),
            stopped: self.stopped.clone(),
            result: None,
            irregular_names: BTreeSet::new(),
            queue: BTreeMap::new(),
            due: BTreeSet::new(),
            counts: Counts::default(),
            windows: self.windows.clone(),
            ..*self
        };
        run.derive();
        run
    }

    /// While `agent` joins: how many of the workers that it waits for have ended, and how many there are.
    pub fn joined_so_far(&self, agent: &AgentId) -> Option<(usize, usize)> {
        let agent = self.agents.get(agent)?;
        let Phase::Joining { .. } = agent.phase else { return None };
        let crew = self.crews.get(&agent.id);
        Some(crew.map_or((0, 0), |crew| crew.progress(agent.workers_since())))
    }

    /// Whether a new step may start.
    pub fn is_open(&self) -> bool {
        self.status == Status::Running && self.halt.is_none() && self.usage_limit.is_none()
    }

    /// Whether a turn of `agent` may start now: it counts as running, or fewer than `max_parallel` turns do.
    pub(super) fn has_place_for(&self, agent: &Agent) -> bool {
        matches!(agent.phase, Phase::Called { .. }) || self.counts.turns < self.places()
    }

    /// How many turns may run at once.
    pub(super) fn places(&self) -> usize {
        usize::try_from(self.limits.max_parallel.max(1)).unwrap_or(usize::MAX)
    }

    /// What is left of the budget; `None` is no limit.
    pub fn budget_left(&self) -> Option<Usd> {
        self.limits.budget_usd.map(|budget| budget.less(self.total_cost_usd))
    }
}
