//! A run as one row of a list.

use std::path::Path;

use raymond_flow::{
    machine::{Halt, Phase, Run, Status},
    text::beginning,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    event,
    run::{LiveFacts, phase, status_word},
    shown, value, words,
};
use crate::observe::overview::Overview;

/// How much of a result or an error a row has.
const TEXT_CHARS_MAX: usize = 300;

/// Where a run stands in a list, in the order in which people look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// A person has to do something, or nothing goes on.
    #[default]
    NeedsYou,
    /// It runs.
    Running,
    /// It waits for a time or was stopped on purpose.
    Waiting,
    /// It is over.
    Ended,
}

impl Group {
    /// The word in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::NeedsYou => "needs_you",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Ended => "ended",
        }
    }
}

/// Where a run stands in a list. A run that cannot be read to its end needs a person.
pub fn group(overview: &Overview, live: &LiveFacts) -> Group {
    let Some(run) = overview.run().filter(|_| overview.problem.is_none()) else {
        return Group::NeedsYou;
    };
    match (run.status, &run.halt) {
        (Status::Completed | Status::Cancelled, _) => Group::Ended,
        // A question can be answered also while the run is paused: the answer resumes it.
        (_, _) if !asks(overview, run).is_empty() => Group::NeedsYou,
        (Status::Paused, Some(Halt::Interrupted)) => Group::Waiting,
        (Status::Failed | Status::Stopped | Status::Paused, _) => Group::NeedsYou,
        (Status::Running, _) if live.owner.is_none() => Group::NeedsYou,
        (Status::Running, _) if overview.denied > 0 => Group::NeedsYou,
        (Status::Running, _) if run.usage_limit.is_some() => Group::Waiting,
        (Status::Running, _) => Group::Running,
    }
}

/// A run in a list: what a row of the page shows.
pub fn row(overview: &Overview, live: &LiveFacts) -> Value {
    value(&row_of(overview, live))
}

pub(super) fn row_of(overview: &Overview, live: &LiveFacts) -> shown::Row {
    let group = group(overview, live);
    let Some(run) = overview.run() else {
        let error = overview.problem.as_deref().unwrap_or("its journal is empty").to_owned();
        return shown::Row {
            run: overview.id().to_string(),
            status: shown::StatusWord(overview.unread.to_owned()),
            why: Some(error.clone()),
            error: Some(error),
            ..shown::Row::default()
        };
    };
    let name =
        Path::new(&run.scope_dir).file_name().map(|name| name.to_string_lossy().into_owned());
    shown::Row {
        status: shown::StatusWord(status_word(run, live)),
        group,
        workflow: Some(run.scope_dir.clone()),
        name,
        started_at: Some(run.started_at_ms),
        last_at: overview.last_at,
        waiting_since: waiting_since(overview, run, group),
        agents: Some(run.agents.len()),
        steps: Some(overview.accounts.total.steps),
        states_entered: Some(run.iteration_count),
        max_iterations: run.limits.max_iterations,
        total_cost_usd: Some(run.total_cost_usd),
        budget_usd: run.limits.budget_usd,
        now: now(overview, run, live),
        why: why(overview, run, live),
        halted: run.halt.as_ref().map(words::of_halt),
        halt: run.halt.as_ref().map(event::of_halt),
        usage_limit: limited(run),
        stopped_agents: stopped(run),
        denied: overview.denied,
        asks: asks(overview, run),
        result: run.result.as_ref().map(|text| text.beginning(TEXT_CHARS_MAX)),
        error: overview.problem.clone(),
        run: run.id.to_string(),
    }
}

/// The usage limit that all agents wait for.
pub(super) fn limited(run: &Run) -> Option<shown::Limited> {
    run.usage_limit.map(|limit| shown::Limited { resets_at: limit.resets_at })
}

/// The coding agents for which others stand in.
pub(super) fn stopped(run: &Run) -> Vec<shown::Stopped> {
    let stopped = run.stopped.iter();
    let stopped = stopped.map(|(name, limit)| shown::Stopped {
        coding_agent: name.clone(),
        resets_at: limit.resets_at,
    });
    stopped.collect()
}

