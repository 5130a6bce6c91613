//! Worktrees: a worker that was forked with one starts when it is made, and leaves when its work is committed.
//!
//! Both are effects on files that git performs, so the worker waits for them in a phase of its own. What was made is part of
//! the run for good: of a worker that has ended, it tells where its work is.

use serde::{Deserialize, Serialize};

use crate::{id::AgentId, payload::Payload};

use super::{
    Agent, ApplyError, Decision, Effect, FailureClass, Phase, Record, Run, Work,
    apply::{change, wrong_phase},
    draft::Draft,
    join,
};

/// A worktree that was made for a worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// Its top directory; absolute.
    pub path: String,
    /// Its branch.
    pub branch: String,
    /// The checkout from which it was made; absolute.
    pub repository: String,
    /// The commit from which it was made.
    pub base: String,
    /// The last commit of its branch when the worker ended or failed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Why what the worker left is not committed, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// A worktree that was just made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MadeWorktree {
    /// The worktree.
    pub worktree: Box<Worktree>,
    /// The directory in which the worker starts; absolute.
    pub cwd: String,
}

/// What a worker does when its work is committed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Leave {
    /// It ends with a result.
    Ended {
        /// The result.
        payload: Payload,
    },
    /// It fails, and retries the work when the run is resumed.
    Failed {
        /// The reason, for the user.
        error: String,
        /// The kind of failure, if a coding agent failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<FailureClass>,
        /// The work to retry.
        work: Work,
    },
}

/// What became of the work in a worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedWork {
    /// The last commit of the branch; `None` if it could not be found out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head: Option<String>,
    /// Why what the worker left is not committed, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Agent {
    /// The phase in which it does `work` next: first its worktree must be there.
    pub(super) fn about_to(&self, work: Work) -> Phase {
        if self.worktree_plan.is_some() { Phase::Moving { work } } else { Phase::Ready { work } }
    }

    /// The effect that lets it do its work.
    pub(super) fn first_effect(&self) -> Effect {
        let agent = self.id.clone();
        match &self.worktree_plan {
            Some(plan) => Effect::MakeWorktree { agent, plan: plan.clone() },
            None => Effect::Prepare { agent },
        }
    }

    /// Whether it has given its last result, and stays only until the work in its worktree is committed.
    pub fn is_ending(&self) -> bool {
        matches!(self.phase, Phase::Leaving { leave: Leave::Ended { .. } })
    }
}

/// The effect that commits what an agent leaves, if it has a worktree.
pub(super) fn save(run: &Run, agent: &AgentId) -> Option<Effect> {
    let worktree = Box::new(run.worktrees.get(agent)?.clone());
    Some(Effect::SaveWorktree { agent: agent.clone(), worktree })
}

pub(super) fn decide_made(
    run: &Run,
    agent: &AgentId,
    made: Result<MadeWorktree, String>,
) -> Decision {
    let Some(agent) = run.agents.get(agent) else { return Decision::default() };
    let Phase::Moving { work } = &agent.phase else { return Decision::default() };
    match made {
        Ok(MadeWorktree { worktree, cwd }) => {
            let agent = agent.id.clone();
            let effects = run.is_open().then(|| Effect::Prepare { agent: agent.clone() });
            let records = vec![Record::WorktreeMade { agent, worktree, cwd }];
            Decision { records, effects: effects.into_iter().collect() }
        }
        Err(error) => {
            let mut draft = Draft::new(run, agent);
            draft.fail(error, None, work.clone(), None);
            draft.decision
        }
    }
}

pub(super) fn decide_saved(run: &Run, agent: &AgentId, saved: SavedWork) -> Decision {
    let is_leaving = run.agents.get(agent).map(|agent| &agent.phase);
    let Some(Phase::Leaving { .. }) = is_leaving else { return Decision::default() };
    let record = Record::WorktreeSaved { agent: agent.clone(), saved };
    Decision { records: vec![record], effects: Vec::new() }
}

pub(super) fn made(
    run: &mut Run,
    id: &AgentId,
    worktree: &Worktree,
    cwd: &str,
) -> Result<(), ApplyError> {
    change(run, id, |agent| {
        let Phase::Moving { work } = &agent.phase else {
            return Err(wrong_phase(agent, "move into a worktree"));
        };
        agent.phase = Phase::Ready { work: work.clone() };
        agent.worktree_plan = None;
        cwd.clone_into(&mut agent.cwd);
        Ok(())
    })?;
    run.worktrees.insert(id.clone(), worktree.clone());
    Ok(())
}

/// The agent leaves when the work in its worktree is committed. Returns what it leaves for if it has none.
pub(super) fn leaves(
    run: &mut Run,
    id: &AgentId,
    leave: Leave,
) -> Result<Option<Leave>, ApplyError> {
    if !run.worktrees.contains_key(id) {
        return Ok(Some(leave));
    }
    change(run, id, |agent| {
        agent.phase = Phase::Leaving { leave };
        Ok(())
    })?;
    Ok(None)
}

pub(super) fn saved(run: &mut Run, id: &AgentId, saved: &SavedWork) -> Result<(), ApplyError> {
    let mut left = None;
    change(run, id, |agent| {
        let Phase::Leaving { leave } = &agent.phase else {
            return Err(wrong_phase(agent, "leave its worktree"));
        };
        left = Some(leave.clone());
        Ok(())
    })?;
    if let Some(worktree) = run.worktrees.get_mut(id) {
        let SavedWork { head, problem } = saved.clone();
        worktree.head = head.or_else(|| worktree.head.take());
        worktree.problem = problem;
    }
    left.map_or(Ok(()), |leave| left_for(run, id, leave))
}

/// The agent ends or fails.
pub(super) fn left_for(run: &mut Run, id: &AgentId, leave: Leave) -> Result<(), ApplyError> {
    match leave {
        Leave::Ended { payload } => {
            if let Some(agent) = run.agents.remove(id) {
                run.counts.remove(&agent.phase);
                join::ended(run, agent, payload);
            }
        }
        Leave::Failed { error, class, work } => {
            change(run, id, |agent| {
                agent.phase = Phase::Failed { error, class, work, passed: false };
                Ok(())
            })?;
            join::failed(run, id);
        }
    }
    Ok(())
}
