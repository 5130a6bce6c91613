//! The only mutation of a run.
//!
//! A record says what became true, never what to do about it: there is nothing to decide here. If a record
//! does not fit the run, the journal belongs to another run or is incomplete.

use thiserror::Error;

use crate::{
    id::{AgentId, SessionId},
    policy::{Source, Transition},
};

use super::{
    Action, Agent, Answer, CountsAs, Evaluation, Instead, Leave, Left, Limits, Overrider, Phase,
    Record, Run, Session, Settings, Spent, Status, Step, Tries, UsageLimit, Via, Work, ask,
    follow::{After, follow, states_entered},
    join, naming, rewind, worktree,
};

/// A record that cannot be true of this run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ApplyError {
    /// A second `Started`.
    #[error("a run starts only once")]
    StartedTwice,
    /// The run has no such agent.
    #[error("there is no agent `{agent}`")]
    NoSuchAgent {
        /// The agent.
        agent: AgentId,
    },
    /// The agent is in another phase.
    #[error("agent `{agent}` cannot {what} now")]
    WrongPhase {
        /// The agent.
        agent: AgentId,
        /// The name of the record.
        what: &'static str,
    },
    /// A worker that the agent did not fork, or that was joined before.
    #[error("agent `{agent}` has no worker `{worker}` to join")]
    NoSuchWorker {
        /// The parent.
        agent: AgentId,
        /// The worker.
        worker: AgentId,
    },
    /// Results that cannot be written as JSON.
    #[error("the results of the workers cannot be handed over")]
    Unwritable,
    /// A fork without a worker, or with one whose name is taken.
    #[error("agent `{agent}` forked no new worker")]
    NoNewWorker {
        /// The parent.
        agent: AgentId,
    },
}

/// Applies `record`. After an error the run must not be used any more.
#[expect(clippy::too_many_lines, reason = "a table with one entry for each record")]
pub fn apply(run: &mut Run, record: &Record) -> Result<(), ApplyError> {
    match record {
        Record::Started(_) => Err(ApplyError::StartedTwice),
        Record::Intended { agent, step } => intended(run, agent, step),
        Record::Queued { agent } => queued(run, agent),
        Record::Called { agent } => called(run, agent),
        Record::Ended { agent, number, spent } => ended(run, agent, *number, spent),
        Record::Followed { agent, transition, via, session, workers, .. } => {
            followed(run, agent, (transition, *via), session.as_ref(), workers)
        }
        Record::Asked { agent, number, question, session, .. } => {
            change(run, agent, |agent| ask::asked(agent, *number, question, session.as_ref()))
        }
        Record::Answered { agent, number, response } => {
            change(run, agent, |agent| ask::answered(agent, *number, response))
        }
        Record::Told { agent, message } => change(run, agent, |agent| {
            agent.messages.push(message.clone());
            Ok(())
        }),
        Record::Heard { agent, messages } => change(run, agent, |agent| {
            agent.heard.extend(messages.iter().cloned());
            Ok(())
        }),
        Record::Joined { agent, workers } => join::joined(run, agent, workers),
        Record::Placed { agent } => join::placed(run, agent),
        Record::WorktreeMade { agent, worktree, cwd } => worktree::made(run, agent, worktree, cwd),
        Record::WorktreeSaved { agent, saved } => worktree::saved(run, agent, saved),
        Record::Overridden { agent, asked, source, session, by, instead } => {
            change(run, agent, |agent| {
                overridden(agent, (asked, *source), session.as_ref(), (by, instead));
                Ok(())
            })
        }
        Record::Reminded { agent, work, .. } => reminded(run, agent, work),
        Record::Evaluating { agent, evaluation } => evaluating(run, agent, evaluation),
        Record::Retried { agent, counts_as, delay_ms, left, .. } => {
            retried(run, agent, *counts_as, *delay_ms, left.as_ref())
        }
        Record::Woke { agent } => woke(run, agent),
        Record::Failed { agent, error, class, work, left, loses_session } => {
            let (error, class, work) = (error.clone(), *class, work.clone());
            let leave = Leave::Failed { error, class, work };
            failed(run, agent, leave, left.as_ref(), *loses_session)
        }
        Record::Halted { why } => {
            run.halt = Some(why.clone());
            Ok(())
        }
        Record::UsageLimited { resets_at } => {
            run.usage_limit = Some(UsageLimit { resets_at: *resets_at });
            Ok(())
        }
        Record::AgentStopped { coding_agent, resets_at, .. } => {
            run.stopped.insert(coding_agent.clone(), UsageLimit { resets_at: *resets_at });
            Ok(())
        }
        Record::UsageLimitLifted => {
            run.usage_limit = None;
            run.stopped.clear();
            // They were of before it began again.
            run.windows.clear();
            Ok(())
        }
        Record::Finished { status } => {
            run.status = *status;
            Ok(())
        }
        Record::Resumed { settings, limits } => {
            resumed(run, settings, limits);
            Ok(())
        }
        Record::Rewound { sessions, .. } => {
            rewind::rewound(run, sessions);
            Ok(())
        }
        Record::LimitsChanged { limits } => {
            run.limits = limits.clone();
            Ok(())
        }
    }
}

