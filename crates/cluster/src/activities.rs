//! The activities: a step on this machine, and what a workflow cannot know of directories.

mod attend;
mod lease;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use raymond_engine::{store::layout::StateDir, worktree::work_for};
use raymond_flow::machine::Input;
use temporalio_client::{
    ActivityIdentifier, AsyncActivityHandle, Client, WorkflowDescribeOptions, WorkflowHandle,
    errors::WorkflowInteractionError,
};
use temporalio_common::protos::{
    TaskToken,
    temporal::api::{enums::v1::PendingActivityState, workflow::v1::PendingActivityInfo},
};
use temporalio_macros::activities;
use temporalio_sdk::activities::{ActivityContext, ActivityError};

use self::{attend::Kept, lease::Lease};
use crate::{
    capacity::{Capacity, Slots},
    checkouts::{Places, blocking},
    commands::Talk,
    hosts::{Hosts, milliseconds},
    messages::{EndOrder, Entry, Home, Place, PrepareOrder, StepEnd, StepOrder, WorktreeOrder},
    store::Store,
    workflow::RunWorkflow,
};

/// The name of the activity that carries out a step.
const STEP: &str = "step";
/// The heartbeat timeout of an activity that has none.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(1);

/// The activities of one worker.
#[derive(Clone, Debug)]
pub struct StepActivities {
    hosts: Arc<Hosts>,
    /// This worker.
    home: Home,
    /// Where the tokens of running steps are, for the next worker in this state directory.
    tokens: PathBuf,
    capacity: Capacity,
    /// Those of the queue that this is for, if its steps wait for places.
    slots: Option<Slots>,
    store: Store,
    places: Places,
    /// The state directory of this worker.
    state_dir: StateDir,
    talk: Talk,
}

impl StepActivities {
    pub(crate) fn new(
        hosts: Arc<Hosts>,
        home: Home,
        data_dir: &Path,
        store: Store,
        capacity: Capacity,
        talk: Talk,
    ) -> Self {
        let places = Places::new(store.clone(), data_dir.join("checkouts"));
        let state_dir = StateDir::new(data_dir);
        let tokens = data_dir.join("tokens");
        Self { hosts, home, tokens, capacity, slots: None, store, places, state_dir, talk }
    }

    /// The same for a queue with these slots.
    pub(crate) fn with_slots(&self, slots: Slots) -> Self {
        Self { slots: Some(slots), ..self.clone() }
    }
}

fn handle(client: Client, token: Vec<u8>) -> AsyncActivityHandle<Client> {
    AsyncActivityHandle::new(client, ActivityIdentifier::from_task_token(TaskToken::from(token)))
}

/// The activity that this worker was given, and its lease.
fn held(context: &ActivityContext) -> (AsyncActivityHandle<Client>, Lease) {
    let info = context.info();
    let timeout = info.heartbeat_timeout.filter(|timeout| !timeout.is_zero());
    let lease = Lease::begin(timeout.unwrap_or(HEARTBEAT_TIMEOUT), info.started_time);
    (handle(context.client(), info.task_token.clone()), lease)
}

/// The steps of a run that workers have.
pub(crate) async fn places(
    handle: &WorkflowHandle<Client, RunWorkflow>,
) -> Result<Vec<Place>, WorkflowInteractionError> {
    let started = pending_steps(handle).await?.into_iter().filter(is_started);
    let place = |activity: PendingActivityInfo| Place {
        step: activity.activity_id,
        worker: activity.last_worker_identity,
    };
    Ok(started.map(place).collect())
}

/// The steps of a run that the server has.
async fn pending_steps(
    handle: &WorkflowHandle<Client, RunWorkflow>,
) -> Result<Vec<PendingActivityInfo>, WorkflowInteractionError> {
    let described = handle.describe(WorkflowDescribeOptions::default()).await?;
    let pending = described.into_raw().pending_activities.into_iter();
    let is_step = |activity: &PendingActivityInfo| {
        activity.activity_type.as_ref().is_some_and(|kind| kind.name == STEP)
    };
    Ok(pending.filter(is_step).collect())
}

fn is_started(activity: &PendingActivityInfo) -> bool {
    activity.state == PendingActivityState::Started as i32
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
        let (handle, lease) = held(&context);
        let held = self.slots.as_ref().map(Slots::hold);
        let place = if order.is_started {
            Some(self.capacity.take_over())
        } else {
            self.capacity.try_take()
        };
        if let Some(place) = place {
            let kept = Kept { token, timeout_ms: milliseconds(lease.timeout), order };
            let path = self.note(&kept);
            let own = StepActivities::clone(&self);
            tokio::spawn(own.run_and_report((handle, lease), kept, path, place));
        } else {
            // Before the slot is released: otherwise this worker would poll for the same step again and again.
            let refused = StepEnd { is_refused: true, ..self.step_end(Vec::new()) };
            let _ = self.deliver(&handle, Ok(refused)).await;
        }
        if let Some(held) = held {
            held.release().await;
        }
        Err(ActivityError::WillCompleteAsync)
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

    /// The steps of this run that no worker has, by their displayed ids.
    #[activity(name = "queued")]
    pub async fn queued(
        self: Arc<Self>,
        context: ActivityContext,
        _nothing: (),
    ) -> Result<Vec<String>, ActivityError> {
        let Some(handle) = context.workflow_handle::<RunWorkflow>() else { return Ok(Vec::new()) };
        let steps = pending_steps(&handle).await?;
        let queued = steps.into_iter().filter(|step| !is_started(step));
        Ok(queued.map(|step| step.activity_id).collect())
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

    /// Makes or saves the worktree of an agent in the shared working directory.
    #[activity(name = "worktree")]
    pub async fn worktree(
        self: Arc<Self>,
        context: ActivityContext,
        order: WorktreeOrder,
    ) -> Result<Input, ActivityError> {
        let WorktreeOrder { run, agent } = order;
        let work = blocking(move || work_for(&run, &agent));
        let (handle, mut lease) = held(&context);
        // Without heartbeats another worker does the same, long before the time of the job is up.
        let done = lease.beating(&handle, |_, _| true, work).await??;
        Ok(done.ok_or_else(|| std::io::Error::other("the run wants no worktree here"))?)
    }

    /// Prepares the next step of an agent where there are directories.
    #[activity(name = "prepare")]
    pub async fn prepare(
        self: Arc<Self>,
        _context: ActivityContext,
        order: PrepareOrder,
    ) -> Result<Input, ActivityError> {
        let mut mapping = None;
        if let Some(checkout) = &order.checkout {
            self.places.bring(&order.run, &order.agent, checkout).await?;
            mapping = Some(self.places.mapping(&order.run, &order.agent, checkout));
        }
        let prepared = self.hosts.prepare(order, mapping).await;
        prepared.map_err(ActivityError::from)
    }
}
