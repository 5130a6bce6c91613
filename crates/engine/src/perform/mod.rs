//! Performs effects: what touches the world for a run.
//!
//! * `preparation`: the next step of an agent, from the workflow's files.
//! * `launching`: a step as a command with its environment, handed to the runner.
//! * `looking`: how a step stands, and steps of an earlier orchestrator found again.
//! * `outcome`: what a step that is over left, and what that means.

mod launching;
mod looking;
mod outcome;
mod preparation;

use std::{collections::HashSet, io, time::Duration};

use raymond_flow::{
    id::{AgentId, StepId},
    machine::{Action, Halt, Run, Spent, Step},
};

use crate::{
    agent::{Agents, ReadyAnswer},
    clock,
    events::{Event, Observer},
    layout::RunFiles,
    retention::Retention,
    scope::DiskWorld,
    step::StepFolder,
    steps::{Flights, ProcessNumber, RunPlace, Steps},
    sys, tails,
    timers::{Timer, Timers},
    usage_limit,
    warm::Warm,
};

pub(crate) use launching::Launched;
pub(crate) use looking::{Look, Unclaimed};

/// How much sooner answers are given in a hurry.
const HURRY: u32 = 100;

/// What a performer works with.
pub(crate) struct Means<'a> {
    /// What tells the run from any other of the same id.
    pub(crate) identity: String,
    pub(crate) files: RunFiles,
    pub(crate) world: DiskWorld,
    pub(crate) agents: &'a Agents,
    pub(crate) steps: Box<dyn Steps>,
    /// What the path of a script is put behind.
    pub(crate) shell: Vec<String>,
    /// How many processes of coding agents are kept for further turns.
    pub(crate) warm_limit: usize,
    /// Whether waits are over at once.
    pub(crate) is_hurried: bool,
    pub(crate) disk_reserve_bytes: u64,
    /// Variables that every script gets besides those that it inherits.
    pub(crate) environment: Vec<(String, String)>,
    /// Which script steps keep their files.
    pub(crate) retention: Retention,
    /// How much later than promised a usage limit is taken for lifted.
    pub(crate) reset_margin: Duration,
}

/// Performs the effects of one run.
pub(crate) struct Performer<'a> {
    means: Means<'a>,
    place: RunPlace,
    flights: Flights,
    /// Processes that are kept for further turns.
    warm: Warm,
    timers: Timers,
    /// What processes have spent by themselves after their last turns. The next turn that ends pays it.
    unpaid: Spent,
    /// How often all agents have waited for a usage limit since a turn was answered.
    limit_waits: u32,
    /// How many keepers and reapers have gone since one of them told of the end of a step.
    helpers_lost: u32,
    /// Steps of which preparing them found that they were started before.
    started_before: HashSet<StepId>,
    /// Warnings that were given: one for each state is enough.
    warned: HashSet<String>,
}

impl<'a> Performer<'a> {
    pub(crate) fn new(means: Means<'a>) -> Self {
        Self {
            place: RunPlace::new(&means.identity, &means.files),
            flights: Flights::default(),
            warm: Warm::new(means.warm_limit),
            timers: Timers::default(),
            unpaid: Spent::default(),
            limit_waits: 0,
            helpers_lost: 0,
            started_before: HashSet::new(),
            warned: HashSet::new(),
            means,
        }
    }

    /// What is free on the disk, if that is too little to start anything.
    pub(crate) fn low_disk(&self) -> Option<u64> {
        let free = sys::free_bytes(&self.means.files.folder).ok()?;
        (free < self.means.disk_reserve_bytes).then_some(free)
    }

    /// Why the run pauses if `error` says that the disk is full.
    fn no_room(&self, error: &io::Error) -> Option<Halt> {
        let is_full =
            matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let free_bytes = sys::free_bytes(&self.means.files.folder).unwrap_or_default();
        is_full.then_some(Halt::DiskLow { free_bytes })
    }