fn failed(
    run: &mut Run,
    id: &AgentId,
    leave: Leave,
    left: Option<&Left>,
    loses_session: bool,
) -> Result<(), ApplyError> {
    change(run, id, |agent| {
        agent.tries.left = left.cloned();
        if loses_session {
            agent.session = Session::Fresh;
        }
        Ok(())
    })?;
    leave_now(run, id, leave)
}

/// The agent ends or fails, at once if it has no worktree.
fn leave_now(run: &mut Run, id: &AgentId, leave: Leave) -> Result<(), ApplyError> {
    match worktree::leaves(run, id, leave)? {
        Some(leave) => worktree::left_for(run, id, leave),
        None => Ok(()),
    }
}

/// A limit may keep `agent` from the transition that it asked for. The session of its answer is kept for later. What
/// happens instead of a transition that is not held is a record of its own.
fn overridden(
    agent: &mut Agent,
    (asked, source): (&Transition, Source),
    session: Option<&SessionId>,
    (by, instead): (&Overrider, &Instead),
) {
    let (Overrider::Limit(limit), Instead::Stop) = (by, instead) else { return };
    if let Some(session) = session {
        agent.session = Session::Open(session.clone());
    }
    agent.phase = Phase::Held { asked: asked.clone(), source, limit: *limit };
}

fn evaluating(run: &mut Run, agent: &AgentId, evaluation: &Evaluation) -> Result<(), ApplyError> {
    change(run, agent, |agent| {
        agent.tries = Tries::default();
        agent.phase = Phase::Ready { work: Work::Evaluate(Box::new(evaluation.clone())) };
        Ok(())
    })
}

fn resumed(run: &mut Run, settings: &Settings, limits: &Limits) {
    run.settings = settings.clone();
    run.limits = limits.clone();
    run.status = Status::Running;
    run.halt = None;
    run.usage_limit = None;
    run.stopped.clear();
    run.windows.clear();
    take_up_stopped(run);
}

/// Agents that stopped retry the work at which they stopped, with what a start of it may have left.
fn take_up_stopped(run: &mut Run) {
    let ids: Vec<_> = run.agents_by_birth().into_iter().map(|agent| agent.id.clone()).collect();
    for id in ids {
        let Some(agent) = run.agents.get(&id) else { continue };
        let (parent, born) = (agent.parent.clone(), agent.born);
        if matches!(agent.phase, Phase::Failed { passed: true, .. }) {
            continue;
        }
        let has_failed = matches!(agent.phase, Phase::Failed { .. });
        let work = match &agent.phase {
            // The answer is paid for, but the evaluator gave no verdict: both are evaluated again, with the
            // workflow as it is now.
            Phase::Failed { work: Work::Evaluate(evaluation), .. } => {
                let (text, session) = (evaluation.output.clone(), evaluation.visit.session.clone());
                Work::Rejudge(Box::new(Answer { text, session }))
            }
            Phase::Failed { work, .. } => work.clone(),
            Phase::Held { asked, source, .. } => {
                Work::Follow { transition: Box::new(asked.clone()), source: *source }
            }
            Phase::Ready { .. }
            | Phase::Queued { .. }
            | Phase::Called { .. }
            | Phase::Running { .. }
            | Phase::Joining { .. }
            | Phase::Parked { .. }
            | Phase::Moving { .. }
            | Phase::Leaving { .. }
            | Phase::Asking { .. }
            | Phase::Waiting { .. } => continue,
        };
        let waits = has_failed && join::resumed(run, parent.as_ref(), born);
        let Some(agent) = run.agents.get_mut(&id) else { continue };
        agent.phase = if waits { Phase::Parked { work } } else { agent.about_to(work) };
        agent.tries = Tries { left: agent.tries.left.take(), ..Tries::default() };
    }
    run.derive();
}

