//! The steps in flight: launched or found, and not yet ended.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use raymond_flow::id::{AgentId, StepId};

use super::ProcessNumber;
use crate::{exec::step::step_name, observe::tails::Tail};

/// How long a step may stay unclaimed. A burst of a few thousand steps takes seconds.
const CLAIM_PATIENCE: Duration = Duration::from_secs(15);

/// A step in flight.
#[derive(Debug)]
pub(crate) struct Flight {
    /// The connection through which it was launched.
    pub(crate) connection: u32,
    since: Instant,
    /// The process that runs it, if it can be given another turn.
    pub(crate) process: Option<ProcessNumber>,
    /// Its output so far, if an observer wants to see it.
    pub(crate) tail: Option<Tail>,
    /// Whether the runner has reported a change.
    pub(crate) is_told: bool,
    /// Whether it has ended, but there is no disk space to record that.
    pub(crate) is_stuck: bool,
}

impl Flight {
    /// Whether it should have been claimed by now.
    pub(crate) fn is_overdue(&self) -> bool {
        self.since.elapsed() >= CLAIM_PATIENCE
    }
}

/// The steps in flight, by id.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    flights: BTreeMap<StepId, Flight>,
}

impl Flights {
    pub(crate) fn add(&mut self, id: StepId, connection: u32, process: Option<ProcessNumber>) {
        let since = Instant::now();
        let (is_told, is_stuck) = (false, false);
        let flight = Flight { connection, since, process, tail: None, is_told, is_stuck };
        self.flights.insert(id, flight);
    }

    pub(crate) fn remove(&mut self, id: &StepId) -> Option<Flight> {
        self.flights.remove(id)
    }

    pub(crate) fn get_mut(&mut self, id: &StepId) -> Option<&mut Flight> {
        self.flights.get_mut(id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.flights.is_empty()
    }

    /// Whether there are steps in flight, and none of them can end until there is disk space.
    pub(crate) fn are_stuck(&self) -> bool {
        !self.is_empty() && self.flights.values().all(|flight| flight.is_stuck)
    }

    /// The ids of those for which `is_meant` holds.
    pub(crate) fn ids(&self, is_meant: impl Fn(&Flight) -> bool) -> Vec<StepId> {
        let meant = self.flights.iter().filter(|(_, flight)| is_meant(flight));
        meant.map(|(id, _)| id.clone()).collect()
    }

    /// The step whose directory has this name.
    pub(crate) fn by_name(&self, name: &str) -> Option<StepId> {
        let (agent, number) = name.rsplit_once('.')?;
        let id = StepId { agent: AgentId::new(agent), number: number.parse().ok()? };
        if self.flights.contains_key(&id) {
            return Some(id);
        }
        // The directory of an agent with a very long name has a shortened name.
        self.flights.keys().find(|id| step_name(id) == name).cloned()
    }

    /// The step that this process runs.
    pub(crate) fn by_process(&self, process: ProcessNumber) -> Option<StepId> {
        let is_it = |(_, flight): &(&StepId, &Flight)| flight.process == Some(process);
        self.flights.iter().find(is_it).map(|(id, _)| id.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(agent: &str, number: u32) -> StepId {
        StepId { agent: AgentId::new(agent), number }
    }

    #[test]
    fn step_is_found_by_the_name_of_its_directory_however_long_its_agents_name_is() {
        let mut flights = Flights::default();
        let long = "main_".to_owned() + &"x".repeat(300);
        let ids = [id("main", 1), id("main", 12), id("main_a.b", 1), id(&long, 7)];
        for id in &ids {
            flights.add(id.clone(), 0, None);
        }
        for id in &ids {
            assert_eq!(flights.by_name(&step_name(id)).as_ref(), Some(id));
        }
        for name in ["main.2", "main", "main.", ".1", "", "main.1.1", "!keeper-gone 1"] {
            assert_eq!(flights.by_name(name), None, "{name}");
        }
    }

    #[test]
    fn step_is_found_by_its_process_until_it_is_over() {
        let mut flights = Flights::default();
        flights.add(id("main", 1), 1, Some(3));
        flights.add(id("main", 2), 2, None);
        assert_eq!(flights.by_process(3), Some(id("main", 1)));
        assert_eq!(flights.ids(|flight| flight.connection == 2), [id("main", 2)]);
        assert!(flights.remove(&id("main", 1)).is_some());
        assert_eq!(flights.by_process(3), None);
    }
}
