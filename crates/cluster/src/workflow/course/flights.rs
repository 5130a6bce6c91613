//! What a run waits for: its steps, preparations, worktrees and timers, as activities and timers of Temporal.

use std::time::Duration;

use futures::{FutureExt as _, future::LocalBoxFuture};
use raymond_flow::{
    id::{AgentId, AskId, SessionId, StepId},
    machine::{Input, SavedWork, SessionPlan},
};
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, TimeoutType, TimerOptions,
    WorkflowCancellationToken,
};
use temporalio_workflow::RetryPolicy;

use super::Course;
use crate::{
    activities::StepActivities,
    messages::{EndOrder, Home, PrepareOrder, StepEnd, StepOrder, WorktreeOrder},
    queues,
};

/// No step takes longer; its own timeout is for silence.
const STEP_MAX: Duration = Duration::from_hours(24 * 30);
/// How long a preparation may take.
pub(super) const PREPARE_MAX: Duration = Duration::from_mins(2);
/// How long the next turn of a session waits for the worker that has it. One that is busy refuses at once.
const OFFER_MAX: Duration = Duration::from_secs(5);
/// How long it may take to ask the server which steps workers have. A worker that is frozen may have the question.
pub(super) const ASK_MAX: Duration = Duration::from_secs(20);
/// How long git may take for a worktree: checking out a large repository over a slow disk.
const GIT_MAX: Duration = Duration::from_mins(30);

/// Something that the run waited for.
pub(super) enum Arrival {
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
    Ending,
}

pub(super) type Flight = LocalBoxFuture<'static, Arrival>;

impl Course {
    /// Tells a worker to end its steps. The cancelled tokens say the same with the next heartbeat of each step, so a worker
    /// that is not told learns it, too.
    pub(super) fn end_on(&self, worker: &str) {
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
                Arrival::Ending
            }
            .boxed_local(),
        );
    }

    pub(super) fn timer(&self, delay: Duration, arrival: Arrival) {
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
    pub(super) fn launch_allowed(&mut self) {
        if self.cut.is_some() {
            return;
        }
        while let Some(id) = self.step_queue.next() {
            self.launch(id);
        }
        if let Some(interval) = self.step_queue.begin_look() {
            self.timer(interval, Arrival::Look);
        }
    }

    /// Finds out which steps no worker has.
    pub(super) fn look(&self) {
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
        let (sessions, checkout) =
            self.needs(|all| (all.stored_sessions(&id), all.checkout(&id.agent)));
        let token = WorkflowCancellationToken::new();
        self.steps.insert(id.clone(), token.clone());
        let order = StepOrder {
            id: id.clone(),
            run: self.excerpt(&id.agent),
            bundle: self.terms.bundle.clone(),
            is_started: found.is_some(),
            sessions,
            checkout,
        };
        let heartbeat = Duration::from_millis(self.terms.heartbeat_ms);
        let labels = self.needs(|all| all.labels(&id));
        let common = self.context.task_queue();
        let own = |worker: &str, patience: Duration| (queues::own(common, worker), Some(patience));
        let offer = self.home(&id, &labels).filter(|_| found.is_none()).map(|home| {
            let queue = own(&home.worker, OFFER_MAX);
            step_options(&id, heartbeat, queue, token.clone())
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
                if let Some(options) = offer {
                    let order = order.clone();
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
    pub(super) fn session(&self, id: &StepId) -> Option<SessionId> {
        Some(match self.needs(|all| all.plan(id).cloned())? {
            SessionPlan::Fresh { id } | SessionPlan::Resume { id } => id,
            SessionPlan::Branch { from, .. } => from,
        })
    }

    /// The worker that has the session of a turn, if it also has the labels that the turn needs.
    fn home(&self, id: &StepId, labels: &[String]) -> Option<&Home> {
        let session = self.session(id)?;
        self.homes.of(&session, labels)
    }

    /// The workers of the sessions that agents may go on with.
    pub(in crate::workflow) fn homes(&self) -> Vec<(SessionId, Home)> {
        let sessions = self.needs(|all| {
            all.run().agents.keys().flat_map(|agent| all.sessions(agent)).collect::<Vec<_>>()
        });
        let going_on = self.steps.keys().filter_map(|id| self.session(id));
        self.homes.among(sessions.into_iter().chain(going_on))
    }

    pub(super) fn prepare(&self, agent: AgentId, fresh: SessionId) {
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
                Arrival::Prepared(agent, prepared)
            }
            .boxed_local(),
        );
    }

    /// Makes or saves the next worktree, on any worker: all see the directory.
    pub(super) fn start_git(&mut self) {
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
                Arrival::Worktree(agent, done)
            }
            .boxed_local(),
        );
    }

    /// How a job is carried out that is not a step: a user who cancels the run does not cancel it.
    pub(super) fn job(&self, time_max: Duration) -> ActivityOptions {
        ActivityOptions::with_start_to_close_timeout(time_max)
            .task_queue(queues::jobs(self.context.task_queue()))
            .cancellation_token(WorkflowCancellationToken::new())
            .build()
    }

    /// The input for an agent whose worktree no worker could make or save.
    pub(super) fn no_worktree(&self, agent: AgentId, error: &ActivityExecutionError) -> Input {
        let why = format!("no worker could do it: {error}");
        if self.needs(|all| all.run().worktrees.contains_key(&agent)) {
            let saved = SavedWork { head: None, problem: Some(why) };
            return Input::WorktreeSaved { agent, saved };
        }
        Input::WorktreeMade { agent, made: Err(why) }
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
