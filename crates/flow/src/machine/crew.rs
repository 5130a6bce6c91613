//! The workers of one agent that it has not joined yet.
//!
//! A crew outlives its parent only while workers wait for a place in it. Its sets are kept up to
//! date by `apply`, so that a decision costs the same with one worker as with ten thousand.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::{
    formats::is_default,
    id::{AgentId, StateName},
    payload::Payload,
    policy::{Join, OnFailed},
};

/// The workers of one parent that were forked and not joined.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Unjoined")]
pub struct Crew {
    /// By birth, which is the order of forking.
    #[serde(rename = "unjoined")]
    workers: BTreeMap<u64, Worker>,
    /// How many workers have ended or failed so far: the number of the next to do so.
    #[serde(skip_serializing_if = "is_default")]
    stops: u64,
    /// Workers that neither ended nor failed. Derived, like everything below.
    #[serde(skip)]
    living: BTreeSet<u64>,
    /// Workers that failed.
    #[serde(skip)]
    failed: BTreeSet<u64>,
    /// Workers that ended or failed, in the order in which they did.
    #[serde(skip)]
    stopped: BTreeMap<u64, u64>,
    /// Those of them that ended.
    #[serde(skip)]
    ended: BTreeMap<u64, u64>,
    /// Living workers that wait for a place, with their limits.
    #[serde(skip)]
    parked: BTreeMap<u64, u32>,
}

/// A crew without what is derived.
#[derive(Deserialize)]
struct Unjoined {
    unjoined: BTreeMap<u64, Worker>,
    #[serde(default)]
    stops: u64,
}

impl From<Unjoined> for Crew {
    fn from(Unjoined { unjoined, stops }: Unjoined) -> Self {
        let mut crew = Self { stops, ..Self::default() };
        for (born, worker) in unjoined {
            crew.put(born, worker);
        }
        crew
    }
}

/// One worker of a crew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    /// Its name.
    pub agent: AgentId,
    /// The state to which it was forked.
    pub state: StateName,
    /// The worker starts when fewer than this many workers of the crew are under way; `None` is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// How it stands.
    pub standing: Standing,
}

/// How a worker stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It waits for a place.
    Parked,
    /// It is under way.
    UnderWay,
    /// It failed. The agent's phase has the error.
    Failed {
        /// Its number among all that ended or failed.
        order: u64,
    },
    /// It ended with a result that no join has taken yet.
    Ended {
        /// Its number among all that ended or failed.
        order: u64,
        /// The variables with which it was forked.
        #[serde(default, skip_serializing_if = "is_default")]
        attributes: BTreeMap<String, String>,
        /// What it handed back.
        result: Payload,
    },
}

impl Crew {
    /// Its workers by birth.
    pub fn workers(&self) -> &BTreeMap<u64, Worker> {
        &self.workers
    }

    /// The lowest birth that the next worker can have: earlier workers belong to the frames below.
    pub(super) fn frame_start(&self) -> u64 {
        self.workers.last_key_value().map_or(0, |(born, _)| born + 1)
    }

    /// How many of the workers born from `since` on have ended, and how many there are.
    pub fn progress(&self, since: u64) -> (usize, usize) {
        let workers = self.workers.range(since..);
        let all = workers.clone().count();
        let ended = workers.filter(|(_, w)| matches!(w.standing, Standing::Ended { .. }));
        (ended.count(), all)
    }

    pub(super) fn add(&mut self, born: u64, agent: AgentId, state: StateName, limit: Option<u32>) {
        let standing = if limit.is_some() { Standing::Parked } else { Standing::UnderWay };
        self.put(born, Worker { agent, state, limit, standing });
    }

    fn put(&mut self, born: u64, worker: Worker) {
        self.take(born);
        match &worker.standing {
            Standing::Parked => {
                self.living.insert(born);
                self.parked.insert(born, worker.limit.unwrap_or(u32::MAX));
            }
            Standing::UnderWay => drop(self.living.insert(born)),
            Standing::Failed { order } => {
                self.failed.insert(born);
                self.stopped.insert(*order, born);
            }
            Standing::Ended { order, .. } => {
                self.stopped.insert(*order, born);
                self.ended.insert(*order, born);
            }
        }
        self.workers.insert(born, worker);
    }

    /// Removes a worker: its parent has joined it, or no longer can.
    pub(super) fn take(&mut self, born: u64) -> Option<Worker> {
        let worker = self.workers.remove(&born)?;
        self.living.remove(&born);
        self.failed.remove(&born);
        self.parked.remove(&born);
        if let Standing::Failed { order } | Standing::Ended { order, .. } = &worker.standing {
            self.stopped.remove(order);
            self.ended.remove(order);
        }
        Some(worker)
    }

    fn stand(&mut self, born: u64, standing: Standing) {
        if let Some(worker) = self.take(born) {
            self.put(born, Worker { standing, ..worker });
        }
    }

    fn next_stop(&mut self) -> u64 {
        let order = self.stops;
        self.stops += 1;
        order
    }

    pub(super) fn ended(
        &mut self,
        born: u64,
        attributes: BTreeMap<String, String>,
        result: Payload,
    ) {
        let order = self.next_stop();
        self.stand(born, Standing::Ended { order, attributes, result });
    }

    pub(super) fn failed(&mut self, born: u64) {
        let order = self.next_stop();
        self.stand(born, Standing::Failed { order });
    }

    pub(super) fn placed(&mut self, born: u64) {
        self.stand(born, Standing::UnderWay);
    }

    /// A failed worker is resumed. One that was forked with a limit needs a place again. Returns whether it
    /// waits for one.
    pub(super) fn resumed(&mut self, born: u64) -> bool {
        let is_limited = self.workers.get(&born).is_some_and(|worker| worker.limit.is_some());
        self.stand(born, if is_limited { Standing::Parked } else { Standing::UnderWay });
        is_limited
    }

    /// Forgets the results: the parent has ended and cannot join them.
    pub(super) fn orphan(&mut self) {
        let stopped: Vec<_> = self.stopped.values().copied().collect();
        for born in stopped {
            self.take(born);
        }
    }

    /// Whether no worker waits for a place.
    pub(super) fn is_placed(&self) -> bool {
        self.parked.is_empty()
    }

    /// The worker that gets a place now: the first that waits, if its limit allows it.
    pub(super) fn next_placed(&self) -> Option<&AgentId> {
        let (born, limit) = self.parked.first_key_value()?;
        let under_way = self.living.len() - self.parked.len();
        let has_room = under_way < usize::try_from(*limit).unwrap_or(usize::MAX);
        self.workers.get(born).filter(|_| has_room).map(|worker| &worker.agent)
    }

    /// The births of the workers that `join` takes now, in the order in which it hands them over; `None` if
    /// it must wait. Only workers born from `since` on count.
    pub(super) fn taken_by(&self, join: &Join, since: u64) -> Option<Vec<u64>> {
        let passes = join.failed == OnFailed::Pass;
        let is_all = self.living.range(since..).next().is_none()
            && (passes || self.failed.range(since..).next().is_none());
        let Some(count) = join.count else {
            return is_all.then(|| self.workers.range(since..).map(|(born, _)| *born).collect());
        };
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let candidates = if passes { &self.stopped } else { &self.ended };
        if !is_all && candidates.len() < count {
            return None;
        }
        let own = candidates.values().copied().filter(|born| *born >= since);
        let taken: Vec<_> = own.take(count).collect();
        (is_all || taken.len() == count).then_some(taken)
    }
}
