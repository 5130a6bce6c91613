//! The activities: a step on this machine, and what a workflow cannot know of directories.
//!
//! The worker sends the heartbeats of a step itself, because their answers matter: each one that the server accepts
//! moves the step's deadline with its host. If the server does not know the step any more, or cannot be reached, the
//! deadline passes, and the host ends the step before another worker starts its work again. A step that a continued
//! history looks for in time is ordered again, which moves its deadline, too.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use raymond_engine::{layout::StateDir, mirror::pack_step, private};
use raymond_flow::history::InputMessage;
use serde::{Deserialize, Serialize};
use temporalio_client::{
    ActivityIdentifier, AsyncActivityHandle, Client, RpcOptions, WorkflowDescribeOptions,
    WorkflowHandle,
    errors::{AsyncActivityError, WorkflowInteractionError},
};
use temporalio_common::protos::{
    TaskToken,
    temporal::api::{enums::v1::PendingActivityState, workflow::v1::PendingActivityInfo},
};
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};

use crate::{
    commands::Talk,
    hosts::{HostError, Hosts, milliseconds},
    messages::{EndOrder, Entry, Place, PrepareOrder, StepEnd, StepOrder},
    store::Store,
    workflow::RunWorkflow,
};

/// The name of the activity that carries out a step.
const STEP: &str = "step";
/// The heartbeat timeout of a step that has none.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a host that ended is started again for the same step.
const HOST_TRIES: u32 = 5;
const HOST_INTERVAL: Duration = Duration::from_millis(200);
/// How often the directories of runs that have ended are looked for.
const TIDY_INTERVAL: Duration = Duration::from_hours(1);
/// How long to wait before the end of a step is delivered again.
const DELIVERY_INTERVAL: Duration = Duration::from_secs(1);

/// The activities of one worker.
#[derive(Clone, Debug)]
pub struct StepActivities {
    hosts: Arc<Hosts>,
    /// The name of this worker.
    name: String,
    /// Where the tokens of running steps are, for the next worker in this state directory.
    tokens: PathBuf,
    store: Store,
    /// The state directory of this worker.
    state_dir: StateDir,
    talk: Talk,
}

/// A running step as it is kept for the next worker in the same state directory.
#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    token: Vec<u8>,
    timeout_ms: u64,
    order: StepOrder,
}

/// How long the server counts on this worker for a step.
#[derive(Debug)]
struct Trust {
    /// After how long without a heartbeat the server gives the step to another worker.
    timeout: Duration,
    /// The server has heard of this worker then, or later. `None` if that is not known.
    since: Option<Instant>,
}

impl Trust {
    /// The trust in a worker that was given a step at `started` by the clock of the server. A step that was on its way for
    /// long, because this worker was frozen or without network, may be another's by now; clocks that differ count as that.
    fn begin(timeout: Duration, started: Option<SystemTime>) -> Self {
        let margin = timeout / 12;
        let is_recent = |at: &SystemTime| {
            let age = SystemTime::now().duration_since(*at);
            age.unwrap_or_else(|ahead| ahead.duration()) < margin
        };
        let since = started.filter(is_recent).and_then(|_| Instant::now().checked_sub(margin));
        Self { timeout, since }
    }

    /// How long a step may run on: less than the server waits, and the rest is for killing the child.
    fn patience(&self) -> Duration {
        self.since
            .map_or(Duration::ZERO, |since| (self.timeout * 2 / 3).saturating_sub(since.elapsed()))
    }

    /// Sends a heartbeat. Returns whether the step is cancelled; `None` if the server cannot be reached. What counts is when
    /// the heartbeat was sent: its answer may be late.
    async fn renew(
        &mut self,
        handle: &AsyncActivityHandle<Client>,
    ) -> Result<Option<bool>, AttendError> {
        let sent = Instant::now();
        match handle.heartbeat::<()>(None, RpcOptions::default()).await {
            Ok(answer) => {
                self.since = Some(sent);
                Ok(Some(answer.cancel_requested))
            }
            Err(AsyncActivityError::NotFound(_)) => Err(AttendError::Gone),
            Err(_) => Ok(None),
        }
    }
}

