//! The Temporal workflow of a run. It owns no rule: it carries what the sequencer wants to activities and timers, and
//! their outcomes and the users' signals back to it.
//!
//! Determinism: the set of flights is polled only through the SDK's `join_all`, everything that the sequencer gets is in
//! the history, and the time is that of the history. A panic fails the workflow task, which Temporal tries again until a
//! worker can do it: the run waits, and nothing of it is lost.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures::{
    FutureExt as _, StreamExt as _,
    future::{LocalBoxFuture, pending},
    pin_mut,
    stream::FuturesUnordered,
};
use raymond_engine::usage_limit_wait;
use raymond_flow::{
    id::{AgentId, AskId, SessionId, StepId},
    machine::{ApplyError, Halt, Input, Run, SavedWork, SessionPlan},
    turn::Outcome,
};
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, ContinueAsNewOptions,
    SyncWorkflowContext, TimeoutType, TimerOptions, WaitConditionOptions,
    WorkflowCancellationToken, WorkflowContext, WorkflowContextView, WorkflowResult,
    workflows::{join_all, select},
};
use temporalio_workflow::RetryPolicy;

use crate::{
    activities::StepActivities,
    bundles::{BundleError, Bundles},
    departures::Departures,
    homes::Homes,
    log::Log,
    messages::{
        Begin, EndOrder, Home, Luggage, Page, PrepareOrder, RunInput, RunOutput, Segment, Signal,
        StepEnd, StepOrder, StoredCheckout, Terms, WorktreeOrder,
    },
    queues,
    sequencer::{Sequencer, Wanted},
    world::BundleWorld,
};

/// No step takes longer; its own timeout is for silence.
const STEP_MAX: Duration = Duration::from_hours(24 * 30);
/// How long a preparation may take.
const PREPARE_MAX: Duration = Duration::from_mins(2);
/// How long the next turn of a session waits for the worker that has it. One that is busy refuses at once.
const OFFER_MAX: Duration = Duration::from_secs(5);
/// How long it may take to ask the server which steps workers have. A worker that is frozen may have the question.
const ASK_MAX: Duration = Duration::from_secs(20);
/// How long git may take for a worktree: checking out a large repository over a slow disk.
const GIT_MAX: Duration = Duration::from_mins(30);
/// How long after the announced time a usage limit counts as lifted: clocks differ.
const RESET_MARGIN: Duration = Duration::from_mins(1);

/// The most decisions, and their bytes, in an answer to a mirror.
const PAGE_ENTRIES: usize = 500;
const PAGE_BYTES: usize = 256 * 1024;
/// The most bytes of a segment. A decision that is larger has one for itself.
const SEGMENT_BYTES: usize = 32 * 1024 * 1024;

/// A run as a Temporal workflow.
#[workflow]
#[derive(Default)]
pub struct RunWorkflow {
    /// `None` where it is only referred to, not run.
    bundles: Option<Arc<Bundles>>,
    inbox: VecDeque<Signal>,
    sequencer: Option<Sequencer>,
    /// The archive with the workflow's files; `None` if no records are kept for mirrors.
    bundle: Option<String>,
}

/// Something that was waited for.
enum Arrival {
    Step(StepId, Result<StepEnd, ActivityExecutionError>),
    Prepared(AgentId, Result<Input, ActivityExecutionError>),
    Worktree(AgentId, Result<Input, ActivityExecutionError>),
    Woke(AgentId),
    Deadline(AskId),
    UsageLimit,
    /// It is time to look which steps workers carry out.
    Look,
    /// None of them has these.
    Looked(Result<Vec<String>, ActivityExecutionError>),
    /// A worker was told to end steps; their ends arrive by themselves.
    Told,
}

/// Why a history ends.
enum CourseEnd {
    /// The run is over or rests.
    Over,
    /// It is long enough: the run goes on in a new one, and these workers have its steps.
    Cut { found: Vec<(StepId, String)> },
}

