//! What each of the transitions does to an agent: the heart of the language.
//!
//! | tag | session | return stack |
//! |---|---|---|
//! | goto | the same | kept |
//! | reset | fresh | cleared |
//! | call | branch of the caller's | frame pushed |
//! | function | fresh | frame pushed |
//! | fork | parent: the same; worker: fresh | parent: kept; worker: empty |
//! | join | the same, after the workers | kept |
//! | ask | the same, once it is answered | kept |
//! | result | the caller's | frame popped; none left: the agent ends |

use std::collections::BTreeMap;

use crate::{
    id::{AgentId, SessionId, StateName},
    money::Usd,
    payload::Payload,
    policy::{Forked, Transition},
};

use super::{Agent, Frame, Limit, Phase, Run, Session, Work};

/// How many states a transition enters.
pub(super) fn states_entered(agent: &Agent, transition: &Transition) -> u64 {
    match transition {
        Transition::Goto { .. }
        | Transition::Reset { .. }
        | Transition::Call { .. }
        | Transition::Function { .. }
        | Transition::Join(_) => 1,
        Transition::Fork { workers, .. } => 1 + workers.len() as u64,
        // Asking is free. The answer is followed by a `goto` of its own.
        Transition::Ask(_) => 0,
        Transition::Result { .. } => u64::from(!agent.stack.is_empty()),
    }
}

/// What an agent does after a transition.
pub(super) enum After {
    /// It continues.
    Goes,
    /// It continues, and starts these workers, each with the limit of its fork.
    Forks(Vec<(Agent, Option<u32>)>),
    /// It waits for workers.
    Joins,
    /// It ends with this result.
    Ends(Payload),
}

/// What a new frame of the stack is given besides what it keeps for the caller.
struct Returns {
    return_to: StateName,
    cd: Option<String>,
    model: Option<String>,
    arguments: BTreeMap<String, String>,
    workers_since: u64,
}

/// Puts the caller's session, visits and, if the callee works elsewhere, directory aside until the callee, which has the session `callee`, returns.
fn push(agent: &mut Agent, callee: Session, returns: Returns) {
    let Returns { return_to, cd, model, arguments, workers_since } = returns;
    agent.stack.push(Frame {
        session: std::mem::replace(&mut agent.session, callee),
        session_agent: agent.session_agent.take(),
        state: return_to,
        cwd: cd.map(|cd| std::mem::replace(&mut agent.cwd, cd)),
        model,
        arguments,
        visits: std::mem::take(&mut agent.visits),
        workers_since,
    });
}

/// Moves `agent` along a transition. `session` is the session of the answer that asked for it, if it has one; `workers` are
/// the names and births for a fork's new agents; `workers_since` is the birth from which on new workers
/// belong to a new frame.
pub(super) fn follow(
    agent: &mut Agent,
    transition: Transition,
    session: Option<&SessionId>,
    workers: Vec<(AgentId, u64)>,
    workers_since: u64,
) -> After {
    if let Some(session) = session {
        agent.session = Session::Open(session.clone());
    }
    match transition {
        Transition::Goto { target, input } => agent.enter_with(target, input),
        Transition::Reset { target, cd, input } => {
            agent.session = Session::Fresh;
            agent.session_agent = None;
            // The frame that is left is the outermost one.
            if let Some(outermost) = agent.stack.drain(..).next() {
                agent.visits = outermost.visits;
            }
            if let Some(cd) = cd {
                agent.cwd = cd;
            }
            agent.enter_with(target, input);
        }
        Transition::Call { target, return_to, cd, input, arguments } => {
            let callee = match &agent.session {
                // The session has no turn yet: there is nothing to branch from.
                Session::Fresh => Session::Fresh,
                Session::Open(from) | Session::Branch { from } => {
                    Session::Branch { from: from.clone() }
                }
            };
            let branched = agent.session_agent.clone();
            let model = None;
            push(agent, callee, Returns { return_to, cd, model, arguments, workers_since });
            agent.session_agent = branched;
            agent.enter_with(target, input);
        }
        Transition::Function { target, return_to, cd, model, input, arguments } => {
            let returns = Returns { return_to, cd, model, arguments, workers_since };
            push(agent, Session::Fresh, returns);
            agent.enter_with(target, input);
        }
        Transition::Join(join) => {
            agent.phase = Phase::Joining { join };
            return After::Joins;
        }
        Transition::Fork { next, workers: forked } => {
            let new = forked.into_iter().zip(workers).map(|(forked, (id, born))| {
                let limit = forked.limit;
                (worker(agent, forked, id, born), limit)
            });
            let new = new.collect();
            agent.enter(next);
            return After::Forks(new);
        }
        // Not followed, but asked: see `ask`.
        Transition::Ask(_) => {}
        Transition::Result { payload } => match agent.stack.pop() {
            None => return After::Ends(payload),
            Some(Frame { session, session_agent, state, cwd, visits, .. }) => {
                agent.session = session;
                agent.visits = visits;
                agent.session_agent = session_agent;
                if let Some(cwd) = cwd {
                    agent.cwd = cwd;
                }
                agent.enter(state);
                agent.result = Some(payload);
            }
        },
    }
    After::Goes
}

/// The new agent that `parent` forks.
fn worker(parent: &Agent, forked: Forked, id: AgentId, born: u64) -> Agent {
    let Forked { target, cd, attributes, limit, worktree, input } = forked;
    let cwd = cd.unwrap_or_else(|| parent.cwd.clone());
    let mut worker = Agent::new(id, born, target, cwd);
    worker.parent = Some(parent.id.clone());
    worker.fork_attributes = attributes;
    worker.input = input;
    worker.output.clone_from(&parent.said);
    worker.worktree_plan = worktree;
    if limit.is_some() {
        // `settle` gives it a place, at once if there is one.
        worker.phase = Phase::Parked { work: Work::Enter };
    } else {
        worker.phase = worker.about_to(Work::Enter);
    }
    worker
}

/// How many pending returns a transition discards.
pub(super) fn discarded_returns(agent: &Agent, transition: &Transition) -> usize {
    match transition {
        Transition::Reset { .. } => agent.stack.len(),
        Transition::Goto { .. }
        | Transition::Call { .. }
        | Transition::Function { .. }
        | Transition::Fork { .. }
        | Transition::Join(_)
        | Transition::Ask(_)
        | Transition::Result { .. } => 0,
    }
}

/// The limit that keeps `agent` from following `transition`, if one does. `spent_just_now` is
/// what the run does not count yet.
pub(super) fn limit_reached(
    run: &Run,
    agent: &Agent,
    transition: &Transition,
    spent_just_now: Usd,
) -> Option<Limit> {
    let entered = states_entered(agent, transition);
    if entered == 0 {
        // The agent ends. That costs nothing more, and its result is already paid for.
        return None;
    }
    let spent_usd = run.total_cost_usd + spent_just_now;
    if let Some(budget_usd) = run.limits.budget_usd
        && spent_usd > budget_usd
    {
        return Some(Limit::Budget { spent_usd, budget_usd });
    }
    match run.limits.max_iterations {
        Some(max_iterations) if run.iteration_count + entered > max_iterations => {
            Some(Limit::Iterations { max_iterations })
        }
        _ => None,
    }
}