/// Why the end of a step is not reported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttendError {
    /// The server does not count on this worker any more.
    #[error("the step is not this worker's any more")]
    Gone,
    /// No host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// It cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl StepActivities {
    pub(crate) fn new(
        hosts: Arc<Hosts>,
        name: String,
        data_dir: &Path,
        store: Store,
        talk: Talk,
    ) -> Self {
        let state_dir = StateDir::new(data_dir);
        Self { hosts, name, tokens: data_dir.join("tokens"), store, state_dir, talk }
    }

    /// The steps whose ends are not delivered yet, and where they are noted.
    fn kept(&self) -> Vec<(PathBuf, Option<Kept>)> {
        let Ok(entries) = std::fs::read_dir(&self.tokens) else { return Vec::new() };
        let read = |path: &Path| serde_json::from_slice(&std::fs::read(path).ok()?).ok();
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        paths.map(|path| (path.clone(), read(&path))).collect()
    }

    /// Removes what runs have left on this machine, again and again. Never returns.
    pub(crate) async fn tidy(&self, age: Duration) {
        loop {
            let kept = self.kept().into_iter().filter_map(|(_, kept)| kept);
            let runs = kept.map(|kept| kept.order.run.0.id).collect();
            self.hosts.tidy(age, &runs).await;
            tokio::time::sleep(TIDY_INTERVAL).await;
        }
    }

    /// Takes over the steps that an earlier worker in the same state directory left.
    pub(crate) fn adopt(&self, client: &Client) {
        for (path, kept) in self.kept() {
            let Some(kept) = kept else {
                let _ = std::fs::remove_file(path);
                continue;
            };
            let (own, client) = (self.clone(), client.clone());
            tokio::spawn(async move {
                let handle = handle(client, kept.token);
                let timeout = Duration::from_millis(kept.timeout_ms);
                let trust = Trust { timeout, since: None };
                let id = kept.order.id.clone();
                (own.talk)(&format!("{}: found step {id} again", kept.order.run.0.id));
                // Its request may never have arrived, so it is not started again, only looked for.
                let order = StepOrder { is_started: true, ..kept.order };
                let attended = own.attend(&handle, &order, trust).await;
                if let Err(error) = own.deliver(&handle, (&order, timeout), attended).await {
                    (own.talk)(&format!("step {id}: {error}"));
                }
                let _ = std::fs::remove_file(path);
            });
        }
    }

    /// Carries out a step until it ends, for as long as the server counts on this worker.
    async fn attend(
        &self,
        handle: &AsyncActivityHandle<Client>,
        order: &StepOrder,
        mut trust: Trust,
    ) -> Result<Vec<InputMessage>, AttendError> {
        let mut tries = 0;
        loop {
            match self.attend_once(handle, order, &mut trust).await {
                Err(AttendError::Host(error)) if tries < HOST_TRIES => {
                    tries += 1;
                    (self.talk)(&format!("step {}: {error}; trying again", order.id));
                    tokio::time::sleep(HOST_INTERVAL * tries).await;
                }
                attended => return attended,
            }
        }
    }

    async fn attend_once(
        &self,
        handle: &AsyncActivityHandle<Client>,
        order: &StepOrder,
        trust: &mut Trust,
    ) -> Result<Vec<InputMessage>, AttendError> {
        while trust.patience().is_zero() {
            if trust.renew(handle).await?.is_none() {
                tokio::time::sleep(DELIVERY_INTERVAL).await;
            }
        }
        let deadline = Instant::now() + trust.patience();
        let mut step = self.hosts.step(order, deadline).await?;
        loop {
            match tokio::time::timeout(trust.timeout / 3, step.end()).await {
                Ok(end) => return end?.ok_or(AttendError::Gone),
                Err(_) => {
                    if let Some(is_cancelled) = trust.renew(handle).await? {
                        step.extend(trust.patience());
                        if is_cancelled {
                            step.cancel();
                        }
                    }
                }
            }
        }
    }

    /// Reports the end of a step, until the server has it or does not want it any more.
    async fn deliver(
        &self,
        handle: &AsyncActivityHandle<Client>,
        (order, timeout): (&StepOrder, Duration),
        attended: Result<Vec<InputMessage>, AttendError>,
    ) -> Result<(), AttendError> {
        let inputs = attended?;
        let files = self.store_files(order, timeout / 3).await;
        let end = StepEnd { inputs, worker: self.name.clone(), files };
        let end = serde_json::to_value(end)?;
        loop {
            match handle.complete(Some(end.clone()), RpcOptions::default()).await {
                Ok(()) => return Ok(()),
                Err(AsyncActivityError::NotFound(_)) => return Err(AttendError::Gone),
                // The server or the store cannot be reached; the outcome is in the step's directory.
                Err(error) => {
                    (self.talk)(&format!("the end of a step is not delivered yet: {error}"));
                }
            }
            tokio::time::sleep(DELIVERY_INTERVAL).await;
        }
    }

    /// Stores the files of a step for mirrors. Without them a mirror shows less, and the run goes on: a store that does not
    /// answer must not cost the step its heartbeats.
    async fn store_files(&self, order: &StepOrder, patience: Duration) -> Option<String> {
        let files = self.state_dir.run(&order.run.0.id);
        let id = order.id.clone();
        let packed = tokio::task::spawn_blocking(move || pack_step(&files, &id)).await.ok()?;
        let told = |error: &dyn std::fmt::Display| {
            (self.talk)(&format!("the files of step {} are not stored: {error}", order.id));
        };
        let packed = packed.inspect_err(|error| told(error)).ok()??;
        match tokio::time::timeout(patience, self.store.put(packed)).await {
            Ok(stored) => stored.inspect_err(|error| told(error)).ok(),
            Err(late) => {
                told(&late);
                None
            }
        }
    }

    fn note(&self, kept: &Kept) -> Option<PathBuf> {
        let path = self.tokens.join(uuid::Uuid::new_v4().simple().to_string());
        let json = serde_json::to_vec(kept).ok()?;
        private::create_dir_all(&self.tokens).ok()?;
        private::write(&path, json).ok()?;
        Some(path)
    }
}

