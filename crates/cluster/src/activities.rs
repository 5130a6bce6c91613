//! The activities: a step on this machine, and what a workflow cannot know of directories.
//!
//! The worker sends the heartbeats of a step itself, because their answers matter: each one that the server accepts
//! moves the step's deadline with its host. If the server does not know the step any more, or cannot be reached, the
//! deadline passes, and the host ends the step before another worker starts its work again. A step that a continued
//! history looks for in time is ordered again, which moves its deadline, too.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use raymond_engine::{
    exec::host::Mapping,
    run::mirror::{pack_step, unpack_folder},
    store::layout::StateDir,
    trust::private,
    worktree::work_for,
};
use raymond_flow::{
    machine::{Action, Conclusion, Input, Run, Step},
    policy::Transition,
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
use temporalio_sdk::{
    ApplicationFailure,
    activities::{ActivityContext, ActivityError},
};

use crate::{
    capacity::{Capacity, Slots, Taken},
    checkouts::{CheckoutError, Places, blocking},
    commands::Talk,
    hosts::{HostError, Hosts, milliseconds},
    messages::{
        EndOrder, Entry, Home, Place, PrepareOrder, STORED, StepEnd, StepOrder, StoredCheckout,
        StoredSession, WorktreeOrder,
    },
    sessions::{self, SessionError},
    store::{Store, StoreError},
    workflow::RunWorkflow,
};

/// The name of the activity that carries out a step.
const STEP: &str = "step";
/// The heartbeat timeout of a step that has none.
const HEARTBEAT_TIMEOUT: Duration = Duration::from_mins(1);
/// How often a host that ended is started again for the same step.
const HOST_TRIES: u32 = 5;
const HOST_INTERVAL: Duration = Duration::from_millis(200);
/// How long to wait before the store is asked again.
const STORE_INTERVAL: Duration = Duration::from_secs(2);
/// How often the directories of runs that have ended are looked for.
const TIDY_INTERVAL: Duration = Duration::from_hours(1);
/// How long to wait before the end of a step is delivered again.
const DELIVERY_INTERVAL: Duration = Duration::from_secs(1);

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

    /// Waits for something before a step is started, with heartbeats meanwhile. Gives up when the step is cancelled.
    async fn keep<T>(
        &mut self,
        handle: &AsyncActivityHandle<Client>,
        wanted: impl Future<Output = T>,
    ) -> Result<T, AttendError> {
        self.beating(handle, |_, is_cancelled| !is_cancelled, wanted).await
    }

    /// Does `work`, with heartbeats until it is done. `beat` is called after each one that the server has accepted, with the new
    /// patience and whether the step is to be cancelled, and says whether to go on. A server that cannot be reached
    /// may come back before the timeout.
    async fn beating<T>(
        &mut self,
        handle: &AsyncActivityHandle<Client>,
        beat: impl Fn(Duration, bool) -> bool,
        work: impl Future<Output = T>,
    ) -> Result<T, AttendError> {
        let mut work = std::pin::pin!(work);
        loop {
            if let Ok(done) = tokio::time::timeout(self.timeout / 3, &mut work).await {
                return Ok(done);
            }
            if let Some(is_cancelled) = self.renew(handle).await?
                && !beat(self.patience(), is_cancelled)
            {
                return Err(AttendError::Gone);
            }
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
    /// A session of a coding agent cannot be brought here.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// A checkout cannot be brought here or kept.
    #[error(transparent)]
    Checkout(#[from] CheckoutError),
    /// The files of an answer are not in the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// They cannot be written here.
    #[error("cannot write the files of an answer: {0}")]
    Io(#[from] std::io::Error),
    /// It cannot be written as JSON.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

impl AttendError {
    /// Whether the store is down, and may come back.
    fn is_transient(&self) -> bool {
        match self {
            Self::Host(error) => error.is_transient(),
            Self::Store(error)
            | Self::Session(SessionError::Store(error))
            | Self::Checkout(CheckoutError::Store(error)) => error.is_transient(),
            _ => false,
        }
    }
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
            let runs: Vec<Run> = kept.map(|kept| kept.order.run).collect();
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
            (self.talk)(&format!("{}: found step {} again", kept.order.run.id, kept.order.id));
            // Its request may never have arrived, so it is not started again, only looked for.
            let order = StepOrder { is_started: true, ..kept.order };
            let kept = Kept { order, ..kept };
            let handle = handle(client.clone(), kept.token.clone());
            let trust = Trust { timeout: Duration::from_millis(kept.timeout_ms), since: None };
            let taken = self.capacity.take_over();
            tokio::spawn(self.clone().see_through((handle, trust), kept, Some(path), taken));
        }
    }

    /// Carries out a step, and reports its end. The SDK takes no part: it does not see the heartbeats of the worker, and
    /// would drop an end that comes after its own timeout.
    async fn see_through(
        self,
        (handle, trust): (AsyncActivityHandle<Client>, Trust),
        kept: Kept,
        path: Option<PathBuf>,
        _taken: Taken,
    ) {
        let attended = self.attend(&handle, &kept.order, trust).await;
        if let Err(error) = self.deliver(&handle, attended).await {
            (self.talk)(&format!("step {}: {error}", kept.order.id));
            // If the server still counts on this worker, it learns that it should not.
            let failure = ApplicationFailure::new(error);
            let _ = handle.fail::<_, ()>(failure, None, RpcOptions::default()).await;
        }
        if let Some(path) = path {
            let _ = std::fs::remove_file(path);
        }
    }

    /// Carries out a step until it ends, for as long as the server counts on this worker.
    async fn attend(
        &self,
        handle: &AsyncActivityHandle<Client>,
        order: &StepOrder,
        mut trust: Trust,
    ) -> Result<StepEnd, AttendError> {
        let mut tries = 0;
        // What a step needs is brought before it starts, never while it runs.
        let mut is_ready = order.is_started;
        loop {
            let wait = match self.attend_once(handle, order, &mut trust, &mut is_ready).await {
                // The step waits for as long as the store is down and the server counts on this worker.
                Err(error) if error.is_transient() => {
                    (self.talk)(&format!("step {} waits for the store: {error}", order.id));
                    STORE_INTERVAL
                }
                Err(
                    error @ (AttendError::Host(_)
                    | AttendError::Session(_)
                    | AttendError::Checkout(_)),
                ) if tries < HOST_TRIES => {
                    tries += 1;
                    (self.talk)(&format!("step {}: {error}; trying again", order.id));
                    HOST_INTERVAL * tries
                }
                attended => return attended,
            };
            trust.keep(handle, tokio::time::sleep(wait)).await?;
        }
    }

    /// The order, with the files of the answer that its step follows on this machine.
    async fn with_files<'a>(
        &self,
        order: &'a StepOrder,
    ) -> Result<Cow<'a, StepOrder>, AttendError> {
        let run = &order.run;
        let response = run.agents.get(&order.id.agent).and_then(|agent| agent.response.as_ref());
        let files = response.and_then(|response| response.files.as_deref());
        let is_hash = |hash: &&str| hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let hash = files.and_then(|files| files.strip_prefix(STORED)).filter(is_hash);
        let Some(hash) = hash else { return Ok(Cow::Borrowed(order)) };
        let folder = self.state_dir.run(&run.id).folder.join("answers").join(hash);
        if !folder.is_dir() {
            unpack_folder(&self.store.get(hash).await?, &folder)?;
        }
        let mut own = order.clone();
        let agent = own.run.agents.get_mut(&order.id.agent);
        if let Some(response) = agent.and_then(|agent| agent.response.as_mut()) {
            response.files = Some(folder.to_string_lossy().into_owned());
        }
        Ok(Cow::Owned(own))
    }

    async fn attend_once(
        &self,
        handle: &AsyncActivityHandle<Client>,
        order: &StepOrder,
        trust: &mut Trust,
        is_ready: &mut bool,
    ) -> Result<StepEnd, AttendError> {
        if !*is_ready {
            trust.keep(handle, self.bring(order)).await??;
            *is_ready = true;
        }
        let order = &*trust.keep(handle, self.with_files(order)).await??;
        trust.keep(handle, self.hosts.ready(order)).await??;
        while trust.patience().is_zero() {
            if trust.renew(handle).await?.is_none() {
                tokio::time::sleep(DELIVERY_INTERVAL).await;
            }
        }
        let mapping = self.mapping(order);
        let (step, end) = self.hosts.step(order, trust.patience(), mapping).await?;
        let extend = |patience, is_cancelled| {
            step.extend(patience);
            if is_cancelled {
                step.cancel();
            }
            true
        };
        let inputs = trust.beating(handle, extend, end.wait()).await??;
        let inputs = inputs.ok_or(AttendError::Gone)?;
        let inputs: Vec<_> = inputs.into_iter().map(Input::from).collect();
        // It has ended: a cancel comes too late.
        let ended = |_, _| true;
        let session = trust.beating(handle, ended, self.keep_session(order)).await?;
        // This may wait for space on the disk, and then whoever cancels it does not.
        let waits = |_, is_cancelled: bool| !is_cancelled;
        let checkout = trust.beating(handle, waits, self.keep_checkout(order)).await??;
        let patience = trust.timeout / 3;
        let stored = self.store_files(order, shown(&inputs), patience);
        let files = trust.beating(handle, ended, stored).await?;
        Ok(StepEnd { files, session, checkout, ..self.step_end(inputs) })
    }

    /// Brings to this machine what a step needs.
    async fn bring(&self, order: &StepOrder) -> Result<(), AttendError> {
        if let Some(checkout) = &order.checkout {
            self.places.bring(&order.run, &order.id.agent, checkout).await?;
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
        Some(self.places.mapping(&order.run, &order.id.agent, checkout))
    }

    /// Commits and stores what a step has left in its checkout. If the store cannot be reached or the disk is full, it is
    /// tried again and again: the turn is paid for.
    async fn keep_checkout(
        &self,
        order: &StepOrder,
    ) -> Result<Option<StoredCheckout>, AttendError> {
        let Some(checkout) = &order.checkout else { return Ok(None) };
        loop {
            match self.places.keep(&order.run, &order.id.agent, checkout).await {
                Err(error) if self.places.may_pass(&error) => {
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
        let run = &order.run;
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
                Err(AttendError::Session(error @ SessionError::TooLarge { .. })) => {
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
            // If only the store is down, the server still counts on this worker.
            if let Err(AsyncActivityError::NotFound(_)) =
                handle.heartbeat::<()>(None, RpcOptions::default()).await
            {
                return Err(AttendError::Gone);
            }
        }
    }

    fn step_end(&self, inputs: Vec<Input>) -> StepEnd {
        let Home { worker, labels } = self.home.clone();
        StepEnd {
            inputs,
            worker,
            labels,
            is_refused: false,
            files: None,
            session: None,
            checkout: None,
        }
    }

    /// Stores the files of a step, and those that its question shows, for mirrors. Without them a mirror shows less, and the run goes on: a store that does not
    /// answer must not cost the step its heartbeats.
    async fn store_files(
        &self,
        order: &StepOrder,
        shown: Vec<String>,
        patience: Duration,
    ) -> Option<String> {
        let run = &order.run;
        let (files, id) = (self.state_dir.run(&run.id), order.id.clone());
        let cwd = &run.agents.get(&id.agent)?.cwd;
        let cwd = self.mapping(order).map_or_else(|| cwd.clone(), |mapping| mapping.real(cwd));
        let cwd = PathBuf::from(cwd);
        let pack = move || pack_step(&files, &id, (&cwd, &shown));
        let packed = tokio::task::spawn_blocking(pack).await.ok()?;
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

/// Does a job, with heartbeats until it is done: without them another worker does it again, long before its time is up.
/// Sent by the worker itself, because the SDK would hold most of them back.
async fn beating<T>(context: &ActivityContext, work: impl Future<Output = T>) -> T {
    let timeout = context.info().heartbeat_timeout.filter(|timeout| !timeout.is_zero());
    let interval = timeout.unwrap_or(HEARTBEAT_TIMEOUT) / 3;
    let handle = handle(context.client(), context.info().task_token.clone());
    let mut work = std::pin::pin!(work);
    loop {
        if let Ok(done) = tokio::time::timeout(interval, &mut work).await {
            return done;
        }
        // If another worker has the job now, what this one does is refused.
        let _ = handle.heartbeat::<()>(None, RpcOptions::default()).await;
    }
}

/// The files that the question shows with which a step has ended.
fn shown(inputs: &[Input]) -> Vec<String> {
    let attached = |input: &Input| match input {
        Input::Ended {
            conclusion: Conclusion::Follow { transition: Transition::Ask(question), .. },
            ..
        } => question.attach.clone(),
        _ => Vec::new(),
    };
    inputs.iter().flat_map(attached).collect()
}

fn handle(client: Client, token: Vec<u8>) -> AsyncActivityHandle<Client> {
    AsyncActivityHandle::new(client, ActivityIdentifier::from_task_token(TaskToken::from(token)))
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
        let timeout = context.info().heartbeat_timeout.unwrap_or(HEARTBEAT_TIMEOUT);
        let mut trust = Trust::begin(timeout, context.info().started_time);
        let handle = handle(context.client(), token.clone());
        let held = self.slots.as_ref().map(Slots::hold);
        let place = if order.is_started {
            Some(self.capacity.take_over())
        } else if order.is_offer || order.may_refuse {
            self.capacity.try_take()
        } else {
            // A run of an earlier program, which does not launch a refused step again.
            Some(trust.keep(&handle, self.capacity.take()).await?)
        };
        if let Some(place) = place {
            let kept = Kept { token, timeout_ms: milliseconds(timeout), order };
            let path = self.note(&kept);
            let own = StepActivities::clone(&self);
            tokio::spawn(own.see_through((handle, trust), kept, path, place));
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
        let done = beating(&context, work).await?;
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
