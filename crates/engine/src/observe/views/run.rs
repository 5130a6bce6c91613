//! A run and its agents as JSON: what `raymond status --json` prints, and more.

use std::collections::BTreeMap;

use raymond_flow::{
    id::AgentId,
    machine::{Phase, Run, Session, Status},
    payload::Payload,
    view::{Account, AgentFacts, ENDED_MAX},
};
use serde_json::Value;

use super::{event, row, shown, value, words};
use crate::{
    agent::Activity,
    observe::overview::Overview,
    store::{
        lock::{Owner, RunLock},
        results::Results,
    },
};

/// What the journal does not say: whether an orchestrator runs the run, and what its turns do.
#[derive(Clone, Debug, Default)]
pub struct LiveFacts {
    /// The orchestrator.
    pub owner: Option<Owner>,
    /// What coding agents did last, of those whose turns run.
    pub activities: BTreeMap<AgentId, Activity>,
    /// When their turns printed last, in milliseconds since 1970.
    pub heard_at: BTreeMap<AgentId, u64>,
}

impl LiveFacts {
    /// The orchestrator of a run. Ask before the journal is read: then whatever it wrote last is read.
    pub fn of(overview: &Overview) -> Self {
        let owner = RunLock::holder(&overview.files().lock);
        Self { owner, ..Self::default() }
    }
}

/// The status of a run in a word: `died` if it should be running, but no orchestrator runs it.
pub fn status_word(run: &Run, live: &LiveFacts) -> String {
    let is_dead = run.status == Status::Running && live.owner.is_none();
    if is_dead { "died".to_owned() } else { run.status.to_string() }
}

/// What `raymond status --json` prints, without the command to type next.
pub fn status(overview: &Overview, run: &Run, live: &LiveFacts) -> Value {
    let agents = run.agents_by_birth();
    let (result, _) = whole_result(overview, run);
    value(&shown::StatusReport {
        run: run.id.to_string(),
        status: shown::StatusWord(status_word(run, live)),
        workflow: run.scope_dir.clone(),
        coding_agents: overview.accounts.by_version.keys().cloned().collect(),
        started_at: run.started_at_ms,
        last_at: overview.last_at,
        total_cost_usd: run.total_cost_usd,
        budget_usd: run.limits.budget_usd,
        states_entered: run.iteration_count,
        max_iterations: run.limits.max_iterations,
        halted: run.halt.as_ref().map(words::of_halt),
        usage_limit: row::limited(run),
        stopped_agents: row::stopped(run),
        usage_windows: usage_windows(run),
        result,
        agents: agents.iter().map(|known| agent_of(overview, &known.id, live)).collect(),
    })
}

/// The result of a run, and its length if only its beginning could be read.
fn whole_result(overview: &Overview, run: &Run) -> (Option<String>, Option<u64>) {
    let results = Results::of(overview.files());
    let whole = run
        .result
        .as_ref()
        .map(|result| results.text(result).map_or_else(|_| result.clone(), Payload::from));
    (whole.as_ref().map(ToString::to_string), whole.as_ref().and_then(event::kept_bytes))
}

/// The whole view of a run but for its agents: its row, its status, and with what it was started.
pub fn run(overview: &Overview, live: &LiveFacts) -> Value {
    let row = row::row_of(overview, live);
    let Some(run) = overview.run() else { return value(&row) };
    let (result, result_bytes) = whole_result(overview, run);
    let started = overview.started.as_deref();
    value(&shown::Run {
        base: shown::Row { result, ..row },
        offset: overview.offset(),
        identity: run.identity.clone(),
        cwd: started.map(|started| started.cwd.clone()),
        entry: started.map(|started| started.entry.clone()),
        input: started.and_then(|started| started.input.clone()),
        metadata: run.metadata.clone(),
        settings: event::of_settings(&run.settings),
        limits: event::of_limits(&run.limits),
        coding_agents: overview.accounts.by_version.keys().cloned().collect(),
        usage_windows: usage_windows(run),
        result_bytes,
        orchestrator: live
            .owner
            .as_ref()
            .map(|owner| shown::Orchestrator { pid: owner.pid, since: owner.since_ms }),
        ended_at: overview.rests_since.filter(|_| run.status != Status::Running),
        agents_born: run.agents_born,
        can: if overview.problem.is_some() { Vec::new() } else { can(run, live) },
        problem: overview.problem.clone(),
    })
}

/// How much of their providers' limits the coding agents of a run have reported as used.
fn usage_windows(run: &Run) -> Vec<shown::UsageWindow> {
    let all = run.windows.iter().flat_map(|(name, windows)| {
        windows.iter().map(move |window| shown::UsageWindow {
            coding_agent: name.clone(),
            window: window.name.clone(),
            label: window.label(),
            used_percent: window.used_percent,
            resets_at: window.resets_at,
        })
    });
    all.collect()
}

/// The changes that make sense now.
fn can(run: &Run, live: &LiveFacts) -> Vec<&'static str> {
    match (run.status, live.owner.is_some()) {
        (Status::Running, true) => vec!["stop", "cancel", "limits", "tell"],
        (Status::Running | Status::Failed | Status::Stopped | Status::Paused, _) => {
            vec!["resume", "cancel", "limits", "tell"]
        }
        (Status::Completed | Status::Cancelled, _) => Vec::new(),
    }
}

