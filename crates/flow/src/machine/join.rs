//! Joins and places: when a parent's join is complete, and when a worker may start.
//!
//! No step is started for a parent that joins, nor for a worker that waits for a place. [`next`] derives what
//! follows for them from the run alone, whichever record led to it; `apply` maintains `run.due`, the set of
//! agents whose crews `next` looks at.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{
    id::{AgentId, StateName},
    payload::Payload,
    policy::Join,
};

use super::{
    Agent, ApplyError, Decision, Effect, Phase, Record, Run, Worker,
    apply::{change, wrong_phase},
    crew::Standing,
};

/// A worker that a join took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taken {
    /// Its name.
    pub agent: AgentId,
    /// Its birth order within the run.
    pub born: u64,
}

/// The next join that is complete, or the next worker that can have a place.
pub(super) fn next(run: &Run) -> Option<Decision> {
    let parent = run.due.first()?;
    let (record, effect) = if let Some(workers) = completed(run, parent) {
        let agent = parent.clone();
        (Record::Joined { agent: agent.clone(), workers }, Effect::Prepare { agent })
    } else {
        let agent = run.agents.get(run.crews.get(parent)?.next_placed()?)?;
        (Record::Placed { agent: agent.id.clone() }, agent.first_effect())
    };
    let effects = if run.is_open() { vec![effect] } else { Vec::new() };
    Some(Decision { records: vec![record], effects })
}

/// The workers that the join of `parent` takes, if it waits at one that is complete.
fn completed(run: &Run, parent: &AgentId) -> Option<Vec<Taken>> {
    let agent = run.agents.get(parent)?;
    let Phase::Joining { join } = &agent.phase else { return None };
    let Some(crew) = run.crews.get(parent) else { return Some(Vec::new()) };
    let taken = crew.taken_by(join, agent.workers_since())?;
    let worker = |born: u64| {
        let agent = crew.workers().get(&born)?.agent.clone();
        Some(Taken { agent, born })
    };
    Some(taken.into_iter().filter_map(worker).collect())
}

/// Updates `run.due`: whether something follows for the crew of `parent`.
pub(super) fn review(run: &mut Run, parent: &AgentId) {
    let has_place = run.crews.get(parent).is_some_and(|crew| crew.next_placed().is_some());
    if has_place || is_complete(run, parent) {
        run.due.insert(parent.clone());
    } else {
        run.due.remove(parent);
    }
}

fn is_complete(run: &Run, parent: &AgentId) -> bool {
    let Some(agent) = run.agents.get(parent) else { return false };
    let Phase::Joining { join } = &agent.phase else { return false };
    let crew = run.crews.get(parent);
    crew.is_none_or(|crew| crew.taken_by(join, agent.workers_since()).is_some())
}

/// Whether the parent of `agent` can still join it: then a failure of `agent` does not fail the run.
pub(super) fn can_be_joined(run: &Run, agent: &Agent) -> bool {
    let Some(parent) = &agent.parent else { return false };
    !is_gone(run, parent)
        && run.crews.get(parent).is_some_and(|crew| crew.workers().contains_key(&agent.born))
}

/// A worker was forked.
pub(super) fn forked(run: &mut Run, parent: &AgentId, worker: &Agent, limit: Option<u32>) {
    let crew = run.crews.entry(parent.clone()).or_default();
    crew.add(worker.born, worker.id.clone(), worker.current_state.clone(), limit);
    review(run, parent);
}

/// A worker ended with a result. The crew keeps the variables with which it was forked, too.
pub(super) fn ended(run: &mut Run, worker: Agent, result: Payload) {
    let has_parent = worker.parent.as_ref().is_some_and(|parent| !is_gone(run, parent));
    in_crew(run, worker.parent.as_ref(), |crew| {
        if has_parent {
            crew.ended(worker.born, worker.fork_attributes, result);
        } else {
            crew.take(worker.born);
        }
    });
    left(run, &worker.id);
}

/// A worker failed.
pub(super) fn failed(run: &mut Run, id: &AgentId) {
    let Some(worker) = run.agents.get(id) else { return };
    let (born, parent) = (worker.born, worker.parent.clone());
    in_crew(run, parent.as_ref(), |crew| crew.failed(born));
}

/// An agent that failed is resumed. Returns whether it must wait for a place.
pub(super) fn resumed(run: &mut Run, parent: Option<&AgentId>, born: u64) -> bool {
    let mut waits = false;
    in_crew(run, parent, |crew| waits = crew.resumed(born));
    waits
}

/// An agent is gone, so its crew can no longer be joined.
fn left(run: &mut Run, parent: &AgentId) {
    if let Some(crew) = run.crews.get_mut(parent) {
        crew.orphan();
    }
    forget(run, parent);
    review(run, parent);
}

/// Removes the crew of an agent that is gone, once no worker waits for a place in it.
fn forget(run: &mut Run, parent: &AgentId) {
    let is_done = run.crews.get(parent).is_some_and(super::Crew::is_placed);
    if is_done && is_gone(run, parent) {
        run.crews.remove(parent);
    }
}