/// Changes one agent and updates the counts.
pub(super) fn change(
    run: &mut Run,
    id: &AgentId,
    change: impl FnOnce(&mut Agent) -> Result<(), ApplyError>,
) -> Result<(), ApplyError> {
    let Some(agent) = run.agents.get_mut(id) else {
        return Err(ApplyError::NoSuchAgent { agent: id.clone() });
    };
    run.counts.remove(&agent.phase);
    let outcome = change(agent);
    run.counts.add(&agent.phase);
    outcome
}

pub(super) fn wrong_phase(agent: &Agent, what: &'static str) -> ApplyError {
    ApplyError::WrongPhase { agent: agent.id.clone(), what }
}

/// The work of an agent that could start a step now.
fn ready_work(agent: &Agent, what: &'static str) -> Result<Work, ApplyError> {
    match &agent.phase {
        Phase::Ready { work } | Phase::Called { work } => Ok(work.clone()),
        Phase::Queued { .. }
        | Phase::Running { .. }
        | Phase::Waiting { .. }
        | Phase::Joining { .. }
        | Phase::Parked { .. }
        | Phase::Moving { .. }
        | Phase::Leaving { .. }
        | Phase::Asking { .. }
        | Phase::Held { .. }
        | Phase::Failed { .. } => Err(wrong_phase(agent, what)),
    }
}

fn intended(run: &mut Run, agent: &AgentId, step: &Step) -> Result<(), ApplyError> {
    change(run, agent, |agent| {
        let work = ready_work(agent, "start a step")?;
        if let Action::Turn(turn) = &step.action
            && !matches!(work, Work::Evaluate(_))
        {
            agent.session_agent.clone_from(&turn.settings.agent);
        }
        agent.steps = step.number;
        agent.tries.starts += 1;
        agent.phase = Phase::Running { work, step: Box::new(step.clone()) };
        Ok(())
    })
}

fn queued(run: &mut Run, agent: &AgentId) -> Result<(), ApplyError> {
    let ticket = run.next_ticket;
    run.next_ticket += 1;
    run.queue.insert(ticket, agent.clone());
    change(run, agent, |agent| {
        let work = ready_work(agent, "be queued")?;
        agent.phase = Phase::Queued { work, ticket };
        Ok(())
    })
}

fn called(run: &mut Run, agent: &AgentId) -> Result<(), ApplyError> {
    let mut called_ticket = None;
    change(run, agent, |agent| {
        let Phase::Queued { work, ticket } = &agent.phase else {
            return Err(wrong_phase(agent, "be called"));
        };
        called_ticket = Some(*ticket);
        agent.phase = Phase::Called { work: work.clone() };
        Ok(())
    })?;
    if let Some(ticket) = called_ticket {
        run.queue.remove(&ticket);
    }
    Ok(())
}

