//! Performs effects on files and processes.
//!
//! * `preparation`: prepares the next step of an agent from the workflow's files.
//! * `asking`: questions to people.
//! * `hosting`: starts a step that an orchestrator on another machine has decided about.
//! * `launching`: turns a step into a command with its environment, and hands it to the runner.
//! * `limiting`: waiting for the provider's usage limit.
//! * `looking`: checks the state of steps, including those of an earlier orchestrator.
//! * `outcome`: reads what an ended step left, and what it means.

mod asking;
mod handoff;
mod hosting;
mod launching;
mod limiting;
mod looking;
mod outcome;
mod preparation;

use std::{collections::HashSet, io, time::Duration};

use raymond_flow::{
    id::{AgentId, RunId, StepId},
    machine::{Action, Halt, Message, Run, Spent, Step},
};

use crate::{
    agent::{Agents, ReadyAnswer, warm::Warm},
    asks::{Answerer, Desk},
    exec::{
        step::StepFolder,
        steps::{Flights, ProcessNumber, RunPlace, Steps},
    },
    observe::tails,
    run::{
        events::{Event, Observer},
        inbox::Outbox,
        timers::{Timer, Timers},
        usage_limit::SharedLimits,
    },
    store::{layout::RunFiles, retention::Retention, scope::DiskWorld},
    sys,
    worktree::{GitJobs, RunWorktrees},
};

pub(crate) use launching::Launched;
use limiting::LimitWaits;
pub(crate) use looking::{Look, Unclaimed};

/// The divisor of delays before scripted answers when a test case runs in a hurry.
const HURRY: u32 = 100;

/// What a performer needs.
pub(crate) struct Means<'a> {
    /// The id of the run.
    pub(crate) run: RunId,
    /// Tells the run from any other with the same id.
    pub(crate) identity: String,
    pub(crate) files: RunFiles,
    pub(crate) world: DiskWorld,
    pub(crate) agents: &'a Agents,
    pub(crate) steps: Box<dyn Steps>,
    /// The command to which the path of a script is appended.
    pub(crate) shell: Vec<String>,
    /// How many processes of coding agents are kept for further turns.
    pub(crate) warm_limit: usize,
    /// Whether waits end at once.
    pub(crate) is_hurried: bool,
    pub(crate) disk_reserve_bytes: u64,
    /// Variables that every script gets besides those that it inherits.
    pub(crate) environment: Vec<(String, String)>,
    /// Which script steps keep their files.
    pub(crate) retention: Retention,
    /// How long after the announced time a usage limit counts as lifted.
    pub(crate) reset_margin: Duration,
    /// What the runs of this user know about usage limits.
    pub(crate) shared_limits: SharedLimits,
    /// Whether the next turn is started although the limit is known to be in effect.
    pub(crate) defies_limit: bool,
    /// Tells the run loop that a git command has ended.
    pub(crate) outbox: Outbox,
    /// Answers questions at once instead of people.
    pub(crate) answerer: Option<Answerer<'a>>,
}

/// Performs the effects of one run.
pub(crate) struct Performer<'a> {
    means: Means<'a>,
    place: RunPlace,
    flights: Flights,
    /// Questions to people.
    desk: Desk,
    /// Makes and saves worktrees.
    git: GitJobs,
    /// Processes that are kept for further turns.
    warm: Warm,
    timers: Timers,
    /// What kept processes spent after the end of their last turns. It is added to the next turn that ends.
    unpaid: Spent,
    /// The coding agents of which the user was told that they report no cost.
    without_cost: HashSet<String>,
    limit_waits: LimitWaits,
    /// The number of keepers and reapers that were lost since one of them reported the end of a step.
    helpers_lost: u32,
    /// Steps that `prepare` found to be started before.
    started_before: HashSet<StepId>,
    /// Warnings that were given: one for each state is enough.
    warned: HashSet<String>,
}

