//! A run that continues another one from an earlier moment.
//!
//! Its journal begins with the records of the other run up to that moment, and then [`Record::Rewound`]. Nothing
//! of the other run is continued: the sessions of the agents are branched, each as it was when its agent last followed an
//! answer, and a step that was in flight is forgotten. An agent that was reminded, judged, or asked by its coding agent
//! enters its state again. A worker with a worktree gets a new one, from the last commit that is on record.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    id::{AgentId, SessionId, StepId},
    policy::{Transition, WorktreePlan},
};

use super::{Action, Agent, Halt, Phase, Record, Run, Session, Status, Tries, Work, Worktree};

/// For each session, the turn whose answer was followed last: until then, agents know what it contains.
pub fn bookmarks<'a>(records: impl IntoIterator<Item = &'a Record>) -> BTreeMap<SessionId, StepId> {
    let mut running: BTreeMap<&AgentId, &SessionId> = BTreeMap::new();
    let mut last: BTreeMap<SessionId, StepId> = BTreeMap::new();
    let mut marks = BTreeMap::new();
    for record in records {
        if let Record::Intended { agent, step } = record {
            if let Action::Turn(turn) = &step.action {
                running.insert(agent, turn.session.id());
            }
        } else if let Record::Ended { agent, number, spent } = record {
            if let Some(planned) = running.remove(agent) {
                let session = spent.session.as_ref().unwrap_or(planned).clone();
                last.insert(session, StepId { agent: agent.clone(), number: *number });
            }
        } else if let Record::Followed { session: Some(session), .. }
        | Record::Asked { session: Some(session), .. }
        | Record::Overridden { session: Some(session), .. } = record
            && let Some(step) = last.get(session)
        {
            marks.insert(session.clone(), step.clone());
        }
    }
    marks
}

impl Run {
    /// The sessions that agents would continue or branch.
    pub fn sessions(&self) -> BTreeSet<&SessionId> {
        let of_agent = self.agents.values().flat_map(|agent| {
            std::iter::once(&agent.session).chain(agent.stack.iter().map(|frame| &frame.session))
        });
        let sessions = of_agent.filter_map(|session| match session {
            Session::Fresh => None,
            Session::Open(session) | Session::Branch { from: session } => Some(session),
        });
        sessions.collect()
    }

    /// A worker that waits in the middle of its work in a worktree, or that would return there from another directory. Another
    /// run could continue it only where this run continues it.
    pub fn bound_to_worktree(&self) -> Option<&AgentId> {
        let waits = |agent: &Agent| {
            matches!(
                &agent.phase,
                Phase::Asking { .. }
                    | Phase::Joining { .. }
                    | Phase::Held { .. }
                    | Phase::Leaving { .. }
            )
        };
        let returns = |agent: &Agent| agent.stack.iter().any(|frame| frame.cwd.is_some());
        let mut own = self.worktrees.keys().filter_map(|id| self.agents.get(id));
        own.find(|agent| waits(agent) || returns(agent)).map(|agent| &agent.id)
    }
}

/// The run now is another one. `sessions` has the session to branch off instead of one that went on since.
pub(super) fn rewound(run: &mut Run, sessions: &BTreeMap<SessionId, SessionId>) {
    let branch = |session: &mut Session| {
        if let Session::Open(from) | Session::Branch { from } = session {
            let from = sessions.get(from).unwrap_or(from).clone();
            *session = Session::Branch { from };
        }
    };
    for agent in run.agents.values_mut() {
        branch(&mut agent.session);
        agent.stack.iter_mut().for_each(|frame| branch(&mut frame.session));
        agent.tries = Tries::default();
        if let Some(worktree) = run.worktrees.remove(&agent.id) {
            agent.worktree_plan = Some(Box::new(again_from(agent, worktree)));
        }
        agent.phase = anew(agent);
    }
    run.usage_limit = None;
    run.stopped.clear();
    run.windows.clear();
    if run.status == Status::Running {
        // No orchestrator may take it up by itself.
        run.status = Status::Paused;
        run.halt = Some(Halt::Interrupted);
    }
    run.derive();
}

/// A new worktree for the same worker: from the commit with which it left the old one, if it did.
fn again_from(agent: &Agent, worktree: Worktree) -> WorktreePlan {
    let Worktree { path, branch, repository, base, head, .. } = worktree;
    let own = branch.rsplit('/').next().unwrap_or_default();
    let name = own.strip_prefix(&format!("{}-", agent.id)).map(str::to_owned);
    let inside = agent.cwd.strip_prefix(&path).unwrap_or_default();
    let inside = inside.trim_start_matches('/').to_owned();
    WorktreePlan { name, repository, inside, commit: head.unwrap_or(base) }
}

fn anew(agent: &Agent) -> Phase {
    match &agent.phase {
        Phase::Ready { work }
        | Phase::Queued { work, .. }
        | Phase::Called { work }
        | Phase::Running { work, .. }
        | Phase::Waiting { work, .. }
        | Phase::Moving { work } => agent.about_to(again(work)),
        Phase::Parked { work } => Phase::Parked { work: again(work) },
        Phase::Failed { error, class, work, passed } => {
            let (error, work) = (error.clone(), again(work));
            Phase::Failed { error, class: *class, work, passed: *passed }
        }
        Phase::Asking { question, .. } if question.continues.is_some() => {
            Phase::Ready { work: Work::Enter }
        }
        Phase::Asking { .. }
        | Phase::Joining { .. }
        | Phase::Held { .. }
        | Phase::Leaving { .. } => agent.phase.clone(),
    }
}

/// Only work in the agent's own session can be taken up in a branch of it.
fn again(work: &Work) -> Work {
    match work {
        Work::Follow { transition, .. } => {
            let continues =
                matches!(&**transition, Transition::Ask(question) if question.continues.is_some());
            if continues { Work::Enter } else { work.clone() }
        }
        Work::Enter | Work::Rejudge(_) | Work::Remind(_) | Work::Evaluate(_) => Work::Enter,
    }
}