fn ended(run: &mut Run, id: &AgentId, number: u32, spent: &Spent) -> Result<(), ApplyError> {
    let mut by = None;
    change(run, id, |agent| {
        let work = match &agent.phase {
            Phase::Running { work, step } if step.number == number => {
                by = step.coding_agent().map(str::to_owned);
                work.clone()
            }
            Phase::Running { .. }
            | Phase::Ready { .. }
            | Phase::Queued { .. }
            | Phase::Called { .. }
            | Phase::Waiting { .. }
            | Phase::Joining { .. }
            | Phase::Parked { .. }
            | Phase::Moving { .. }
            | Phase::Leaving { .. }
            | Phase::Asking { .. }
            | Phase::Held { .. }
            | Phase::Failed { .. } => return Err(wrong_phase(agent, "end a step")),
        };
        // An evaluator's turn says nothing for the state.
        if spent.output.is_some() && !matches!(work, Work::Evaluate(_)) {
            agent.said.clone_from(&spent.output);
        }
        agent.phase = Phase::Ready { work };
        agent.cost_usd += spent.cost_usd;
        agent.tries.spent_usd += spent.cost_usd;
        Ok(())
    })?;
    run.total_cost_usd += spent.cost_usd;
    if !spent.windows.is_empty() {
        run.windows.insert(by.unwrap_or_default(), spent.windows.clone());
    }
    Ok(())
}

fn retried(
    run: &mut Run,
    id: &AgentId,
    counts_as: CountsAs,
    delay_ms: u64,
    left: Option<&Left>,
) -> Result<(), ApplyError> {
    change(run, id, |agent| {
        let work = ready_work(agent, "try again")?;
        match counts_as {
            CountsAs::Retry => agent.tries.retries += 1,
            CountsAs::Loss => agent.tries.losses += 1,
            // Only transient failures wait without being counted.
            CountsAs::Nothing => {
                agent.tries.waited_ms = agent.tries.waited_ms.saturating_add(delay_ms);
            }
        }
        agent.tries.left = left.cloned();
        agent.phase = match delay_ms {
            0 => Phase::Ready { work },
            delay_ms => Phase::Waiting { work, delay_ms },
        };
        Ok(())
    })
}

fn reminded(run: &mut Run, id: &AgentId, work: &Work) -> Result<(), ApplyError> {
    change(run, id, |agent| {
        let reminders = agent.tries.reminders + 1;
        agent.tries = Tries { reminders, ..Tries::default() };
        agent.phase = Phase::Ready { work: work.clone() };
        Ok(())
    })
}

fn woke(run: &mut Run, id: &AgentId) -> Result<(), ApplyError> {
    change(run, id, |agent| {
        let Phase::Waiting { work, .. } = &agent.phase else {
            return Err(wrong_phase(agent, "wake"));
        };
        agent.phase = Phase::Ready { work: work.clone() };
        Ok(())
    })
}

fn followed(
    run: &mut Run,
    id: &AgentId,
    (transition, via): (&Transition, Via),
    session: Option<&SessionId>,
    workers: &[AgentId],
) -> Result<(), ApplyError> {
    let is_new = workers.iter().all(|worker| !run.agents.contains_key(worker));
    if transition.workers().len() != workers.len() || !is_new {
        return Err(ApplyError::NoNewWorker { agent: id.clone() });
    }
    let new = workers.iter().cloned().zip(run.agents_born..).collect();
    let workers_since = run.crews.get(id).map_or(0, super::Crew::frame_start);
    let mut after = After::Goes;
    let mut entered = 0;
    change(run, id, |agent| {
        if matches!(agent.phase, Phase::Running { .. }) {
            return Err(wrong_phase(agent, "follow a transition"));
        }
        entered = states_entered(agent, transition);
        let response = agent.response.take().filter(|_| via == Via::Answer);
        after = follow(agent, transition.clone(), session, new, workers_since);
        agent.diverted = via == Via::Visits;
        if let Some(response) = response {
            agent.result = Some(response.result.clone().into());
            agent.response = Some(response);
        }
        Ok(())
    })?;
    run.iteration_count += entered;
    match after {
        After::Goes => {}
        After::Joins => join::review(run, id),
        After::Forks(workers) => {
            for (worker, limit) in workers {
                naming::given(run, id, &worker.id, &worker.current_state);
                join::forked(run, id, &worker, limit);
                run.agents_born += 1;
                run.counts.add(&worker.phase);
                run.agents.insert(worker.id.clone(), worker);
            }
        }
        After::Ends(payload) => {
            if *id == AgentId::main() {
                run.result = Some(payload.clone());
            }
            return leave_now(run, id, Leave::Ended { payload });
        }
    }
    Ok(())
}
