//! The steps of a run that are ready and not in flight, and how many may be in flight.
//!
//! Every activity that a Temporal server has makes each of its decisions about the run slower: with 1,500 instead of a
//! few hundred a step costs it three times as much. So only some more steps than workers carry out are handed to it,
//! which is looked at while steps are ready, and the others wait here.

use std::collections::VecDeque;

use raymond_flow::id::StepId;

/// The most steps in flight. A Temporal server refuses the 2,000th activity, and then the run is stuck.
const IN_FLIGHT_MAX: usize = 1500;
/// How many steps in flight may wait for a worker.
const QUEUED_MAX: usize = 200;

/// The steps that are ready.
#[derive(Debug)]
pub(crate) struct Departures {
    /// Those that workers have since the history before: they are not launched, only awaited.
    found: VecDeque<StepId>,
    ready: VecDeque<StepId>,
    /// How many may be in flight.
    allowed: usize,
    is_limited: bool,
    /// Whether somebody looks how many steps workers carry out.
    is_looking: bool,
}

impl Departures {
    /// Hands over only some more steps than workers carry out; or, for runs of earlier programs, as many as the server
    /// takes.
    pub(crate) fn new(is_limited: bool) -> Self {
        let allowed = if is_limited { QUEUED_MAX } else { IN_FLIGHT_MAX };
        let (found, ready) = (VecDeque::new(), VecDeque::new());
        Self { found, ready, allowed, is_limited, is_looking: false }
    }

    /// Adds a step that is ready.
    pub(crate) fn add(&mut self, id: StepId) {
        self.ready.push_back(id);
    }

    /// Adds a step that a worker has. It goes before all others: the worker ends it unless somebody awaits it soon. Runs of
    /// earlier programs have no such order.
    pub(crate) fn add_found(&mut self, id: StepId) {
        if !self.is_limited {
            return self.add(id);
        }
        self.allowed = (self.found.len() + 1 + QUEUED_MAX).clamp(self.allowed, IN_FLIGHT_MAX);
        self.found.push_back(id);
    }

    /// The next step, while so many are in flight.
    pub(crate) fn next(&mut self, in_flight: usize) -> Option<StepId> {
        let ready = |own: &mut Self| (in_flight < own.allowed).then(|| own.ready.pop_front())?;
        self.found.pop_front().or_else(|| ready(self))
    }

    /// Takes all steps that were not handed over.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = StepId> + use<> {
        std::mem::take(&mut self.found).into_iter().chain(std::mem::take(&mut self.ready))
    }

    /// Whether somebody should look now how many steps workers carry out. Whoever does tells the result.
    pub(crate) fn begin_look(&mut self) -> bool {
        let should_look = self.is_limited && !self.is_looking && !self.ready.is_empty();
        self.is_looking |= should_look;
        should_look
    }

    /// So many steps are carried out by workers; `None` if that is not known.
    pub(crate) fn end_look(&mut self, running: Option<usize>) {
        self.is_looking = false;
        if let Some(running) = running {
            self.allowed = (running + QUEUED_MAX).min(IN_FLIGHT_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use raymond_flow::id::AgentId;

    use super::*;

    fn step(number: usize) -> StepId {
        StepId { agent: AgentId::main(), number: u32::try_from(number).unwrap() }
    }

    /// So many steps that are ready.
    fn ready(mut departures: Departures, count: usize) -> Departures {
        (0..count).for_each(|number| departures.add(step(number)));
        departures
    }

    /// Hands over what may go, while so many are in flight; returns how many are then.
    fn depart(departures: &mut Departures, mut in_flight: usize) -> usize {
        while departures.next(in_flight).is_some() {
            in_flight += 1;
        }
        in_flight
    }

    #[test]
    fn some_more_steps_are_in_flight_than_workers_carry_out() {
        let mut departures = ready(Departures::new(true), 5000);
        assert_eq!(depart(&mut departures, 0), QUEUED_MAX);
        assert!(departures.begin_look());
        assert!(!departures.begin_look(), "one look at a time");
        departures.end_look(Some(150));
        assert_eq!(depart(&mut departures, QUEUED_MAX), 150 + QUEUED_MAX);
        assert!(departures.begin_look());
        departures.end_look(None);
        assert_eq!(depart(&mut departures, 300), 150 + QUEUED_MAX, "as before");
        assert!(departures.begin_look());
        departures.end_look(Some(5000));
        assert_eq!(depart(&mut departures, 0), IN_FLIGHT_MAX);
    }

    #[test]
    fn nobody_looks_while_no_step_waits() {
        let mut departures = ready(Departures::new(true), QUEUED_MAX);
        assert_eq!(depart(&mut departures, 0), QUEUED_MAX);
        assert!(!departures.begin_look());
    }

    #[test]
    fn step_that_a_worker_has_goes_first_and_in_any_case() {
        let mut departures = ready(Departures::new(true), 5000);
        for number in 9000..9300 {
            departures.add_found(step(number));
        }
        assert_eq!(departures.next(IN_FLIGHT_MAX), Some(step(9000)));
        assert_eq!(depart(&mut departures, 1), 300 + QUEUED_MAX);
    }

    #[test]
    fn run_of_an_earlier_program_hands_over_what_the_server_takes() {
        let mut departures = ready(Departures::new(false), 5000);
        assert_eq!(depart(&mut departures, 0), IN_FLIGHT_MAX);
        assert!(!departures.begin_look());
        assert_eq!(departures.drain().count(), 5000 - IN_FLIGHT_MAX);
        assert_eq!(departures.next(0), None);
    }
}
