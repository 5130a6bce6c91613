//! The course of a run in one history: what arrives is given to the sequencer, and what that wants is carried out, until the
//! run is over or the history is long enough.

mod flights;

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, SystemTime},
};

use futures::{FutureExt as _, StreamExt as _, future::pending, pin_mut, stream::FuturesUnordered};
use raymond_engine::usage_limit_wait;
use raymond_flow::{
    id::{AgentId, StepId},
    machine::{ApplyError, Halt, Input, Run},
    turn::Outcome,
};
use temporalio_sdk::{
    ActivityExecutionError, WaitConditionOptions, WorkflowCancellationToken, WorkflowContext,
    workflows::{join_all, select},
};

use self::flights::{ASK_MAX, Arrival, Flight, PREPARE_MAX};
use super::RunWorkflow;
use crate::{
    activities::StepActivities,
    bundles::BundleError,
    homes::Homes,
    log::Log,
    messages::{Begin, Home, Segment, Signal, StepEnd, StoredAgents, Terms},
    sequencer::{Sequencer, Wanted},
    step_queue::StepQueue,
    world::BundleWorld,
};

/// How long after the announced time a usage limit counts as lifted: clocks differ.
const RESET_MARGIN: Duration = Duration::from_mins(1);
/// The most bytes of a segment. A decision that is larger has one for itself.
const SEGMENT_BYTES: usize = 32 * 1024 * 1024;

/// Why a history ends.
pub(super) enum CourseEnd {
    /// The run is over, or waits for a resume.
    Over,
    /// It is long enough: the run continues in a new one, and these workers have its steps.
    Cut { found: Vec<(StepId, String)> },
}

/// The course of a run in one history.
pub(super) struct Course {
    context: WorkflowContext<RunWorkflow>,
    pub(super) terms: Terms,
    flights: FuturesUnordered<Flight>,
    /// Steps in flight, and how to cancel them.
    steps: BTreeMap<StepId, WorkflowCancellationToken>,
    step_queue: StepQueue,
    pub(super) limit_waits: u32,
    /// The workers that have the steps of the history before.
    found: BTreeMap<StepId, String>,
    homes: Homes,
    /// How many steps have ended in this history, with the looks.
    counted: u32,
    /// The agents whose worktrees are to be made or saved: one at a time, because git is in its own way otherwise.
    worktrees: VecDeque<AgentId>,
    /// Whether one of them is under way.
    is_in_git: bool,
    /// While the history is about to be cut: the workers that have the steps in flight.
    cut: Option<BTreeMap<StepId, String>>,
    /// Whether the user wants all steps to end: the history is not cut any more, because the next one would not know.
    is_ending: bool,
}

impl Course {
    pub(super) fn new(context: &WorkflowContext<RunWorkflow>, terms: Terms) -> Self {
        let flights = FuturesUnordered::new();
        // An empty set would count as ended.
        flights.push(pending().boxed_local());
        Self {
            context: context.clone(),
            step_queue: StepQueue::default(),
            terms,
            flights,
            steps: BTreeMap::new(),
            limit_waits: 0,
            found: BTreeMap::new(),
            homes: Homes::default(),
            counted: 0,
            worktrees: VecDeque::new(),
            is_in_git: false,
            cut: None,
            is_ending: false,
        }
    }

    pub(super) fn begin(&mut self, begin: Begin) {
        let bundles = self.context.state(|own| own.bundles.clone());
        let files =
            bundles.map_or(Err(BundleError::NotFetched), |all| all.files(&self.terms.bundle));
        let files = files.unwrap_or_else(|error| {
            panic!("the bundle {} cannot be had: {error}", self.terms.bundle)
        });
        let coding_agents = self.terms.coding_agents.clone();
        let world = BundleWorld::new(files, coding_agents);
        world.set_now_ms(self.now_ms());
        let mut kept = StoredAgents::default();
        let sequencer = match begin {
            Begin::New(started) => Ok(Sequencer::begin(started, world)),
            Begin::Resumed { run, input, segments, stored } => {
                kept = stored;
                Sequencer::reopen(run, world, Log::after(segments), Some(input))
            }
            Begin::Continued { run, found, limit_waits, segments, homes, stored } => {
                kept = stored;
                self.found = found.into_iter().collect();
                self.homes = homes.into_iter().collect();
                self.limit_waits = limit_waits;
                Sequencer::reopen(run, world, Log::after(segments), None)
            }
        };
        let sequencer = sound(sequencer).carrying(kept, &self.terms);
        let bundle = self.terms.bundle.clone();
        self.context.state_mut(|own| {
            own.sequencer = Some(sequencer);
            own.bundle = bundle;
        });
        let wanted = self.sequencer(Sequencer::work_off);
        self.perform(wanted);
    }