    fn folder(&self, id: &StepId) -> StepFolder {
        StepFolder::new(&self.means.files.steps, id).of_run(&self.means.identity)
    }

    pub(crate) fn flights(&self) -> &Flights {
        &self.flights
    }

    pub(crate) fn timers(&mut self) -> &mut Timers {
        &mut self.timers
    }

    pub(crate) fn steps(&mut self) -> &mut dyn Steps {
        &mut *self.means.steps
    }

    /// Tells the observer what the runner has to say.
    pub(crate) fn tell_remarks(&mut self, observer: &mut dyn Observer) {
        for remark in self.means.steps.remarks() {
            observer.see(&Event::Trouble(remark).now());
        }
    }

    /// Shows what a turn under way has done lately.
    pub(crate) fn glance(&mut self, run: &Run, id: &StepId, observer: &mut dyn Observer) {
        let Some((_, Step { action: Action::Turn(turn), .. })) = run.running_step(id) else {
            return;
        };
        let folder = self.folder(id);
        if let Ok(agent) = self.means.agents.for_turn(turn)
            && let Some(flight) = self.flights.get_mut(id)
        {
            for activity in tails::glance(&mut flight.tail, &folder, agent) {
                observer.see(&Event::Activity { id: id.clone(), activity }.now());
            }
        }
    }

    /// Gives an answer when its time has come. In a hurry it keeps its place among others.
    pub(crate) fn answer_later(&mut self, id: StepId, answer: Box<ReadyAnswer>) {
        let after = if self.means.is_hurried { answer.after / HURRY } else { answer.after };
        self.timers.set(after, Timer::Answer(id, answer));
    }

    /// Notes that a script step has ended, so that its files can be removed some day.
    pub(crate) fn script_ended(&mut self, id: &StepId) {
        let folder = self.folder(id).path().to_owned();
        self.means.retention.ended(folder);
    }

    /// Notes that the ends of all steps so far are durable.
    pub(crate) fn ends_are_durable(&mut self) {
        self.means.retention.durable();
    }

    /// Takes note that a process that was kept is gone. Returns the step that it was to have had.
    pub(crate) fn process_is_gone(&mut self, process: ProcessNumber) -> Option<StepId> {
        self.means.steps.let_go(process);
        let leaving = self.warm.gone(process);
        if let Some(spent) = leaving.and_then(|leaving| self.spent_unasked(&leaving)) {
            self.unpaid.cost_usd += spent.cost_usd;
            self.unpaid.tokens += spent.tokens;
        }
        self.flights.by_process(process)
    }

    /// Lets processes go whose sessions `agent` will not come back to.
    pub(crate) fn drop_forgotten(&mut self, run: &Run, agent: &AgentId) {
        self.warm.drop_forgotten(run, agent);
        self.let_released_go();
    }

    fn let_released_go(&mut self) {
        for process in self.warm.released() {
            self.means.steps.let_go(process);
        }
    }

    pub(crate) fn wait(&mut self, agent: AgentId, delay_ms: u64) {
        // Agents that failed together should not come back together.
        let jitter_percent = 75 + u64::from(uuid::Uuid::new_v4().as_bytes()[0]) * 50 / 255;
        let delay_ms = if self.means.is_hurried { 0 } else { delay_ms * jitter_percent / 100 };
        self.timers.set(Duration::from_millis(delay_ms), Timer::Wake(agent));
    }

    pub(crate) fn wait_for_usage_limit(&mut self, resets_at: Option<u64>) {
        // It may be hours.
        self.warm.drop_idle();
        self.let_released_go();
        let margin = self.means.reset_margin;
        let wait = usage_limit::wait(resets_at, clock::now_ms(), margin, self.limit_waits);
        self.limit_waits += 1;
        let delay = if self.means.is_hurried { Duration::ZERO } else { wait };
        self.timers.set(delay, Timer::UsageLimit);
    }
}

#[cfg(test)]
mod tests;
