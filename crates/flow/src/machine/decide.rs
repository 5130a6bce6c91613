//! Decides what becomes true, and which effects follow, when something happens.
//!
//! Pure: it never changes the run, and the same input gives the same decision. An input that comes too late
//! (the step is no longer running, the agent is gone) decides nothing, so the engine may deliver an outcome
//! more than once.

use crate::id::{AgentId, StepId};

use super::{
    Agent, Conclusion, Effect, Halt, Input, Limits, OnUsageLimit, Phase, Prepared, Record, Run,
    Settings, Spent, Started, Status,
    ask::{decide_answered, decide_idle},
    draft::Draft,
    message::{self, decide_told},
    window::{UsageWindow, used_up},
    worktree::{decide_made, decide_saved},
};

/// The records and effects that follow from an input.
///
/// The records are atomic: a journal has all of them or none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decision {
    /// To be made durable and applied, in this order.
    pub records: Vec<Record>,
    /// To be performed after that.
    pub effects: Vec<Effect>,
}

impl Decision {
    /// Whether there are neither records nor effects.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.effects.is_empty()
    }
}

/// Begins a run.
pub fn start(started: Started) -> Decision {
    Decision {
        records: vec![Record::Started(Box::new(started))],
        effects: vec![Effect::Prepare { agent: AgentId::main() }],
    }
}

/// The decision about `input`.
pub fn decide(run: &Run, input: Input) -> Decision {
    if run.status != Status::Running
        && !matches!(input, Input::Resume { .. } | Input::ChangeLimits { .. } | Input::Told { .. })
    {
        return Decision::default();
    }
    match input {
        Input::Prepared { agent, prepared } => match run.agents.get(&agent) {
            Some(agent) => decide_prepared(run, agent, prepared),
            None => Decision::default(),
        },
        Input::Ended { step, spent, conclusion } => decide_ended(run, &step, spent, conclusion),
        Input::Woke { agent } => decide_woke(run, agent),
        Input::WorktreeMade { agent, made } => decide_made(run, &agent, made),
        Input::WorktreeSaved { agent, saved } => decide_saved(run, &agent, saved),
        Input::Answered { id, response } => decide_answered(run, &id, *response),
        Input::Told { agent, message } => decide_told(run, &agent, message),
        Input::UsageLimitLifted => decide_lifted(run),
        Input::UsageLimited { coding_agent, resets_at } if run.is_open() => {
            decide_known_limit(run, coding_agent.as_deref(), resets_at)
        }
        Input::UsageLimited { .. } => Decision::default(),
        Input::Idle => decide_idle(run),
        Input::Halt(why) => decide_halt(run, why),
        Input::Resume { settings, limits } => decide_resume(run, settings, limits),
        Input::ChangeLimits { limits } => decide_limits(run, limits),
    }
}

fn decide_prepared(run: &Run, agent: &Agent, prepared: Result<Prepared, String>) -> Decision {
    let (Phase::Ready { work } | Phase::Called { work }) = &agent.phase else {
        return Decision::default();
    };
    if !run.is_open() {
        // The agent stays ready; when the halt is lifted, `pending` asks for it again.
        return Decision::default();
    }
    if let Ok(Prepared::Start { step, .. }) = &prepared
        && let Some((name, window)) = used_up(run, step)
    {
        return decide_used_up(run, name, window);
    }
    let mut draft = Draft::new(run, agent);
    match prepared {
        Ok(Prepared::Start { step, launch }) => draft.start(step, launch),
        Ok(Prepared::Blocked) => draft.block(),
        Ok(Prepared::Settled(conclusion)) => draft.conclude(conclusion),
        Err(error) => draft.fail(error, None, work.clone(), agent.tries.left.clone()),
    }
    draft.decision
}

fn decide_ended(run: &Run, id: &StepId, spent: Spent, conclusion: Conclusion) -> Decision {
    let Some((agent, _)) = run.running_step(id) else {
        return Decision::default();
    };
    let mut draft = Draft::new(run, agent);
    draft.spent_usd = spent.cost_usd;
    // Before the end: what follows from a step is the next record.
    draft.decision.records.extend(message::heard(agent, &spent, &conclusion));
    draft.record(Record::Ended { agent: agent.id.clone(), number: id.number, spent });
    draft.conclude(conclusion);
    draft.decision
}

fn decide_woke(run: &Run, agent: AgentId) -> Decision {
    let is_waiting =
        run.agents.get(&agent).is_some_and(|agent| matches!(agent.phase, Phase::Waiting { .. }));
    if !is_waiting || run.halt.is_some() {
        return Decision::default();
    }
    let mut decision =
        Decision { records: vec![Record::Woke { agent: agent.clone() }], effects: Vec::new() };
    if run.is_open() {
        decision.effects.push(Effect::Prepare { agent });
    }
    decision
}