    pub(super) async fn turn_until_over(&mut self) -> CourseEnd {
        let mut is_cancelled = false;
        loop {
            while let Some(signal) = self.context.state_mut(|own| own.inbox.pop_front()) {
                self.take(signal);
            }
            let is_over =
                |own: &RunWorkflow| own.sequencer.as_ref().is_some_and(Sequencer::is_over);
            if self.context.state(is_over) {
                // What a signal wants meanwhile is taken, and kept, too.
                if self.keep().await {
                    continue;
                }
                return CourseEnd::Over;
            }
            if !self.is_ending
                && let Some(found) = self.found_all()
            {
                if self.keep().await {
                    continue;
                }
                // Nothing is awaited between the empty inbox and the end of this history: no signal is lost.
                return CourseEnd::Cut { found };
            }
            let is_long = self.counted >= self.terms.steps_per_history;
            if self.cut.is_none() && is_long && !self.is_ending {
                self.prepare_cut().await;
                continue;
            }
            let options = || {
                let token = WorkflowCancellationToken::new();
                WaitConditionOptions::builder().cancellation_token(token).build()
            };
            let arrival = {
                let context = self.context.clone();
                let told =
                    context.wait_condition_with_options(|own| !own.inbox.is_empty(), options());
                let arrived = join_all([self.flights.select_next_some()]).fuse();
                let was_cancelled = is_cancelled;
                let cancelled = async {
                    if was_cancelled {
                        pending::<()>().await;
                    }
                    let _ = context.cancelled().await;
                }
                .fuse();
                pin_mut!(told, arrived, cancelled);
                select! {
                    arrivals = arrived => arrivals,
                    _ = told => Vec::new(),
                    () = cancelled => {
                        is_cancelled = true;
                        Vec::new()
                    }
                }
            };
            for arrival in arrival {
                self.land(arrival);
            }
            if is_cancelled {
                let halt = Input::Halt(Halt::Cancelled);
                self.take(Signal { input: halt, ends_steps: true, workers: Vec::new() });
            }
        }
    }

    /// Finds out which workers have the steps in flight. From now on nothing is launched. A step that no worker has yet
    /// is cancelled, because nobody could find it again.
    async fn prepare_cut(&mut self) {
        let options = self.job(ASK_MAX);
        let places = self.context.execute_activity(StepActivities::places, (), options).await;
        let places = places.unwrap_or_default();
        let mut found = BTreeMap::new();
        for (id, token) in &self.steps {
            let name = id.to_string();
            match places.iter().find(|place| place.step == name) {
                Some(place) => drop(found.insert(id.clone(), place.worker.clone())),
                None => token.cancel(),
            }
        }
        self.cut = Some(found);
    }

    /// The workers that have the steps in flight, if the history can be cut: every step in flight is on a worker.
    fn found_all(&self) -> Option<Vec<(StepId, String)>> {
        let found = self.cut.as_ref()?;
        let place = |id: &StepId| Some((id.clone(), found.get(id)?.clone()));
        self.steps.keys().map(place).collect()
    }

    /// Puts what was decided and is not in the store yet there: this history is about to end, and mirrors come later.
    /// Returns whether there was anything.
    async fn keep(&self) -> bool {
        let page = |own: &RunWorkflow| {
            let log = own.sequencer.as_ref().map(Sequencer::log);
            log.map(|log| log.page(0, usize::MAX, SEGMENT_BYTES)).unwrap_or_default()
        };
        let page = self.context.state(page);
        if page.is_empty() {
            return false;
        }
        let entries = page.len() as u64;
        // Tried until it is stored: the run does not go on without its records.
        let options = self.job(PREPARE_MAX);
        let kept = self.context.execute_activity(StepActivities::keep, page, options).await;
        let segment = Segment { hash: kept.unwrap_or_default(), entries };
        self.context.state_mut(|own| {
            if let Some(all) = &mut own.sequencer {
                all.log_mut().keep(segment);
            }
        });
        true
    }

    pub(super) fn segments(&self) -> Vec<Segment> {
        let segments = |own: &RunWorkflow| Some(own.sequencer.as_ref()?.log().segments().to_vec());
        self.context.state(segments).unwrap_or_default()
    }

    pub(super) fn run(&self) -> Run {
        self.needs(|all| all.run().clone())
    }

    /// What moves with the agents from here on.
    pub(super) fn stored(&self) -> StoredAgents {
        self.needs(Sequencer::stored)
    }

    /// Carries out what a user wants.
    fn take(&mut self, Signal { input, ends_steps, workers }: Signal) {
        self.input(input);
        if ends_steps {
            self.is_ending = true;
            for id in self.step_queue.drain() {
                self.gone(&id, Outcome::NotStarted);
            }
            for token in self.steps.values() {
                token.cancel();
            }
            for worker in workers {
                self.end_on(&worker);
            }
        }
    }