fn handle(client: Client, token: Vec<u8>) -> AsyncActivityHandle<Client> {
    AsyncActivityHandle::new(client, ActivityIdentifier::from_task_token(TaskToken::from(token)))
}

/// The steps of a run that workers have.
pub(crate) async fn places(
    handle: &WorkflowHandle<Client, RunWorkflow>,
) -> Result<Vec<Place>, WorkflowInteractionError> {
    let described = handle.describe(WorkflowDescribeOptions::default()).await?;
    let pending = described.into_raw().pending_activities.into_iter();
    let started = pending.filter(|activity| {
        activity.state == PendingActivityState::Started as i32
            && activity.activity_type.as_ref().is_some_and(|kind| kind.name == STEP)
    });
    let place = |activity: PendingActivityInfo| Place {
        step: activity.activity_id,
        worker: activity.last_worker_identity,
    };
    Ok(started.map(place).collect())
}

#[activities]
impl StepActivities {
    /// Carries out a step.
    #[activity(name = STEP)]
    pub async fn step(
        self: Arc<Self>,
        context: ActivityContext,
        order: StepOrder,
    ) -> Result<StepEnd, ActivityError> {
        let token = context.info().task_token.clone();
        let timeout = context.info().heartbeat_timeout.unwrap_or(HEARTBEAT_TIMEOUT);
        let trust = Trust::begin(timeout, context.info().started_time);
        let kept = Kept { token: token.clone(), timeout_ms: milliseconds(timeout), order };
        let path = self.note(&kept);
        let handle = handle(context.client(), token);
        let attended = self.attend(&handle, &kept.order, trust).await;
        let delivered = self.deliver(&handle, (&kept.order, timeout), attended).await;
        if let Some(path) = path {
            let _ = std::fs::remove_file(path);
        }
        match delivered {
            // The SDK does not see the heartbeats of the worker, and drops what comes after its own timeout: so the end
            // is delivered without it.
            Ok(()) => Err(ActivityError::WillCompleteAsync),
            Err(error) => {
                (self.talk)(&format!("step {}: {error}", kept.order.id));
                Err(ActivityError::from(error))
            }
        }
    }

    /// The steps of this run that workers have.
    #[activity(name = "places")]
    pub async fn places(
        self: Arc<Self>,
        context: ActivityContext,
        _nothing: (),
    ) -> Result<Vec<Place>, ActivityError> {
        let Some(handle) = context.workflow_handle::<RunWorkflow>() else { return Ok(Vec::new()) };
        Ok(places(&handle).await?)
    }

    /// Ends steps on this machine, for a user who does not want to wait for their next heartbeats.
    #[activity(name = "end_steps")]
    pub async fn end_steps(
        self: Arc<Self>,
        _context: ActivityContext,
        order: EndOrder,
    ) -> Result<(), ActivityError> {
        self.hosts.end(order).await;
        Ok(())
    }

    /// Stores a part of what the run has decided. Returns its hash.
    #[activity(name = "keep")]
    pub async fn keep(
        self: Arc<Self>,
        _context: ActivityContext,
        entries: Vec<Entry>,
    ) -> Result<String, ActivityError> {
        let json = serde_json::to_vec(&entries)?;
        Ok(self.store.put(json).await?)
    }

    /// Prepares the next step of an agent where there are directories.
    #[activity(name = "prepare")]
    pub async fn prepare(
        self: Arc<Self>,
        _context: ActivityContext,
        order: PrepareOrder,
    ) -> Result<InputMessage, ActivityError> {
        let prepared = self.hosts.prepare(order).await;
        prepared.map_err(ActivityError::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_mins(1);

    #[test]
    fn step_that_was_long_on_its_way_is_not_started_before_a_heartbeat() {
        let now = SystemTime::now();
        let late = Some(now - TIMEOUT / 2);
        let clock_is_slow = Some(now + TIMEOUT / 2);
        for started in [None, late, clock_is_slow] {
            assert_eq!(Trust::begin(TIMEOUT, started).patience(), Duration::ZERO, "{started:?}");
        }
    }

    #[test]
    fn step_that_has_just_been_given_may_run_for_less_than_the_server_waits() {
        let patience = Trust::begin(TIMEOUT, Some(SystemTime::now())).patience();
        assert!(patience > TIMEOUT / 3, "longer than until the first heartbeat: {patience:?}");
        assert!(patience < TIMEOUT * 2 / 3, "{patience:?}");
    }
}
