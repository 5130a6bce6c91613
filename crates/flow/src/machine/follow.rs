//! What each of the seven transitions does to an agent: the heart of the language.
//!
//! | tag | session | return stack |
//! |---|---|---|
//! | goto | the same | kept |
//! | reset | fresh | cleared |
//! | call | branch of the caller's | frame pushed |
//! | function | fresh | frame pushed |
//! | fork | parent: the same; worker: fresh | parent: kept; worker: empty |
//! | ask | the same, once it is answered | kept |
//! | result | the caller's | frame popped; none left: the agent ends |

use crate::{
    id::{AgentId, SessionId},
    money::Usd,
    policy::Transition,
};

use super::{Agent, Frame, Limit, Run, Session};

/// How many states a transition enters.
pub(super) fn states_entered(agent: &Agent, transition: &Transition) -> u64 {
    match transition {
        Transition::Goto { .. }
        | Transition::Reset { .. }
        | Transition::Call { .. }
        | Transition::Function { .. } => 1,
        Transition::Fork { .. } => 2,
        // Asking is free. The answer is followed by a `goto` of its own.
        Transition::Ask(_) => 0,
        Transition::Result { .. } => u64::from(!agent.stack.is_empty()),
    }
}

/// What an agent does after a transition.
pub(super) enum After {
    /// It continues.
    Goes,
    /// It continues, and starts this worker.
    Forks(Box<Agent>),
    /// It ends with this result.
    Ends(String),
}

/// Moves `agent` along a transition. `session` is the session of the answer that asked for it, if it has one;
/// `worker` is the name for a fork's new agent.
pub(super) fn follow(
    agent: &mut Agent,
    transition: Transition,
    session: Option<&SessionId>,
    worker: Option<(AgentId, u64)>,
) -> After {
    if let Some(session) = session {
        agent.session = Session::Open(session.clone());
    }
    match transition {
        Transition::Goto { target } => agent.enter(target),
        Transition::Reset { target, cd } => {
            agent.session = Session::Fresh;
            agent.session_agent = None;
            agent.stack.clear();
            if let Some(cd) = cd {
                agent.cwd = cd;
            }
            agent.enter(target);
        }
        Transition::Call { target, return_to } => {
            let callee = match &agent.session {
                // The session has no turn yet: there is nothing to branch from.
                Session::Fresh => Session::Fresh,
                Session::Open(session) | Session::Branch(session) => {
                    Session::Branch(session.clone())
                }
            };
            let session = std::mem::replace(&mut agent.session, callee);
            let session_agent = agent.session_agent.clone();
            agent.stack.push(Frame { session, session_agent, state: return_to, model: None });
            agent.enter(target);
        }
        Transition::Function { target, return_to, model } => {
            let session = std::mem::replace(&mut agent.session, Session::Fresh);
            let session_agent = agent.session_agent.take();
            agent.stack.push(Frame { session, session_agent, state: return_to, model });
            agent.enter(target);
        }
        Transition::Fork { target, next, cd, attributes } => {
            let cwd = cd.unwrap_or_else(|| agent.cwd.clone());
            agent.enter(next);
            if let Some((id, born)) = worker {
                let mut worker = Agent::new(id, born, target, cwd);
                worker.parent = Some(agent.id.clone());
                worker.fork_attributes = attributes;
                return After::Forks(Box::new(worker));
            }
        }
        // Not followed, but asked: see `ask`.
        Transition::Ask(_) => {}
        Transition::Result { payload } => match agent.stack.pop() {
            None => return After::Ends(payload),
            Some(Frame { session, session_agent, state, .. }) => {
                agent.session = session;
                agent.session_agent = session_agent;
                agent.enter(state);
                agent.result = Some(payload);
            }
        },
    }
    After::Goes
}

/// How many pending returns a transition discards.
pub(super) fn discarded_returns(agent: &Agent, transition: &Transition) -> usize {
    match transition {
        Transition::Reset { .. } => agent.stack.len(),
        Transition::Goto { .. }
        | Transition::Call { .. }
        | Transition::Function { .. }
        | Transition::Fork { .. }
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