    fn land(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Step(id, end) => self.land_step(&id, end),
            Arrival::Prepared(_, Ok(input)) => self.input(input),
            Arrival::Prepared(agent, Err(error)) => {
                let prepared = Err(format!("no worker could prepare the state: {error}"));
                self.input(Input::Prepared { agent, prepared });
            }
            Arrival::Worktree(agent, done) => {
                self.is_in_git = false;
                let input = done.unwrap_or_else(|error| self.no_worktree(agent, &error));
                self.input(input);
                self.start_git();
            }
            Arrival::Woke(agent) => self.input(Input::Woke { agent }),
            Arrival::Deadline(id) => {
                let wanted = self.sequencer(|all, now_ms| {
                    all.look_at_question(&id, now_ms)?;
                    all.work_off(now_ms)
                });
                self.perform(wanted);
            }
            Arrival::UsageLimit => self.input(Input::UsageLimitLifted),
            Arrival::Look => self.look(),
            Arrival::Looked(queued) => {
                // A look has more events than a step: a history also ends if a run waits for long.
                self.counted += 1;
                self.step_queue.end_look(queued.ok());
                self.launch_allowed();
            }
            Arrival::Ending => {}
        }
    }

    fn land_step(&mut self, id: &StepId, end: Result<StepEnd, ActivityExecutionError>) {
        self.steps.remove(id);
        self.step_queue.land(id);
        self.counted += 1;
        match end {
            Ok(StepEnd { inputs, files, worker, labels, session: stored, checkout, .. }) => {
                self.attach(id, files);
                self.context.state_mut(|own| {
                    let kept = own.sequencer.as_mut();
                    kept.map(|all| all.keep(id, stored, checkout))
                });
                let (home, session) = (Home { worker, labels }, self.session(id));
                for input in inputs {
                    let wanted = self.sequencer(|all, now_ms| all.input(input, now_ms));
                    // Before the next turn is launched.
                    if let Some(session) = &session {
                        let others = self.needs(|all| all.sessions(&id.agent));
                        self.homes.settle_in(session, others, &home);
                    }
                    self.perform(wanted);
                }
            }
            // A worker that has it says how it ended, so none had it.
            Err(ActivityExecutionError::Cancelled(_)) => {
                self.gone(id, Outcome::NotStarted);
            }
            // Its worker is gone, or could not do it.
            Err(_) => {
                if let Some(session) = self.session(id) {
                    self.homes.forget(&session);
                }
                self.gone(id, Outcome::Lost);
            }
        }
        self.attach(id, None);
        self.launch_allowed();
    }

    /// Says where the files of a step are whose end is decided about next.
    fn attach(&self, id: &StepId, files: Option<String>) {
        self.context.state_mut(|own| {
            if let Some(all) = &mut own.sequencer {
                all.log_mut().attach(id, files);
            }
        });
    }

    fn gone(&mut self, id: &StepId, outcome: Outcome) {
        let input =
            self.context.state(|own| own.sequencer.as_ref().map(|all| all.gone(id, outcome)));
        if let Some(input) = input {
            self.input(input);
        }
    }

    fn input(&mut self, input: Input) {
        let wanted = self.sequencer(|all, now_ms| all.input(input, now_ms));
        self.perform(wanted);
    }

    /// Does something with the sequencer, at the time of the history.
    fn sequencer(
        &self,
        act: impl FnOnce(&mut Sequencer, u64) -> Result<Vec<Wanted>, ApplyError>,
    ) -> Vec<Wanted> {
        let now_ms = self.now_ms();
        self.context.state_mut(|own| {
            own.sequencer.as_mut().map_or_else(Vec::new, |all| sound(act(all, now_ms)))
        })
    }

    fn now_ms(&self) -> u64 {
        let now = self.context.workflow_time();
        let since = now.and_then(|now| now.duration_since(SystemTime::UNIX_EPOCH).ok());
        since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    fn perform(&mut self, wanted: Vec<Wanted>) {
        for one in wanted {
            match one {
                Wanted::Step { id, is_started } => {
                    let labels = self.needs(|all| all.labels(&id));
                    if is_started && self.found.contains_key(&id) {
                        self.step_queue.add_found(id, labels);
                    } else {
                        self.step_queue.add(id, labels);
                    }
                }
                Wanted::Prepare { agent, fresh } => self.prepare(agent, fresh),
                Wanted::Worktree { agent } => self.worktrees.push_back(agent),
                Wanted::Wake { agent, delay_ms } => {
                    self.timer(Duration::from_millis(delay_ms), Arrival::Woke(agent));
                }
                Wanted::Deadline { id, delay_ms } => {
                    self.timer(Duration::from_millis(delay_ms), Arrival::Deadline(id));
                }
                Wanted::UsageLimit { resets_at } => {
                    let waits = self.limit_waits;
                    self.limit_waits += 1;
                    let wait = usage_limit_wait(resets_at, self.now_ms(), RESET_MARGIN, waits);
                    self.timer(wait, Arrival::UsageLimit);
                }
            }
        }
        self.launch_allowed();
        self.start_git();
    }

    fn excerpt(&self, agent: &AgentId) -> Run {
        self.needs(|all| all.excerpt(agent))
    }

    /// What the sequencer knows.
    fn needs<T>(&self, ask: impl FnOnce(&Sequencer) -> T) -> T {
        let known = self.context.state(|own| own.sequencer.as_ref().map(ask));
        known.unwrap_or_else(|| unreachable!("it was begun"))
    }
}

/// The value, or a failed workflow task: the records of a decision did not fit the run, which a fixed program decides
/// again.
fn sound<T>(value: Result<T, ApplyError>) -> T {
    value.unwrap_or_else(|error| panic!("the run is inconsistent: {error}"))
}