fn decide_lifted(run: &Run) -> Decision {
    if run.usage_limit.is_none() && run.stopped.is_empty() {
        return Decision::default();
    }
    let mut decision = Decision { records: vec![Record::UsageLimitLifted], effects: Vec::new() };
    if run.halt.is_none() {
        decision.effects = ready_effects(run).collect();
    }
    decision
}

/// What agents that wait for nothing else do next. Worktrees are under way already, unless all agents wait for a limit.
fn ready_effects(run: &Run) -> impl Iterator<Item = Effect> {
    let all_wait = run.usage_limit.is_some();
    let is_ready = move |agent: &&Agent| {
        matches!(agent.phase, Phase::Ready { .. } | Phase::Called { .. })
            || (all_wait && matches!(agent.phase, Phase::Moving { .. }))
    };
    run.agents_by_birth().into_iter().filter(is_ready).map(Agent::first_effect)
}

/// A limit that another run has reached: another coding agent takes the turn, or all agents wait.
fn decide_known_limit(run: &Run, coding_agent: Option<&str>, resets_at: Option<u64>) -> Decision {
    let why = "its usage limit is reached, as another run says".to_owned();
    decide_unavailable(run, coding_agent, why, resets_at)
}

/// So much of a limit is used that the rest is left to the user.
fn decide_used_up(run: &Run, coding_agent: &str, window: &UsageWindow) -> Decision {
    let UsageWindow { used_percent, resets_at, .. } = *window;
    let most = run.settings.usage_max.unwrap_or_default();
    let label = window.label();
    let why = format!("{used_percent} % of its {label} limit is used, and `usage_max` is {most} %");
    decide_unavailable(run, Some(coding_agent), why, resets_at)
}

/// Another coding agent takes the turns of one whose provider is not available, or all agents wait.
fn decide_unavailable(
    run: &Run,
    coding_agent: Option<&str>,
    why: String,
    resets_at: Option<u64>,
) -> Decision {
    match coding_agent.and_then(|name| decide_stopped(run, name, why, resets_at)) {
        Some(mut decision) => {
            decision.effects.extend(ready_effects(run));
            decision
        }
        None => decide_limited(run, resets_at),
    }
}

/// Lets others stand in for a coding agent whose provider is not available; `None` if there is no other one.
pub(super) fn decide_stopped(
    run: &Run,
    name: &str,
    why: String,
    resets_at: Option<u64>,
) -> Option<Decision> {
    let order = &run.settings.failover.order;
    let is_there = |other: &String| other != name && !run.stopped.contains_key(other);
    if !order.iter().any(|listed| listed == name) || !order.iter().any(is_there) {
        return None;
    }
    if run.stopped.contains_key(name) {
        return Some(Decision::default());
    }
    let coding_agent = name.to_owned();
    Some(Decision {
        records: vec![Record::AgentStopped { coding_agent, why, resets_at }],
        effects: vec![Effect::WaitForUsageLimit { resets_at }],
    })
}

/// The provider refuses all turns: all agents wait, or the run pauses. If several coding agents were tried, until the
/// first of them is available again.
pub(super) fn decide_limited(run: &Run, resets_at: Option<u64>) -> Decision {
    let known = run.stopped.values().filter_map(|limit| limit.resets_at);
    let resets_at = known.chain(resets_at).min();
    match run.settings.on_usage_limit {
        OnUsageLimit::Pause => decide_halt(run, Halt::UsageLimit { resets_at }),
        OnUsageLimit::Wait if run.usage_limit.is_none() => Decision {
            records: vec![Record::UsageLimited { resets_at }],
            effects: vec![Effect::WaitForUsageLimit { resets_at }],
        },
        OnUsageLimit::Wait => Decision::default(),
    }
}

pub(super) fn decide_halt(run: &Run, why: Halt) -> Decision {
    // A cancel outranks whatever halted the run before; otherwise the first reason stands.
    let is_news = match (&run.halt, &why) {
        (None, _) => true,
        (Some(before), Halt::Cancelled) => *before != Halt::Cancelled,
        (Some(_), _) => false,
    };
    let records = if is_news { vec![Record::Halted { why }] } else { Vec::new() };
    Decision { records, effects: Vec::new() }
}

fn decide_resume(run: &Run, settings: Settings, limits: Limits) -> Decision {
    let mut records = Vec::new();
    if run.status.can_resume() {
        records.push(Record::Resumed { settings, limits });
    }
    Decision { records, effects: Vec::new() }
}

fn decide_limits(run: &Run, limits: Limits) -> Decision {
    let is_news = run.status.can_resume() && run.limits != limits;
    let records = if is_news { vec![Record::LimitsChanged { limits }] } else { Vec::new() };
    Decision { records, effects: Vec::new() }
}