type Flight = LocalBoxFuture<'static, Arrival>;

impl RunWorkflow {
    pub(crate) fn new(bundles: Arc<Bundles>) -> Self {
        Self { bundles: Some(bundles), ..Self::default() }
    }
}

#[workflow_methods]
impl RunWorkflow {
    /// Runs until the run is over or rests.
    #[run(name = "raymond_run")]
    pub async fn run(
        context: &mut WorkflowContext<Self>,
        input: RunInput,
    ) -> WorkflowResult<RunOutput> {
        let RunInput { begin, terms } = input;
        let mut course = Course::new(context, terms);
        course.begin(begin);
        if let CourseEnd::Cut { found } = course.turn_until_over().await {
            let (run, segments) = (course.run(), course.segments());
            let (limit_waits, luggage) = (course.limit_waits, course.luggage());
            let homes = course.homes();
            let begin = Begin::Continued { run, found, limit_waits, segments, homes, luggage };
            let input = RunInput { begin, terms: course.terms };
            context.continue_as_new(input, ContinueAsNewOptions::default())?;
            unreachable!("the line above always leaves");
        }
        let (run, segments) = (course.run(), course.segments());
        let luggage = course.luggage();
        Ok(RunOutput { run, terms: course.terms, segments, luggage })
    }

    /// Something that a user wants.
    #[signal]
    pub fn tell(&mut self, _context: &mut SyncWorkflowContext<Self>, signal: Signal) {
        self.inbox.push_back(signal);
    }

    /// The work of the agents, if checkouts move with them.
    #[query]
    pub fn work(&self, _context: &WorkflowContextView) -> Option<Vec<StoredCheckout>> {
        self.sequencer.as_ref().map(Sequencer::work)
    }

    /// The run as it is now.
    #[query]
    pub fn show(&self, _context: &WorkflowContextView) -> Option<Run> {
        self.sequencer.as_ref().map(|all| all.run().clone())
    }

    /// What the run has decided, from the decision with this number on, as much as a page has; `None` if it has not begun.
    #[query]
    pub fn records(&self, _context: &WorkflowContextView, from: u64) -> Option<Page> {
        let log = self.sequencer.as_ref()?.log();
        let entries = log.page(from, PAGE_ENTRIES, PAGE_BYTES);
        let (bundle, segments) = (self.bundle.clone(), log.segments().to_vec());
        Some(Page { bundle, segments, entries, decisions: log.decisions() })
    }
}

