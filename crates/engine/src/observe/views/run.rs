//! A run and its agents as JSON: what `raymond status --json` prints, and more.

use std::collections::BTreeMap;

use raymond_flow::{
    id::AgentId,
    machine::{Account, Agent, Phase, Run, Session, Status},
    payload::Payload,
};
use serde_json::{Map, Value, json};

use super::{event, row, words};
use crate::{
    agent::Activity,
    observe::overview::{AgentFacts, Overview},
    store::{
        lock::{Owner, RunLock},
        results::Results,
    },
};

/// How many agents that have ended a view has, the latest.
const ENDED_MAX: usize = 1_000;

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
    let mut value = header(overview, run, live);
    let agents = run.agents_by_birth();
    let agents = agents.iter().map(|known| agent(overview, &known.id, live));
    value["agents"] = Value::from(agents.collect::<Vec<_>>());
    value
}

fn header(overview: &Overview, run: &Run, live: &LiveFacts) -> Value {
    let results = Results::of(overview.files());
    let text =
        |result: &Payload| results.text(result).map_or_else(|_| result.clone(), Payload::from);
    let mut value = event::of_result(run.result.as_ref().map(text).as_ref());
    let facts = json!({
        "run": run.id, "status": status_word(run, live), "workflow": run.scope_dir,
        "started_at": run.started_at_ms, "last_at": overview.last_at,
        "total_cost_usd": run.total_cost_usd, "budget_usd": run.limits.budget_usd,
        "states_entered": run.iteration_count, "max_iterations": run.limits.max_iterations,
        "halted": run.halt.as_ref().map(words::of_halt),
        "usage_limit": run.usage_limit.map(|limit| json!({ "resets_at": limit.resets_at })),
        "stopped_agents": row::stopped(run), "usage_windows": usage_windows(run),
    });
    merge(&mut value, facts);
    value
}

/// The whole view of a run but for its agents: its row, its status, and with what it was started.
pub fn run(overview: &Overview, live: &LiveFacts) -> Value {
    let mut value = row::row(overview, live);
    let Some(run) = overview.run() else { return value };
    merge(&mut value, header(overview, run, live));
    let started = overview.started.as_deref();
    let ended = overview.rests_since.filter(|_| run.status != Status::Running);
    merge(
        &mut value,
        json!({
            "offset": overview.offset(), "identity": run.identity,
            "cwd": started.map(|started| &started.cwd),
            "entry": started.map(|started| &started.entry),
            "input": started.and_then(|started| started.input.as_ref()),
            "metadata": run.metadata, "settings": event::of_settings(&run.settings),
            "limits": event::of_limits(&run.limits),
            "halt": run.halt.as_ref().map(event::of_halt),
            "orchestrator": live.owner.as_ref().map(|owner| {
                json!({ "pid": owner.pid, "since": owner.since_ms })
            }),
            "ended_at": ended, "agents_born": run.agents_born,
            "can": if overview.problem.is_some() { Vec::new() } else { can(run, live) },
            "problem": overview.problem,
        }),
    );
    value
}

/// How much of their providers' limits the coding agents of a run have reported as used.
fn usage_windows(run: &Run) -> Value {
    let all = run.windows.iter().flat_map(|(name, windows)| {
        windows.iter().map(move |window| {
            json!({
                "coding_agent": name, "window": window.name, "label": window.label(),
                "used_percent": window.used_percent, "resets_at": window.resets_at,
            })
        })
    });
    Value::from(all.collect::<Vec<_>>())
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
    let facts = overview.agents.get(id).cloned().unwrap_or_default();
    let mut value = match overview.run().and_then(|run| run.agents.get(id)) {
        Some(agent) => living(agent, &facts, live.activities.get(id)),
        None => gone(id, &facts),
    };
    if let Some(worktree) = overview.run().and_then(|run| run.worktrees.get(id)) {
        value["worktree"] = json!({
            "path": worktree.path, "branch": worktree.branch, "base": worktree.base,
            "head": worktree.head, "problem": worktree.problem,
        });
    }
    if let Some((ended, all)) = overview.run().and_then(|run| run.joined_so_far(id)) {
        value["workers"] = json!({ "ended": ended, "all": all });
    }
    merge(
        &mut value,
        json!({
            "parent": facts.parent, "born": facts.born, "since": facts.since_ms,
            "heard_at": live.heard_at.get(id),
            "attributes": facts.attributes, "denied": facts.denied, "offset": facts.offset,
            "waits_until": facts.waits.as_ref().map(|(until, _)| until),
            "waits_why": facts.waits.as_ref().map(|(_, why)| why),
            "came": facts.came.as_ref().map(|came| {
                json!({ "from": came.from, "to": came.to, "kind": came.kind })
            }),
        }),
    );
    value
}

fn living(agent: &Agent, facts: &AgentFacts, activity: Option<&Activity>) -> Value {
    let tool = activity.and_then(|activity| match activity {
        Activity::Uses { tool, .. } => Some(tool),
        Activity::Says(_) | Activity::Waits(_) => None,
    });
    let (phase, error) = phase(&agent.phase);
    let session = match &agent.session {
        Session::Open(id) => Some(id),
        Session::Fresh | Session::Branch(_) => None,
    };
    json!({
        "agent": agent.id, "state": agent.current_state, "phase": phase, "error": error,
        "step": agent.phase.step().map(|step| step.number),
        "tool": tool, "activity": activity.map(words::of_activity),
        "cost_usd": agent.cost_usd, "steps": agent.steps,
        "returns_to": agent.stack.iter().rev().map(|frame| &frame.state).collect::<Vec<_>>(),
        "cwd": agent.cwd, "session": session, "is_ended": facts.ended.is_some(), "result": null,
    })
}

fn gone(id: &AgentId, facts: &AgentFacts) -> Value {
    let ended = facts.ended.as_ref();
    json!({
        "agent": id, "state": ended.map(|ended| &ended.state), "phase": "ended", "error": null,
        "step": null, "tool": null, "activity": null,
        "cost_usd": ended.map(|ended| ended.cost_usd), "steps": ended.map(|ended| ended.steps),
        "returns_to": [], "cwd": null, "session": null, "is_ended": true,
        "result": ended.map(|ended| &ended.result), "ended_at": ended.map(|ended| ended.at_ms),
    })
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
    let accounts = &overview.accounts;
    let list = |rows: Vec<(String, &Account)>| {
        let rows = rows.into_iter().map(|(name, row)| {
            let mut value = account(row);
            value["name"] = json!(name);
            value
        });
        Value::from(rows.collect::<Vec<_>>())
    };
    let named = |(name, row): (&String, _)| (name.clone(), row);
    json!({
        "total": account(&accounts.total),
        "by_state": list(accounts.by_state.iter().map(|(name, row)| (name.to_string(), row)).collect()),
        "by_model": list(accounts.by_model.iter().map(named).collect()),
        "by_version": list(accounts.by_version.iter().map(named).collect()),
        "by_agent": list(accounts.by_agent.iter().map(|(name, row)| (name.to_string(), row)).collect()),
    })
}

fn account(account: &Account) -> Value {
    json!({
        "cost_usd": account.cost_usd, "steps": account.steps, "duration_ms": account.duration_ms,
        "tokens": account.tokens,
    })
}

/// Adds the fields of `more`, which win.
pub(super) fn merge(value: &mut Value, more: Value) {
    if let (Value::Object(value), Value::Object(more)) = (value, more) {
        value.extend::<Map<_, _>>(more);
    }
}
