//! The steps of a run that are ready or in flight, and how many may be in flight.
//!
//! Every activity that a Temporal server has makes each of its decisions about the run slower: with 1,500 instead of a
//! few hundred a step costs it three times as much. So of the steps that need the same labels only some more are handed
//! to it than workers carry out, which is looked at while steps are ready, and the others wait here.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    time::Duration,
};

use raymond_flow::id::StepId;

/// The most steps in flight. A Temporal server refuses the 2,000th activity, and then the run is stuck.
const IN_FLIGHT_MAX: usize = 1500;
/// How many steps in flight that need the same labels may wait for a worker.
const QUEUED_MAX: usize = 200;
/// How long until the next look, after one that showed something new, and at most: every look is in the history.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);
const LOOK_INTERVAL_MAX: Duration = Duration::from_mins(1);

type Labels = Vec<String>;

/// The steps that are ready or in flight.
#[derive(Debug)]
pub(crate) struct StepQueue {
    /// Those that workers have since the history before: they are not launched, only awaited.
    found: VecDeque<(StepId, Labels)>,
    gates: BTreeMap<Labels, Gate>,
    in_flight: BTreeMap<StepId, Labels>,
    /// Whether somebody looks which steps workers carry out.
    is_looking: bool,
    /// How long until the next look.
    interval: Duration,
}

/// Steps that need the same labels.
#[derive(Debug)]
struct Gate {
    ready: VecDeque<StepId>,
    in_flight: usize,
    /// How many may be in flight.
    allowed: usize,
}

impl Default for StepQueue {
    fn default() -> Self {
        Self {
            found: VecDeque::new(),
            gates: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            is_looking: false,
            interval: LOOK_INTERVAL,
        }
    }
}

impl StepQueue {
    /// Adds a step that is ready and needs these labels.
    pub(crate) fn add(&mut self, id: StepId, labels: Labels) {
        self.gate(labels).1.ready.push_back(id);
    }

    /// Adds a step that a worker has. It goes before all others: the worker ends a step that the run does not await soon.
    pub(crate) fn add_found(&mut self, id: StepId, labels: Labels) {
        let (labels, gate) = self.gate(labels);
        gate.allowed += 1;
        self.found.push_back((id, labels));
    }

    fn gate(&mut self, labels: Labels) -> (Labels, &mut Gate) {
        let closed = Gate { ready: VecDeque::new(), in_flight: 0, allowed: QUEUED_MAX };
        let gate = self.gates.entry(labels.clone()).or_insert(closed);
        (labels, gate)
    }

    /// The next step, which is in flight from now on.
    pub(crate) fn next(&mut self) -> Option<StepId> {
        let (id, labels) = self.found.pop_front().or_else(|| self.next_ready())?;
        self.gate(labels.clone()).1.in_flight += 1;
        self.in_flight.insert(id.clone(), labels);
        Some(id)
    }

    fn next_ready(&mut self) -> Option<(StepId, Labels)> {
        if self.in_flight.len() >= IN_FLIGHT_MAX {
            return None;
        }
        let is_open = |gate: &Gate| !gate.ready.is_empty() && gate.in_flight < gate.allowed;
        let (labels, gate) = self.gates.iter_mut().find(|(_, gate)| is_open(gate))?;
        Some((gate.ready.pop_front()?, labels.clone()))
    }

    /// A step is not in flight any more.
    pub(crate) fn land(&mut self, id: &StepId) {
        if let Some(labels) = self.in_flight.remove(id)
            && let Some(gate) = self.gates.get_mut(&labels)
        {
            gate.in_flight -= 1;
        }
    }

    /// Takes all steps that were not handed over.
    pub(crate) fn drain(&mut self) -> Vec<StepId> {
        let found = std::mem::take(&mut self.found).into_iter().map(|(id, _)| id);
        found
            .chain(self.gates.values_mut().flat_map(|gate| std::mem::take(&mut gate.ready)))
            .collect()
    }

    /// After which time somebody should look which steps workers carry out, and tell the result; `None` if nobody should.
    pub(crate) fn begin_look(&mut self) -> Option<Duration> {
        let is_waiting = self.gates.values().any(|gate| !gate.ready.is_empty());
        let should_look = !self.is_looking && is_waiting;
        self.is_looking |= should_look;
        should_look.then_some(self.interval)
    }