/// The names of the agents of a view: those that live by birth, then those that ended, the latest first.
pub fn agents(overview: &Overview) -> Vec<AgentId> {
    let run = overview.run();
    let living = run.map(Run::agents_by_birth).unwrap_or_default();
    let mut names: Vec<_> = living.iter().map(|agent| agent.id.clone()).collect();
    let ended = |facts: &AgentFacts| facts.ended.as_ref().map(|ended| ended.at_ms);
    let mut gone: Vec<_> =
        overview.agents.iter().filter_map(|(id, facts)| Some((ended(facts)?, id))).collect();
    gone.sort_by(|one, other| other.cmp(one));
    names.extend(gone.into_iter().take(ENDED_MAX).map(|(_, id)| id.clone()));
    names
}

/// One agent, also one that has ended.
pub fn agent(overview: &Overview, id: &AgentId, live: &LiveFacts) -> Value {
    value(&agent_of(overview, id, live))
}

fn agent_of(overview: &Overview, id: &AgentId, live: &LiveFacts) -> shown::Agent {
    let run = overview.run();
    let living = run.and_then(|run| run.agents.get(id));
    let facts = overview.agents.get(id).cloned().unwrap_or_default();
    let activity = living.and_then(|_| live.activities.get(id));
    let tool = activity.and_then(|activity| match activity {
        Activity::Uses { tool, .. } => Some(tool.clone()),
        Activity::Says(_) | Activity::Waits(_) => None,
    });
    let (phase, error) = living.map_or(("ended", None), |agent| phase(&agent.phase));
    let session = living.and_then(|agent| match &agent.session {
        Session::Open(id) => Some(id.to_string()),
        Session::Fresh | Session::Branch { .. } => None,
    });
    let returns = living.iter().flat_map(|agent| agent.stack.iter().rev());
    let ended = facts.ended.as_ref();
    let worktree = run.and_then(|run| run.worktrees.get(id));
    let (waits_until, waits_why) = facts.waits.clone().unzip();
    shown::Agent {
        agent: id.clone(),
        parent: facts.parent.clone(),
        born: facts.born,
        state: living
            .map(|agent| &agent.current_state)
            .or(ended.map(|ended| &ended.state))
            .cloned(),
        phase,
        error: error.cloned(),
        step: living.and_then(|agent| agent.phase.step()).map(|step| step.number),
        since: facts.since_ms,
        heard_at: live.heard_at.get(id).copied(),
        tool,
        activity: activity.map(words::of_activity),
        cost_usd: living.map(|agent| agent.cost_usd).or(ended.map(|ended| ended.cost_usd)),
        steps: living.map(|agent| agent.steps).or(ended.map(|ended| ended.steps)),
        returns_to: returns.map(|frame| frame.state.clone()).collect(),
        attributes: overview.attributes.get(id).cloned().unwrap_or_default(),
        cwd: living.map(|agent| agent.cwd.clone()),
        session,
        waits_until,
        waits_why,
        came: facts.came.clone(),
        is_ended: ended.is_some() || living.is_none(),
        ended_at: ended.map(|ended| ended.at_ms),
        result: ended.map(|ended| ended.result.clone()),
        workers: run
            .and_then(|run| run.joined_so_far(id))
            .map(|(ended, all)| shown::Workers { ended, all }),
        denied: facts.denied,
        offset: facts.offset,
        worktree: worktree.map(|worktree| shown::Worktree {
            path: worktree.path.clone(),
            branch: worktree.branch.clone(),
            base: worktree.base.clone(),
            head: worktree.head.clone(),
            problem: worktree.problem.clone(),
        }),
    }
}

/// What an agent is about in a word, and why it failed.
pub(super) fn phase(phase: &Phase) -> (&'static str, Option<&String>) {
    match phase {
        Phase::Running { .. } => ("running", None),
        Phase::Ready { .. } | Phase::Called { .. } => ("starting", None),
        Phase::Queued { .. } => ("queued", None),
        Phase::Waiting { .. } => ("waiting", None),
        Phase::Asking { .. } => ("asking", None),
        Phase::Joining { .. } => ("joining", None),
        Phase::Parked { .. } => ("parked", None),
        Phase::Moving { .. } => ("moving", None),
        Phase::Leaving { .. } => ("leaving", None),
        Phase::Failed { error, passed: true, .. } => ("passed", Some(error)),
        Phase::Held { .. } => ("held", None),
        Phase::Failed { error, .. } => ("failed", Some(error)),
    }
}

/// What a run cost, by state, model, agent, and version of the coding agent.
pub fn cost(overview: &Overview) -> Value {
    fn list<K: ToString>(rows: &BTreeMap<K, Account>) -> Vec<shown::NamedAccount> {
        let named = rows.iter().map(|(name, row)| (name.to_string(), row.clone()));
        named.map(|(name, base)| shown::NamedAccount { base, name }).collect()
    }
    let accounts = &overview.accounts;
    value(&shown::Cost {
        total: accounts.total.clone(),
        by_state: list(&accounts.by_state),
        by_model: list(&accounts.by_model),
        by_version: list(&accounts.by_version),
        by_agent: list(&accounts.by_agent),
    })
}
