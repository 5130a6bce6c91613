//! A run that continues another one from an earlier moment.
//!
//! Its journal begins with the records of the other run up to that moment, and then [`Record::Rewound`]. Nothing
//! of the other run is continued: the sessions of the agents are branched, each as it was when its agent last followed an
//! answer, and a step that was in flight is forgotten. An agent that was reminded, judged, or asked by its coding agent
//! enters its state again.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    id::{AgentId, SessionId, StepId},
    policy::Transition,
};

use super::{Action, Halt, Phase, Record, Run, Session, Status, Tries, Work};

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
            Session::Open(session) | Session::Branch(session) => Some(session),
        });
        sessions.collect()
    }
}

/// The run now is another one. `sessions` has the session to branch off instead of one that went on since.
pub(super) fn rewound(run: &mut Run, sessions: &BTreeMap<SessionId, SessionId>) {
    let branch = |session: &mut Session| {
        if let Session::Open(from) | Session::Branch(from) = session {
            let from = sessions.get(from).unwrap_or(from).clone();
            *session = Session::Branch(from);
        }
    };
    for agent in run.agents.values_mut() {
        branch(&mut agent.session);
        agent.stack.iter_mut().for_each(|frame| branch(&mut frame.session));
        agent.tries = Tries::default();
        agent.phase = anew(&agent.phase);
    }
    run.usage_limit = None;
    if run.status == Status::Running {
        // No orchestrator may take it up by itself.
        run.status = Status::Paused;
        run.halt = Some(Halt::Interrupted);
    }
    run.derive();
}

fn anew(phase: &Phase) -> Phase {
    match phase {
        Phase::Ready { work }
        | Phase::Queued { work, .. }
        | Phase::Called { work }
        | Phase::Running { work, .. }
        | Phase::Waiting { work, .. } => Phase::Ready { work: again(work) },
        Phase::Parked { work } => Phase::Parked { work: again(work) },
        Phase::Failed { error, class, work, passed } => {
            let (error, work) = (error.clone(), again(work));
            Phase::Failed { error, class: *class, work, passed: *passed }
        }
        Phase::Asking { question, .. } if question.continues.is_some() => {
            Phase::Ready { work: Work::Enter }
        }
        Phase::Asking { .. } | Phase::Joining { .. } | Phase::Held { .. } => phase.clone(),
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