/// The course of a run in one history.
struct Course {
    context: WorkflowContext<RunWorkflow>,
    terms: Terms,
    flights: FuturesUnordered<Flight>,
    /// Steps in flight, and how to cancel them.
    steps: BTreeMap<StepId, WorkflowCancellationToken>,
    departures: Departures,
    limit_waits: u32,
    /// The workers that have the steps of the history before.
    found: BTreeMap<StepId, String>,
    homes: Homes,
    /// How many steps have ended in this history, with the looks. Earlier programs counted launches, so that a history could
    /// be cut without progress.
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
    fn new(context: &WorkflowContext<RunWorkflow>, terms: Terms) -> Self {
        let flights = FuturesUnordered::new();
        // An empty set would count as ended.
        flights.push(pending().boxed_local());
        Self {
            context: context.clone(),
            departures: Departures::new(terms.limits_flights),
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

    fn begin(&mut self, begin: Begin) {
        let bundles = self.context.state(|own| own.bundles.clone());
        let files =
            bundles.map_or(Err(BundleError::NotFetched), |all| all.files(&self.terms.bundle));
        let files = files.unwrap_or_else(|error| {
            panic!("the bundle {} cannot be had: {error}", self.terms.bundle)
        });
        let coding_agents = self.terms.coding_agents.clone();
        let world = BundleWorld::new(files, coding_agents);
        world.set_now_ms(self.now_ms());
        let mut kept = Luggage::default();
        let sequencer = match begin {
            Begin::New(started) => Ok(Sequencer::begin(started, world)),
            Begin::Resumed { run, input, segments, luggage } => {
                kept = luggage;
                Sequencer::reopen(run, world, Log::after(segments), Some(input))
            }
            Begin::Continued { run, found, limit_waits, segments, homes, luggage } => {
                kept = luggage;
                self.found = found.into_iter().collect();
                self.homes = homes.into_iter().collect();
                self.limit_waits = limit_waits;
                Sequencer::reopen(run, world, Log::after(segments), None)
            }
        };
        let sequencer = sound(sequencer).carrying(kept, &self.terms);
        let bundle = self.terms.keeps_records.then(|| self.terms.bundle.clone());
        self.context.state_mut(|own| {
            own.sequencer = Some(sequencer);
            own.bundle = bundle;
        });
        let wanted = self.sequencer(Sequencer::work_off);
        self.perform(wanted);
    }

    async fn turn_until_over(&mut self) -> CourseEnd {
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
                && let Some(found) = self.is_cut()
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
                self.take(Signal { input: halt, ends_steps: true, workers: None });
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
    fn is_cut(&self) -> Option<Vec<(StepId, String)>> {
        let found = self.cut.as_ref()?;
        let place = |id: &StepId| Some((id.clone(), found.get(id)?.clone()));
        self.steps.keys().map(place).collect()
    }

    /// Puts what was decided and is not in the store yet there: this history is about to end, and mirrors come later.
    /// Returns whether there was anything.
    async fn keep(&self) -> bool {
        if !self.terms.keeps_records {
            return false;
        }
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

    fn segments(&self) -> Vec<Segment> {
        let segments = |own: &RunWorkflow| Some(own.sequencer.as_ref()?.log().segments().to_vec());
        self.context.state(segments).unwrap_or_default()
    }

    fn run(&self) -> Run {
        self.needs(|all| all.run().clone())
    }

    /// What follows the agents from here on.
    fn luggage(&self) -> Luggage {
        self.needs(Sequencer::luggage)
    }

    /// Carries out what a user wants.
    fn take(&mut self, Signal { input, ends_steps, workers }: Signal) {
        self.input(input);
        if ends_steps {
            self.is_ending |= workers.is_some();
            for id in self.departures.drain() {
                self.gone(&id, Outcome::NotStarted);
            }
            for token in self.steps.values() {
                token.cancel();
            }
            workers.unwrap_or_default().into_iter().for_each(|worker| self.tell_to_end(&worker));
        }
    }

    /// Tells a worker to end its steps. The cancelled tokens say the same with the next heartbeat of each step, so a worker
    /// that is not told learns it, too.
    fn tell_to_end(&self, worker: &str) {
        let identity = self.needs(|all| all.run().identity.clone());
        let order = EndOrder { identity, steps: self.steps.keys().cloned().collect() };
        let options = ActivityOptions::with_start_to_close_timeout(PREPARE_MAX)
            .task_queue(queues::own(self.context.task_queue(), worker))
            .cancellation_token(WorkflowCancellationToken::new())
            .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
            .build();
        let context = self.context.clone();
        self.flights.push(
            async move {
                let _ = context.execute_activity(StepActivities::end_steps, order, options).await;
                Arrival::Told
            }
            .boxed_local(),
        );
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
                self.departures.end_look(queued.ok());
                self.depart();
            }
            Arrival::Told => {}
        }
    }

    fn land_step(&mut self, id: &StepId, end: Result<StepEnd, ActivityExecutionError>) {
        self.steps.remove(id);
        self.departures.land(id);
        self.counted += u32::from(self.terms.limits_flights);
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
        self.depart();
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
                        self.departures.add_found(id, labels);
                    } else {
                        self.departures.add(id, labels);
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
        self.depart();
        self.start_git();
    }

    fn timer(&self, delay: Duration, arrival: Arrival) {
        let context = self.context.clone();
        let token = WorkflowCancellationToken::new();
        let options = TimerOptions::builder(delay).cancellation_token(token).build();
        self.flights.push(
            async move {
                let _ = context.timer(options).await;
                arrival
            }
            .boxed_local(),
        );
    }

    /// Launches what may be in flight.
    fn depart(&mut self) {
        if self.cut.is_some() {
            return;
        }
        while let Some(id) = self.departures.next() {
            self.launch(id);
        }
        if let Some(interval) = self.departures.begin_look() {
            self.timer(interval, Arrival::Look);
        }
    }

    /// Finds out which steps no worker has.
    fn look(&self) {
        let (context, options) = (self.context.clone(), self.job(ASK_MAX));
        self.flights.push(
            async move {
                let queued = context.execute_activity(StepActivities::queued, (), options).await;
                Arrival::Looked(queued)
            }
            .boxed_local(),
        );
    }

    /// Launches a step. One that an earlier history has started is looked for where it is; if no worker has it, it never
    /// was started. The next turn of a session is offered to the worker that had the last one.
    fn launch(&mut self, id: StepId) {
        let found = self.found.remove(&id);
        self.counted += u32::from(!self.terms.limits_flights);
        let (sessions, checkout) =
            self.needs(|all| (all.stored_sessions(&id), all.checkout(&id.agent)));
        let token = WorkflowCancellationToken::new();
        self.steps.insert(id.clone(), token.clone());
        let order = StepOrder {
            id: id.clone(),
            run: self.excerpt(&id.agent),
            bundle: self.terms.bundle.clone(),
            is_started: found.is_some(),
            is_offer: false,
            may_refuse: true,
            sessions,
            checkout,
        };
        let heartbeat = Duration::from_millis(self.terms.heartbeat_ms);
        let labels = self.needs(|all| all.labels(&id));
        let common = self.context.task_queue();
        let own = |worker: &str, patience: Duration| (queues::own(common, worker), Some(patience));
        let offer = self.home(&id, &labels).filter(|_| found.is_none()).map(|home| {
            let order = StepOrder { is_offer: true, ..order.clone() };
            let queue = own(&home.worker, OFFER_MAX);
            (order, step_options(&id, heartbeat, queue, token.clone()))
        });
        let queue = match found {
            // Only that worker has it: if it is gone, the step is lost.
            Some(worker) => own(&worker, heartbeat),
            None => (queues::labelled(common, &labels), None),
        };
        let mut options = step_options(&id, heartbeat, queue, token);
        // A step that is alone may come back with the answer to this workflow task, which halves the delay of a chain of
        // scripts. Of many, all workers get some.
        options.do_not_eagerly_execute = self.steps.len() > 1;
        let context = self.context.clone();
        self.flights.push(
            async move {
                if let Some((order, options)) = offer {
                    let end = context.execute_activity(StepActivities::step, order, options).await;
                    if !is_refused(&end) {
                        return Arrival::Step(id, end);
                    }
                }
                // A worker that has just come back with its steps may have no place, and polls before it knows.
                loop {
                    let (order, options) = (order.clone(), options.clone());
                    let end = context.execute_activity(StepActivities::step, order, options).await;
                    if !matches!(&end, Ok(end) if end.is_refused) {
                        return Arrival::Step(id, end);
                    }
                }
            }
            .boxed_local(),
        );
    }

    /// The session that a running turn goes on with, or begins; `None` for a script.
    fn session(&self, id: &StepId) -> Option<SessionId> {
        Some(match self.needs(|all| all.plan(id).cloned())? {
            SessionPlan::Fresh { id } | SessionPlan::Resume { id } => id,
            SessionPlan::Branch { from, .. } => from,
        })
    }

    /// The worker that has the session of a turn, if it also has the labels that the turn needs.
    fn home(&self, id: &StepId, labels: &[String]) -> Option<&Home> {
        let session = self.session(id).filter(|_| self.terms.prefers_homes)?;
        self.homes.of(&session, labels)
    }

    /// The workers of the sessions that agents may go on with.
    fn homes(&self) -> Vec<(SessionId, Home)> {
        let sessions = self.needs(|all| {
            all.run().agents.keys().flat_map(|agent| all.sessions(agent)).collect::<Vec<_>>()
        });
        let going_on = self.steps.keys().filter_map(|id| self.session(id));
        self.homes.among(sessions.into_iter().chain(going_on))
    }

    fn prepare(&self, agent: AgentId, fresh: SessionId) {
        let run = self.excerpt(&agent);
        let bundle = self.terms.bundle.clone();
        let checkout = self.needs(|all| all.checkout(&agent));
        let order = PrepareOrder { run, agent: agent.clone(), fresh, bundle, checkout };
        let options = self.job(PREPARE_MAX);
        let context = self.context.clone();
        self.flights.push(
            async move {
                let prepared =
                    context.execute_activity(StepActivities::prepare, order, options).await;
                Arrival::Prepared(agent, prepared.map(Input::from))
            }
            .boxed_local(),
        );
    }

    /// Makes or saves the next worktree, on any worker: all see the directory.
    fn start_git(&mut self) {
        if self.is_in_git {
            return;
        }
        let Some(agent) = self.worktrees.pop_front() else { return };
        self.is_in_git = true;
        let run = self.needs(|all| all.worktree(&agent));
        let order = WorktreeOrder { run, agent: agent.clone() };
        let mut options = self.job(GIT_MAX);
        options.heartbeat_timeout = Some(Duration::from_millis(self.terms.heartbeat_ms));
        let context = self.context.clone();
        self.flights.push(
            async move {
                let done = context.execute_activity(StepActivities::worktree, order, options).await;
                Arrival::Worktree(agent, done.map(Input::from))
            }
            .boxed_local(),
        );
    }

    /// How a job is carried out that is not a step: a user who cancels the run does not cancel it.
    fn job(&self, time_max: Duration) -> ActivityOptions {
        ActivityOptions::with_start_to_close_timeout(time_max)
            .task_queue(queues::jobs(self.context.task_queue()))
            .cancellation_token(WorkflowCancellationToken::new())
            .build()
    }

    /// The input for an agent whose worktree no worker could make or save.
    fn no_worktree(&self, agent: AgentId, error: &ActivityExecutionError) -> Input {
        let why = format!("no worker could do it: {error}");
        if self.needs(|all| all.run().worktrees.contains_key(&agent)) {
            let saved = SavedWork { head: None, problem: Some(why) };
            return Input::WorktreeSaved { agent, saved };
        }
        Input::WorktreeMade { agent, made: Err(why) }
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

/// How a step is carried out: from which task queue, and how long it may wait there.
fn step_options(
    id: &StepId,
    heartbeat: Duration,
    (queue, patience): (String, Option<Duration>),
    token: WorkflowCancellationToken,
) -> ActivityOptions {
    ActivityOptions::with_start_to_close_timeout(STEP_MAX)
        .activity_id(id.to_string())
        .maybe_schedule_to_start_timeout(patience)
        .task_queue(queue)
        .heartbeat_timeout(heartbeat)
        .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
        .cancellation_token(token)
        // The machine decides about retries.
        .retry_policy(RetryPolicy::builder().maximum_attempts(1).build())
        .build()
}

/// Whether the worker to which a step was offered has not started it: its places are taken, or it is gone.
fn is_refused(end: &Result<StepEnd, ActivityExecutionError>) -> bool {
    match end {
        Ok(end) => end.is_refused,
        Err(error) => error
            .as_timeout()
            .is_some_and(|late| late.timeout_type() == TimeoutType::ScheduleToStart),
    }
}

/// The value, or a failed workflow task: the records of a decision did not fit the run, which a fixed program decides
/// again.
fn sound<T>(value: Result<T, ApplyError>) -> T {
    value.unwrap_or_else(|error| panic!("the run is inconsistent: {error}"))
}