impl<'a> Performer<'a> {
    pub(crate) fn new(means: Means<'a>) -> Self {
        let worktrees = RunWorktrees::new(&means.files, &means.run, &means.identity);
        Self {
            git: GitJobs::new(
                worktrees,
                means.run.clone(),
                means.outbox.clone(),
                means.disk_reserve_bytes,
            ),
            place: RunPlace::new(&means.identity, &means.files),
            flights: Flights::default(),
            desk: Desk::new(means.files.asks.clone(), &means.identity),
            warm: Warm::new(means.warm_limit),
            timers: Timers::default(),
            unpaid: Spent::default(),
            without_cost: HashSet::new(),
            limit_waits: LimitWaits::default(),
            helpers_lost: 0,
            started_before: HashSet::new(),
            warned: HashSet::new(),
            means,
        }
    }

    /// The free disk space, if it is too little to start a step.
    pub(crate) fn low_disk(&self) -> Option<u64> {
        let free = sys::free_bytes(&self.means.files.folder).ok()?;
        (free < self.means.disk_reserve_bytes).then_some(free)
    }

    /// The halt if `error` says that the disk is full.
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

    /// Passes the runner's remarks to the observer.
    pub(crate) fn tell_remarks(&mut self, observer: &mut dyn Observer) {
        for remark in self.means.steps.remarks() {
            observer.see(&Event::Trouble(remark).now());
        }
    }

    /// Shows what a running turn has done since the last look.
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

    /// Writes a message for a running turn, whose reaper gives it to the coding agent. If that fails, or if the coding
    /// agent takes no messages during a turn, it comes with the prompt of the next one.
    pub(crate) fn tell(&self, run: &Run, id: &StepId, message: &Message) {
        let Some((_, Step { action: Action::Turn(turn), .. })) = run.running_step(id) else {
            return;
        };
        let agent = self.means.agents.for_turn(turn).ok();
        if let Some(live) = agent.and_then(|agent| agent.message(&message.id, &message.text)) {
            let _ = self.folder(id).tell(&message.id, &live);
        }
    }

    /// Gives an answer after its delay. In a hurry, answers keep their order.
    pub(crate) fn answer_later(&mut self, id: StepId, answer: Box<ReadyAnswer>) {
        let after = if self.means.is_hurried { answer.after / HURRY } else { answer.after };
        self.timers.set(after, Timer::Answer(id, answer));
    }

    /// Records that a script step has ended, so that its files can be removed later.
    pub(crate) fn script_ended(&mut self, id: &StepId) {
        let folder = self.folder(id).path().to_owned();
        self.means.retention.ended(folder);
    }

    /// Records that the ends of all steps so far are durable.
    pub(crate) fn ends_are_durable(&mut self) {
        self.means.retention.durable();
    }

    /// Records that a kept process is gone. Returns the step that it was running.
    pub(crate) fn process_is_gone(&mut self, process: ProcessNumber) -> Option<StepId> {
        self.means.steps.let_go(process);
        let leaving = self.warm.gone(process);
        if let Some(spent) = leaving.and_then(|leaving| self.spent_unasked(&leaving)) {
            self.unpaid.cost_usd += spent.cost_usd;
            self.unpaid.tokens += spent.tokens;
        }
        self.flights.by_process(process)
    }

    /// Releases processes whose sessions `agent` will not return to.
    pub(crate) fn drop_forgotten(&mut self, run: &Run, agent: &AgentId) {
        self.warm.drop_forgotten(run, agent);
        self.let_released_go();
    }

    fn let_released_go(&mut self) {
        for process in self.warm.released() {
            self.means.steps.let_go(process);
        }
    }

    /// Whether nothing is under way but what cannot end until there is disk space.
    pub(crate) fn is_stuck(&self) -> bool {
        self.flights.are_stuck() || (self.git.is_stuck() && self.flights.is_empty())
    }

    /// Makes and saves the worktrees of workers.
    pub(crate) fn git(&mut self) -> &mut GitJobs {
        &mut self.git
    }

    pub(crate) fn wait(&mut self, agent: AgentId, delay_ms: u64) {
        let delay_ms = if self.means.is_hurried { 0 } else { delay_ms };
        self.timers.set(Duration::from_millis(delay_ms), Timer::Wake(agent));
    }
}

#[cfg(test)]
mod tests;