/// Whether an agent has ended, or its failure was handed over.
fn is_gone(run: &Run, id: &AgentId) -> bool {
    run.agents.get(id).is_none_or(|agent| agent.phase.is_passed())
}

fn in_crew(run: &mut Run, parent: Option<&AgentId>, change: impl FnOnce(&mut super::Crew)) {
    let Some(parent) = parent else { return };
    let Some(crew) = run.crews.get_mut(parent) else { return };
    change(crew);
    forget(run, parent);
    review(run, parent);
}

/// A worker got its place.
pub(super) fn placed(run: &mut Run, id: &AgentId) -> Result<(), ApplyError> {
    let mut worker = None;
    change(run, id, |agent| {
        let Phase::Parked { work } = &agent.phase else {
            return Err(wrong_phase(agent, "have a place"));
        };
        agent.phase = agent.about_to(work.clone());
        worker = agent.parent.clone().map(|parent| (parent, agent.born));
        Ok(())
    })?;
    if let Some((parent, born)) = worker {
        in_crew(run, Some(&parent), |crew| crew.placed(born));
    }
    Ok(())
}

/// The join of an agent takes `workers`.
pub(super) fn joined(run: &mut Run, id: &AgentId, workers: &[Taken]) -> Result<(), ApplyError> {
    let mut taken = Vec::new();
    for Taken { agent, born } in workers {
        let crew = run.crews.get_mut(id);
        let worker = crew.and_then(|crew| crew.take(*born)).filter(|w| w.agent == *agent);
        let no_worker = || ApplyError::NoSuchWorker { agent: id.clone(), worker: agent.clone() };
        taken.push(worker.ok_or_else(no_worker)?);
    }
    let result = handed_over(run, &taken)?;
    for worker in &taken {
        if matches!(worker.standing, Standing::Failed { .. }) {
            passed(run, &worker.agent)?;
        }
    }
    change(run, id, |agent| {
        let Phase::Joining { join } = &agent.phase else {
            return Err(wrong_phase(agent, "join"));
        };
        let Join { target, input, .. } = join.clone();
        agent.enter_with(target, input);
        agent.result = Some(result);
        Ok(())
    })?;
    review(run, id);
    Ok(())
}

/// The failure of a worker was handed over: it is data now, and the worker is not resumed.
fn passed(run: &mut Run, id: &AgentId) -> Result<(), ApplyError> {
    change(run, id, |agent| {
        let Phase::Failed { passed, .. } = &mut agent.phase else {
            return Err(wrong_phase(agent, "be passed"));
        };
        *passed = true;
        Ok(())
    })?;
    left(run, id);
    Ok(())
}

/// One worker as the state after a join sees it, up to its result.
#[derive(Serialize)]
struct Joined<'a> {
    agent: &'a AgentId,
    state: &'a StateName,
    attributes: &'a BTreeMap<String, String>,
}

/// The rest of it.
#[derive(Serialize)]
struct LeftBehind<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    worktree: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    branch: Option<&'a str>,
    /// Why not all of its work is on the branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_saved: Option<&'a str>,
}

/// What a join hands over: a JSON array.
fn handed_over(run: &Run, workers: &[Worker]) -> Result<Payload, ApplyError> {
    let mut array = Payload::from("[");
    for (index, worker) in workers.iter().enumerate() {
        array.push_text(if index == 0 { "" } else { "," });
        one_handed_over(run, worker, &mut array).ok_or(ApplyError::Unwritable)?;
    }
    array.push_text("]");
    Ok(array)
}

/// Adds one worker. In pieces, because its result may be kept elsewhere.
fn one_handed_over(run: &Run, worker: &Worker, array: &mut Payload) -> Option<()> {
    let Worker { agent, state, standing, .. } = worker;
    let (attributes, result, error) = match standing {
        Standing::Ended { attributes, result, .. } => (attributes, Some(result), None),
        Standing::Failed { .. } => {
            let living = run.agents.get(agent)?;
            let Phase::Failed { error, .. } = &living.phase else { return None };
            (&living.fork_attributes, None, Some(error.as_str()))
        }
        Standing::Parked | Standing::UnderWay => return None,
    };
    let own = run.worktrees.get(agent);
    let worktree = own.map(|worktree| worktree.path.as_str());
    let branch = own.map(|worktree| worktree.branch.as_str());
    let not_saved = own.and_then(|worktree| worktree.problem.as_deref());
    let known = serde_json::to_string(&Joined { agent, state, attributes }).ok()?;
    array.push_text(known.strip_suffix('}')?);
    if let Some(result) = result {
        array.push_text(",\"result\":");
        array.push_json(result)?;
    }
    let rest = serde_json::to_string(&LeftBehind { error, worktree, branch, not_saved }).ok()?;
    let rest = rest.strip_prefix('{')?;
    array.push_text(if rest == "}" { "" } else { "," });
    array.push_text(rest);
    Some(())
}