/// The questions to people that are open, the oldest first.
fn asks(overview: &Overview, run: &Run) -> Vec<shown::Ask> {
    // What was open before a damage may long be answered.
    if !run.status.can_resume() || overview.problem.is_some() {
        return Vec::new();
    }
    let mut open: Vec<_> = run
        .questions()
        .map(|(id, agent, question)| shown::Ask {
            ask: id.to_string(),
            agent: agent.id.clone(),
            state: agent.current_state.clone(),
            question: beginning(&question.text, TEXT_CHARS_MAX),
            is_whole: question.text.chars().count() <= TEXT_CHARS_MAX,
            choices: question
                .choices
                .iter()
                .map(|choice| shown::Choice {
                    label: choice.label.clone(),
                    to: choice.target.clone(),
                })
                .collect(),
            next: question.next.clone(),
            asked_at: overview.agents.get(&agent.id).map_or(0, |facts| facts.since_ms),
            deadline: question.deadline_ms,
            default: question.default.clone(),
        })
        .collect();
    open.sort_by_key(|ask| ask.asked_at);
    open
}

fn waiting_since(overview: &Overview, run: &Run, group: Group) -> Option<u64> {
    match group {
        Group::NeedsYou | Group::Waiting if run.status == Status::Running => {
            overview.rests_since.or(overview.last_at)
        }
        Group::NeedsYou | Group::Waiting => overview.rests_since,
        Group::Running | Group::Ended => None,
    }
}

/// The agent of which something was heard last.
fn now(overview: &Overview, run: &Run, live: &LiveFacts) -> Option<shown::Now> {
    live.owner.as_ref()?;
    let active = run.agents.values().filter(|agent| !matches!(agent.phase, Phase::Failed { .. }));
    let since = |id| overview.agents.get(id).map(|facts| facts.since_ms);
    let heard = |id| live.activities.contains_key(id);
    let agent = active
        .max_by_key(|agent| (agent.phase.step().is_some(), heard(&agent.id), since(&agent.id)))?;
    let (phase, _) = phase(&agent.phase);
    Some(shown::Now {
        agent: agent.id.clone(),
        state: agent.current_state.clone(),
        phase,
        since: since(&agent.id),
        activity: live.activities.get(&agent.id).map(words::of_activity),
        heard_at: live.heard_at.get(&agent.id).copied(),
    })
}

/// Why the run needs a person or waits.
fn why(overview: &Overview, run: &Run, live: &LiveFacts) -> Option<String> {
    // Whatever was read before the damage may long be over.
    if let Some(problem) = &overview.problem {
        return Some(format!("cannot be read to its end: {problem}"));
    }
    let failed = run.agents_by_birth().into_iter().find_map(|agent| match &agent.phase {
        // A failure that a join has handed over is its parent's business.
        Phase::Failed { error, passed: false, .. } => {
            let error = beginning(error, TEXT_CHARS_MAX);
            Some(format!("{} failed in {}: {error}", agent.id, agent.current_state))
        }
        _ => None,
    });
    match run.status {
        Status::Failed => failed.or_else(|| run.halt.as_ref().map(words::of_halt)),
        Status::Stopped | Status::Paused => run.halt.as_ref().map(words::of_halt),
        Status::Running if live.owner.is_none() => Some("its program died".to_owned()),
        Status::Running => match run.usage_limit {
            Some(limit) => {
                Some(format!("usage limit: all agents wait {}", words::wait(limit.resets_at)))
            }
            None if overview.denied > 0 => Some(denied(overview.denied)),
            None if !asks(overview, run).is_empty() => Some("waits for an answer".to_owned()),
            None => failed,
        },
        Status::Completed | Status::Cancelled => None,
    }
}

fn denied(count: u64) -> String {
    match count {
        1 => "a tool was not allowed".to_owned(),
        count => format!("{count} uses of tools were not allowed"),
    }
}
