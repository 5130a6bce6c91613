//! How far the joins of a run are, from its records: "5 of 7 workers".

use std::collections::BTreeMap;

use raymond_flow::{
    id::AgentId,
    machine::{Phase, Record, Run, Standing},
    policy::Transition,
};

/// The workers of all agents that were not joined yet.
#[derive(Debug, Default)]
pub(super) struct Crews {
    /// How many workers were forked: the number of the next.
    born: u64,
    /// The agent that forked a worker, and the worker's number.
    parents: BTreeMap<AgentId, (AgentId, u64)>,
    by_parent: BTreeMap<AgentId, CrewTally>,
}

#[derive(Debug, Default)]
struct CrewTally {
    /// By number: whether the worker has ended.
    unjoined: BTreeMap<u64, bool>,
    /// For each pending return: the number from which on workers belong to the callee.
    frames: Vec<u64>,
    /// While the agent joins: how many workers have ended, and how many there are.
    joins: Option<Progress>,
}

/// How far a join is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) ended: usize,
    pub(crate) all: usize,
}

impl Crews {
    /// The workers of a run that was opened.
    pub(super) fn open(run: &Run) -> Self {
        let mut crews = Self { born: run.agents_born, ..Self::default() };
        for (parent, known) in &run.crews {
            let crew = crews.by_parent.entry(parent.clone()).or_default();
            for (number, worker) in known.workers() {
                let has_ended = matches!(worker.standing, Standing::Ended { .. });
                crew.unjoined.insert(*number, has_ended);
                crews.parents.insert(worker.agent.clone(), (parent.clone(), *number));
            }
        }
        for agent in run.agents.values() {
            let crew = crews.by_parent.entry(agent.id.clone()).or_default();
            crew.frames = agent.stack.iter().map(|frame| frame.workers_since).collect();
            if matches!(agent.phase, Phase::Joining { .. }) {
                crew.joins = Some(crew.progress());
            }
        }
        crews
    }

    /// How far the join of `agent` is, if it waits at one.
    pub(super) fn progress(&self, agent: &AgentId) -> Option<Progress> {
        self.by_parent.get(agent)?.joins
    }

    /// Takes in the next record. Returns the agent whose join has got further.
    pub(super) fn record(&mut self, record: &Record) -> Option<AgentId> {
        match record {
            Record::Followed { agent, transition, workers, .. } => {
                for worker in workers {
                    let number = self.born;
                    self.born += 1;
                    self.parents.insert(worker.clone(), (agent.clone(), number));
                    let crew = self.by_parent.entry(agent.clone()).or_default();
                    crew.unjoined.insert(number, false);
                }
                let crew = self.by_parent.entry(agent.clone()).or_default();
                match transition {
                    Transition::Call { .. } | Transition::Function { .. } => {
                        let start = crew.unjoined.last_key_value().map_or(0, |(last, _)| last + 1);
                        crew.frames.push(start);
                    }
                    Transition::Reset { .. } => crew.frames.clear(),
                    Transition::Result { .. } if crew.frames.pop().is_none() => {
                        self.by_parent.remove(agent);
                        return self.ended(agent);
                    }
                    Transition::Join(_) => {
                        crew.joins = Some(crew.progress());
                        return Some(agent.clone());
                    }
                    _ => {}
                }
                None
            }
            Record::Joined { agent, workers } => {
                let crew = self.by_parent.entry(agent.clone()).or_default();
                crew.joins = None;
                for worker in workers {
                    crew.unjoined.remove(&worker.born);
                    self.parents.remove(&worker.agent);
                }
                None
            }
            _ => None,
        }
    }

    /// A worker has ended. Returns its parent, if that joins it.
    fn ended(&mut self, worker: &AgentId) -> Option<AgentId> {
        let (parent, number) = self.parents.get(worker)?;
        let crew = self.by_parent.get_mut(parent)?;
        crew.unjoined.insert(*number, true);
        let is_joined = *number >= crew.since();
        let progress = crew.joins.as_mut().filter(|_| is_joined)?;
        progress.ended += 1;
        Some(parent.clone())
    }
}

impl CrewTally {
    fn since(&self) -> u64 {
        self.frames.last().copied().unwrap_or(0)
    }

    fn progress(&self) -> Progress {
        let workers = self.unjoined.range(self.since()..);
        let all = workers.clone().count();
        Progress { ended: workers.filter(|(_, has_ended)| **has_ended).count(), all }
    }
}