    /// No worker has these of the steps in flight yet, by their displayed ids; `None` if that is not known.
    pub(crate) fn end_look(&mut self, queued: Option<Vec<String>>) {
        self.is_looking = false;
        let mut is_new = false;
        if let Some(queued) = queued {
            let queued: BTreeSet<_> = queued.into_iter().collect();
            let mut running: BTreeMap<&Labels, usize> = BTreeMap::new();
            for (id, labels) in &self.in_flight {
                *running.entry(labels).or_default() +=
                    usize::from(!queued.contains(&id.to_string()));
            }
            for (labels, gate) in &mut self.gates {
                let allowed = running.get(labels).unwrap_or(&0) + QUEUED_MAX;
                is_new |= std::mem::replace(&mut gate.allowed, allowed) != allowed;
            }
        }
        let longer = (self.interval * 2).min(LOOK_INTERVAL_MAX);
        self.interval = if is_new { LOOK_INTERVAL } else { longer };
    }
}

#[cfg(test)]
mod tests {
    use raymond_flow::id::AgentId;

    use super::*;

    fn step(number: u32) -> StepId {
        StepId { agent: AgentId::main(), number }
    }

    fn gpu() -> Labels {
        vec!["gpu".to_owned()]
    }

    /// So many steps that are ready.
    fn ready(mut step_queue: StepQueue, count: u32) -> StepQueue {
        (0..count).for_each(|number| step_queue.add(step(number), Labels::new()));
        step_queue
    }

    /// Hands over what may go.
    fn depart(step_queue: &mut StepQueue) -> Vec<StepId> {
        std::iter::from_fn(|| step_queue.next()).collect()
    }

    /// The server says that workers have so many of the steps in flight.
    fn look(step_queue: &mut StepQueue, running: usize) -> Duration {
        let interval = step_queue.begin_look().unwrap();
        let queued = step_queue.in_flight.keys().skip(running).map(StepId::to_string).collect();
        step_queue.end_look(Some(queued));
        interval
    }

    #[test]
    fn some_more_steps_are_in_flight_than_workers_carry_out() {
        let mut step_queue = ready(StepQueue::default(), 5000);
        assert_eq!(depart(&mut step_queue).len(), QUEUED_MAX);
        look(&mut step_queue, 150);
        assert_eq!(depart(&mut step_queue).len(), 150);
        assert!(step_queue.begin_look().is_some());
        assert!(step_queue.begin_look().is_none(), "one look at a time");
        step_queue.end_look(None);
        assert_eq!(depart(&mut step_queue).len(), 0, "as before");
        for _ in 0..20 {
            look(&mut step_queue, IN_FLIGHT_MAX);
            depart(&mut step_queue);
        }
        assert_eq!(step_queue.in_flight.len(), IN_FLIGHT_MAX);
        step_queue.land(&step(7));
        step_queue.land(&step(7));
        assert_eq!(depart(&mut step_queue).len(), 1, "a place for each that has ended");
    }

    #[test]
    fn steps_whose_label_no_worker_has_do_not_hold_up_others() {
        let mut step_queue = StepQueue::default();
        (0..5000).for_each(|number| step_queue.add(step(number), gpu()));
        assert_eq!(depart(&mut step_queue).len(), QUEUED_MAX);
        step_queue.add(step(9000), Labels::new());
        assert_eq!(depart(&mut step_queue), [step(9000)]);
        look(&mut step_queue, 0);
        assert_eq!(depart(&mut step_queue).len(), 0);
    }

    #[test]
    fn nobody_looks_while_no_step_waits() {
        let mut step_queue = ready(StepQueue::default(), 200);
        assert_eq!(depart(&mut step_queue).len(), QUEUED_MAX);
        assert!(step_queue.begin_look().is_none());
    }

    #[test]
    fn looks_become_rare_while_nothing_changes() {
        let mut step_queue = ready(StepQueue::default(), 5000);
        depart(&mut step_queue);
        let intervals = [48; 8].map(|running| look(&mut step_queue, running).as_secs());
        assert_eq!(intervals, [2, 2, 4, 8, 16, 32, 60, 60]);
        look(&mut step_queue, 49);
        assert_eq!(look(&mut step_queue, 49).as_secs(), 2);
    }

    #[test]
    fn step_that_a_worker_has_goes_first_and_in_any_case() {
        let mut step_queue = ready(StepQueue::default(), 5000);
        (9000..9300).for_each(|number| step_queue.add_found(step(number), gpu()));
        (9300..9400).for_each(|number| step_queue.add_found(step(number), Labels::new()));
        let departed = depart(&mut step_queue);
        assert!(departed[..400].iter().all(|id| id.number >= 9000));
        assert_eq!(departed.len(), 400 + QUEUED_MAX);
    }
}
