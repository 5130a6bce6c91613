//! The activities: a step on this machine, and what a workflow cannot know of directories.
//!
//! The worker sends the heartbeats of a step itself, because their answers matter: each one that the server accepts
//! moves the step's deadline with its host. If the server does not know the step any more, or cannot be reached, the
//! deadline passes, and the host ends the step before another worker starts its work again. A step that a continued
//! history looks for in time is ordered again, which moves its deadline, too.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use raymond_engine::{
    host::Mapping, layout::StateDir, mirror::pack_step, private, worktree::work_for,
};
use raymond_flow::{
    history::InputMessage,
    machine::{Action, Run, Step},
    snapshot::RunMessage,
};
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
    checkouts::{CheckoutError, Places, blocking},
    commands::Talk,
    hosts::{HostError, Hosts},
    messages::{
        EndOrder, Entry, Place, PrepareOrder, StepEnd, StepOrder, StoredCheckout, StoredSession,
        WorktreeOrder,
    },
    sessions::{self, SessionError},
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
    places: Places,
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

/// Why the end of a step is not reported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AttendError {
    /// The server does not count on this worker any more.
    #[error("the step is not this worker's any more")]
    Gone,
    /// No host.
    #[error(transparent)]
    Host(#[from] HostError),
    /// A session of a coding agent cannot be brought here.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A checkout cannot be brought here or kept.
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
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
        let places = Places::new(store.clone(), data_dir.join("checkouts"));
        let state_dir = StateDir::new(data_dir);
        Self { hosts, name, tokens: data_dir.join("tokens"), store, places, state_dir, talk }
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
            let runs: Vec<Run> = kept.map(|kept| kept.order.run.0).collect();
            self.hosts.tidy(age, &runs.iter().map(|run| run.id.clone()).collect()).await;
            let identities = runs.into_iter().map(|run| run.identity).collect();
            if let Err(error) = self.places.tidy(age, identities).await {
                (self.talk)(&format!("old checkouts cannot be removed: {error}"));
            }
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
                let id = kept.order.id.clone();
                (own.talk)(&format!("{}: found step {id} again", kept.order.run.0.id));
                // Its request may never have arrived, so it is not started again, only looked for.
                let order = StepOrder { is_started: true, ..kept.order };
                let attended = own.attend(&handle, &order, timeout).await;
                if let Err(error) = own.deliver(&handle, attended).await {
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
        timeout: Duration,
    ) -> Result<StepEnd, AttendError> {
        let mut tries = 0;
        // What a step needs is brought before it starts, never while it runs.
        let mut is_ready = order.is_started;
        loop {
            match self.attend_once(handle, order, timeout, &mut is_ready).await {
                Err(
                    error @ (AttendError::Host(_)
                    | AttendError::Session(_)
                    | AttendError::Checkout(_)),
                ) if tries < HOST_TRIES => {
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
        timeout: Duration,
        is_ready: &mut bool,
    ) -> Result<StepEnd, AttendError> {
        // The deadline passes before the server gives the step to another worker, however long before its end the last
        // heartbeat was; the rest is for killing the child.
        let (interval, patience) = (timeout / 3, timeout * 2 / 3);
        if !*is_ready {
            beating(handle, interval, |_| {}, self.bring(order)).await??;
            *is_ready = true;
        }
        let (step, end) = self.hosts.step(order, patience, self.mapping(order)).await?;
        let extend = |is_cancelled| {
            step.extend();
            if is_cancelled {
                step.cancel();
            }
        };
        let inputs = beating(handle, interval, extend, end.wait()).await??;
        let inputs = inputs.ok_or(AttendError::Gone)?;
        let session = beating(handle, interval, |_| {}, self.keep_session(order)).await?;
        let checkout = beating(handle, interval, |_| {}, self.keep_checkout(order)).await??;
        let files = beating(handle, interval, |_| {}, self.store_files(order, interval)).await?;
        Ok(StepEnd { inputs, worker: self.name.clone(), files, session, checkout })
    }

    /// Brings to this machine what a step needs.
    async fn bring(&self, order: &StepOrder) -> Result<(), AttendError> {
        if let Some(checkout) = &order.checkout {
            self.places.bring(&order.run.0, &order.id.agent, checkout).await?;
        }
        if order.sessions.is_empty() {
            return Ok(());
        }
        for place in self.hosts.locate(order, self.mapping(order)).await? {
            if let Some(files) = order.sessions.get(&place.session) {
                sessions::put_back(&self.store, &place, files).await?;
            }
        }
        Ok(())
    }

    /// What the paths of the run mean for the agent of a step on this machine.
    fn mapping(&self, order: &StepOrder) -> Option<Mapping> {
        let checkout = order.checkout.as_ref()?;
        Some(self.places.mapping(&order.run.0, &order.id.agent, checkout))
    }

    /// Commits and stores what a step has left in its checkout. If the store cannot be reached, it is tried until it can.
    async fn keep_checkout(
        &self,
        order: &StepOrder,
    ) -> Result<Option<StoredCheckout>, AttendError> {
        let Some(checkout) = &order.checkout else { return Ok(None) };
        loop {
            match self.places.keep(&order.run.0, &order.id.agent, checkout).await {
                Err(error @ CheckoutError::Store(_)) => {
                    (self.talk)(&format!(
                        "the work of step {} is not stored yet: {error}",
                        order.id
                    ));
                }
                kept => return Ok(Some(kept?)),
            }
            tokio::time::sleep(DELIVERY_INTERVAL).await;
        }
    }

    /// Stores the session of a turn that has ended, for its next turn on whichever worker. Tries until it is stored: the
    /// answer is paid for, and without the session the next turn would not know of it.
    async fn keep_session(&self, order: &StepOrder) -> Option<StoredSession> {
        let RunMessage(run) = &order.run;
        let step = run.running_step(&order.id);
        let Some((_, Step { action: Action::Turn(_), .. })) = step else { return None };
        loop {
            let stored = async {
                let places = self.hosts.locate(order, self.mapping(order)).await?;
                let Some(place) = places.first() else { return Ok(None) };
                let files = sessions::put(&self.store, place).await?;
                let id = place.session.clone();
                Ok::<_, AttendError>(files.map(|files| StoredSession { id, files }))
            };
            match stored.await {
                Ok(stored) => return stored,
                Err(AttendError::Session(error @ SessionError::TooMany { .. })) => {
                    (self.talk)(&format!("step {}: {error}, and stays on this worker", order.id));
                    return None;
                }
                Err(error) => {
                    let id = &order.id;
                    (self.talk)(&format!("the session of step {id} is not stored yet: {error}"));
                }
            }
            tokio::time::sleep(DELIVERY_INTERVAL).await;
        }
    }

    /// Reports the end of a step, until the server has it or does not want it any more.
    async fn deliver(
        &self,
        handle: &AsyncActivityHandle<Client>,
        attended: Result<StepEnd, AttendError>,
    ) -> Result<(), AttendError> {
        let end = serde_json::to_value(attended?)?;
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

/// Does `work`, and sends a heartbeat in every interval until it is done. `beat` is called after each one that the server
/// has accepted, with whether the step is to be cancelled.
async fn beating<T>(
    handle: &AsyncActivityHandle<Client>,
    interval: Duration,
    beat: impl Fn(bool),
    work: impl Future<Output = T>,
) -> Result<T, AttendError> {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(interval, &mut work).await {
            Ok(done) => return Ok(done),
            Err(_) => match handle.heartbeat::<()>(None, RpcOptions::default()).await {
                Ok(answer) => beat(answer.cancel_requested),
                Err(AsyncActivityError::NotFound(_)) => return Err(AttendError::Gone),
                // The server cannot be reached: the deadline stays, and perhaps passes.
                Err(_) => {}
            },
        }
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
        let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let kept = Kept { token: token.clone(), timeout_ms, order };
        let path = self.note(&kept);
        let handle = handle(context.client(), token);
        let attended = self.attend(&handle, &kept.order, timeout).await;
        let delivered = self.deliver(&handle, attended).await;
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

    /// Makes or saves the worktree of an agent in the shared working directory.
    #[activity(name = "worktree")]
    pub async fn worktree(
        self: Arc<Self>,
        _context: ActivityContext,
        order: WorktreeOrder,
    ) -> Result<InputMessage, ActivityError> {
        let WorktreeOrder { run: RunMessage(run), agent } = order;
        let done = blocking(move || work_for(&run, &agent)).await?;
        let done = done.ok_or_else(|| std::io::Error::other("the run wants no worktree here"))?;
        Ok(done.into())
    }

    /// Prepares the next step of an agent where there are directories.
    #[activity(name = "prepare")]
    pub async fn prepare(
        self: Arc<Self>,
        _context: ActivityContext,
        order: PrepareOrder,
    ) -> Result<InputMessage, ActivityError> {
        let mut mapping = None;
        if let Some(checkout) = &order.checkout {
            self.places.bring(&order.run.0, &order.agent, checkout).await?;
            mapping = Some(self.places.mapping(&order.run.0, &order.agent, checkout));
        }
        let prepared = self.hosts.prepare(order, mapping).await;
        prepared.map_err(ActivityError::from)
    }
}
