//! A step on this machine, from its order to the end that the server has.
//!
//! If the server does not know the step any more, or cannot be reached, the lease ends, and the host ends the step before
//! another worker starts its work again. A step that a continued history looks for in time is ordered again, which extends
//! its lease, too.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    time::Duration,
};

use raymond_engine::{
    exec::host::Mapping,
    run::mirror::{pack_step, unpack_folder},
    trust::private,
};
use raymond_flow::{
    machine::{Action, Conclusion, Input, Run, Step},
    policy::Transition,
};
use serde::{Deserialize, Serialize};
use temporalio_client::{AsyncActivityHandle, Client, RpcOptions, errors::AsyncActivityError};
use temporalio_sdk::ApplicationFailure;

use super::{
    StepActivities, handle,
    lease::{Gone, Lease},
};
use crate::{
    capacity::Taken,
    checkouts::CheckoutError,
    hosts::HostError,
    messages::{Home, STORED, StepEnd, StepOrder, StoredCheckout, StoredSession},
    sessions::{self, SessionError},
    store::StoreError,
};

/// How often a host that ended is started again for the same step.
const HOST_TRIES: u32 = 5;
const HOST_INTERVAL: Duration = Duration::from_millis(200);
/// How long to wait before the store is asked again.
const STORE_INTERVAL: Duration = Duration::from_secs(2);
/// How often the directories of runs that have ended are looked for.
const TIDY_INTERVAL: Duration = Duration::from_hours(1);
/// How long to wait before the end of a step is delivered again.
const DELIVERY_INTERVAL: Duration = Duration::from_secs(1);

/// A running step as it is kept for the next worker in the same state directory.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) token: Vec<u8>,
    pub(super) timeout_ms: u64,
    pub(super) order: StepOrder,
}

/// Why the end of a step is not reported.
#[derive(Debug, thiserror::Error)]
pub(super) enum AttendError {
    /// The server does not count on this worker any more.
    #[error(transparent)]
    Gone(#[from] Gone),
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
            let lease = Lease { timeout: Duration::from_millis(kept.timeout_ms), since: None };
            let taken = self.capacity.take_over();
            tokio::spawn(self.clone().run_and_report((handle, lease), kept, Some(path), taken));
        }
    }

    /// Carries out a step, and reports its end. The SDK takes no part: it does not see the heartbeats of the worker, and
    /// would drop an end that comes after its own timeout.
    pub(super) async fn run_and_report(
        self,
        (handle, lease): (AsyncActivityHandle<Client>, Lease),
        kept: Kept,
        path: Option<PathBuf>,
        _taken: Taken,
    ) {
        let attended = self.attend(&handle, &kept.order, lease).await;
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
        mut lease: Lease,
    ) -> Result<StepEnd, AttendError> {
        let mut tries = 0;
        // What a step needs is brought before it starts, never while it runs.
        let mut is_ready = order.is_started;
        loop {
            let wait = match self.attend_once(handle, order, &mut lease, &mut is_ready).await {
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
            lease.keep(handle, tokio::time::sleep(wait)).await?;
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
        lease: &mut Lease,
        is_ready: &mut bool,
    ) -> Result<StepEnd, AttendError> {
        if !*is_ready {
            lease.keep(handle, self.bring(order)).await??;
            *is_ready = true;
        }
        let order = &*lease.keep(handle, self.with_files(order)).await??;
        lease.keep(handle, self.hosts.ready(order)).await??;
        while lease.patience().is_zero() {
            if lease.renew(handle).await?.is_none() {
                tokio::time::sleep(DELIVERY_INTERVAL).await;
            }
        }
        let mapping = self.mapping(order);
        let (step, end) = self.hosts.step(order, lease.patience(), mapping).await?;
        let extend = |patience, is_cancelled| {
            step.extend(patience);
            if is_cancelled {
                step.cancel();
            }
            true
        };
        let inputs = lease.beating(handle, extend, end.wait()).await??;
        let inputs = inputs.ok_or(Gone)?;
        // It has ended: a cancel comes too late.
        let ended = |_, _| true;
        let session = lease.beating(handle, ended, self.keep_session(order)).await?;
        // This may wait for disk space; a cancel ends the wait.
        let waits = |_, is_cancelled: bool| !is_cancelled;
        let checkout = lease.beating(handle, waits, self.keep_checkout(order)).await??;
        let patience = lease.timeout / 3;
        let stored = self.store_files(order, shown(&inputs), patience);
        let files = lease.beating(handle, ended, stored).await?;
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

    /// Stores the session of a turn that has ended, for its next turn on any worker. Tries until it is stored: the
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
    pub(super) async fn deliver(
        &self,
        handle: &AsyncActivityHandle<Client>,
        attended: Result<StepEnd, AttendError>,
    ) -> Result<(), AttendError> {
        let end = serde_json::to_value(attended?)?;
        loop {
            match handle.complete(Some(end.clone()), RpcOptions::default()).await {
                Ok(()) => return Ok(()),
                Err(AsyncActivityError::NotFound(_)) => return Err(Gone.into()),
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
                return Err(Gone.into());
            }
        }
    }

    pub(super) fn step_end(&self, inputs: Vec<Input>) -> StepEnd {
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

    /// Stores the files of a step, and those that its question shows, for mirrors. Without them a mirror shows less, and the
    /// run continues: a store that does not answer must not cost the step its heartbeats.
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

    pub(super) fn note(&self, kept: &Kept) -> Option<PathBuf> {
        let path = self.tokens.join(uuid::Uuid::new_v4().simple().to_string());
        let json = serde_json::to_vec(kept).ok()?;
        private::create_dir_all(&self.tokens).ok()?;
        private::write(&path, json).ok()?;
        Some(path)
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
