//! `raymond cluster mirror`: keeps the local copy of a run up to date, and passes on what users want of it. The copy itself
//! is the engine's ([`Mirror`]); here is where its records come from and where its wishes go.
//!
//! What is new is asked for by a query, because only the workflow knows its records. When to ask is told by a long poll of
//! the history: a run that waits for a person costs a few requests a minute, and its workers nothing.

use std::{cell::Cell, path::Path, sync::Arc, time::Duration};

use futures::{FutureExt as _, StreamExt as _, stream};
use raymond_engine::{
    run::{
        events::{Event, Observer, Seen},
        mirror::{Mirror, Origin, Wishes, pack_folder, unpack_step},
    },
    store::{
        journal::JournalEntry,
        layout::{RunFiles, StateDir},
        user::UserDir,
    },
};
use raymond_flow::{
    id::RunId,
    machine::{Input, Status},
};
use temporalio_client::{
    WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowFetchHistoryOptions,
    WorkflowGetResultOptions, WorkflowHistory, WorkflowQueryOptions,
};
use tokio::sync::Notify;

use crate::{
    bundles::Bundles,
    commands::{Handle, Talk, tell},
    failure::{Failure, failed},
    messages::{Entry, Page, RunOutput, STORED, Segment, StepFiles},
    store::{Store, StoreError},
    workflow::RunWorkflow,
};

/// The shortest time between two queries: a busy run has many events.
const PAUSE: Duration = Duration::from_millis(100);
/// How long to wait when the server or the workers do not answer.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// How many objects are fetched at once.
const FETCHED_AT_ONCE: usize = 8;

/// A run of the cluster, from which it is mirrored.
pub(crate) struct Source {
    pub(crate) id: RunId,
    pub(crate) handle: Handle,
    pub(crate) store: Store,
    pub(crate) origin: Origin,
    pub(crate) talk: Talk,
    /// Whether the user knows that nothing is heard of the run.
    pub(crate) is_silent: Cell<bool>,
}

impl Source {
    /// Mirrors the run into `state_dir` until it ends or rests.
    pub(crate) async fn mirror(&self, state_dir: &StateDir) -> Result<Status, Failure> {
        let (first, bundle) = self.beginning().await?;
        let folder = tempfile::tempdir().map_err(failed("create a directory"))?;
        let bundles = Bundles::new(self.store.clone(), folder.path().to_owned());
        let archive = bundles.archive(&bundle).await.map_err(failed("fetch the workflow"))?;
        let mut observer = Troubles(self.talk);
        let opened =
            Mirror::open(state_dir, (&self.id, &self.origin), first, &archive, &mut observer);
        let (mut mirror, bell) = opened.map_err(failed(&format!("mirror run {}", self.id)))?;
        if let Some(user_dir) = UserDir::here() {
            let _ = user_dir.remember(state_dir);
        }
        let rung = Arc::new(Notify::new());
        let ringing = Arc::downgrade(&rung);
        std::thread::spawn(move || {
            loop {
                bell.wait();
                let Some(rung) = ringing.upgrade() else { return };
                rung.notify_one();
            }
        });
        self.follow(&mut mirror, &rung).await?;
        Ok(mirror.close().status)
    }

    /// The first decision of the run, and the hash of its workflow's archive.
    async fn beginning(&self) -> Result<(JournalEntry, String), Failure> {
        let page = loop {
            match self.page(0).await? {
                Some(page) => break page,
                None => tokio::time::sleep(RETRY_INTERVAL).await,
            }
        };
        let first = match page.segments.first() {
            Some(segment) => self.segment(segment).await?.into_iter().next(),
            None => page.entries.into_iter().next(),
        };
        let first = first.ok_or_else(|| {
            Failure::new(format!("the store has no records of run {}", self.id))
                .with_hint(format!("show its state: raymond cluster show {}", self.id))
        })?;
        Ok((line(first), page.bundle))
    }

    /// Appends what is decided, and passes on what users want, until the run ends or rests.
    async fn follow(&self, mirror: &mut Mirror<'_>, rung: &Notify) -> Result<(), Failure> {
        let mut news = News { events: self.events(), is_any: true };
        loop {
            if news.is_any {
                news.is_any = !self.catch_up(mirror).await?;
            }
            if mirror.run().status != Status::Running {
                return Ok(());
            }
            let wishes = mirror.wishes().map_err(failed("look for what users want"))?;
            if !wishes.is_empty() && self.pass_on(mirror, wishes).await? {
                continue;
            }
            let patience = if news.is_any { RETRY_INTERVAL } else { mirror.rest() };
            tokio::select! {
                () = news.wait(|| self.events()) => {}
                () = rung.notified() => {}
                () = tokio::time::sleep(patience) => {}
            }
        }
    }

    fn events(&self) -> WorkflowHistory {
        let options = WorkflowFetchHistoryOptions::builder().wait_new_event(true).build();
        self.handle.fetch_history(options)
    }

    /// Appends everything that is decided by now. Returns whether that could be found out.
    async fn catch_up(&self, mirror: &mut Mirror<'_>) -> Result<bool, Failure> {
        loop {
            let Some(page) = self.page(mirror.decisions()).await? else { return Ok(false) };
            let mut end = 0;
            for segment in &page.segments {
                end += segment.entries;
                if end > mirror.decisions() {
                    let entries = self.segment(segment).await?;
                    let known = mirror.decisions() + segment.entries - end;
                    let known = usize::try_from(known).unwrap_or(usize::MAX);
                    self.append(mirror, entries.into_iter().skip(known)).await?;
                }
            }
            self.append(mirror, page.entries).await?;
            if mirror.decisions() >= page.decisions {
                return Ok(true);
            }
        }
    }

    /// What is decided, from the decision with this number on; `None` if neither the server nor the workers say.
    async fn page(&self, from: u64) -> Result<Option<Page>, Failure> {
        use temporalio_client::errors::{WorkflowInteractionError, WorkflowQueryError};
        let none = |error: &dyn std::fmt::Display| {
            if !self.is_silent.replace(true) {
                (self.talk)(&format!("nothing is heard of run {}: {error}; trying again", self.id));
            }
        };
        let missing = || {
            Failure::new(format!("there is no run {}", self.id))
                .with_hint("list the runs: raymond cluster list".to_owned())
        };
        let described = self.handle.describe(WorkflowDescribeOptions::default()).await;
        match described.map(|described| described.status()) {
            Ok(WorkflowExecutionStatus::Running) => {}
            Ok(WorkflowExecutionStatus::Completed) => return self.last_page().await.map(Some),
            // Its next history is about to begin.
            Ok(WorkflowExecutionStatus::ContinuedAsNew) => return Ok(None),
            Ok(status) => {
                return Err(Failure::new(format!(
                    "Temporal says that run {} is {status:?}",
                    self.id
                ))
                .with_hint(format!("look into it: raymond cluster history {}", self.id)));
            }
            Err(WorkflowInteractionError::NotFound(_)) => return Err(missing()),
            Err(error) => {
                none(&error);
                return Ok(None);
            }
        }
        let query = self.handle.query(RunWorkflow::records, from, WorkflowQueryOptions::default());
        match query.await {
            Ok(Some(page)) => {
                self.is_silent.set(false);
                Ok(Some(page))
            }
            Ok(None) => {
                none(&"it has not begun");
                Ok(None)
            }
            Err(WorkflowQueryError::NotFound(_)) => Err(missing()),
            Err(error) => {
                none(&error);
                Ok(None)
            }
        }
    }

    /// The records of a run whose history is closed: all are in the store, so no worker is needed.
    async fn last_page(&self) -> Result<Page, Failure> {
        let output = self.handle.get_result(WorkflowGetResultOptions::default()).await;
        let RunOutput { terms, segments, .. } =
            output.map_err(failed(&format!("get the end of run {}", self.id)))?;
        let decisions = segments.iter().map(|segment| segment.entries).sum();
        Ok(Page { bundle: terms.bundle, segments, entries: Vec::new(), decisions })
    }

    async fn segment(&self, segment: &Segment) -> Result<Vec<Entry>, Failure> {
        let what = format!("get records of run {}", self.id);
        let bytes = self.store.get(&segment.hash).await.map_err(failed(&what))?;
        serde_json::from_slice(&bytes).map_err(failed(&what))
    }

    /// Appends decisions, after the files of the steps that they are about.
    async fn append(
        &self,
        mirror: &mut Mirror<'_>,
        entries: impl IntoIterator<Item = Entry>,
    ) -> Result<(), Failure> {
        let entries: Vec<_> = entries.into_iter().collect();
        let files: Vec<_> = entries.iter().filter_map(|entry| entry.files.clone()).collect();
        let fetched = stream::iter(files).map(|files| self.fetch(files));
        let mut fetched = fetched.buffered(FETCHED_AT_ONCE);
        while let Some((StepFiles { step, .. }, bytes)) = fetched.next().await {
            let files: &RunFiles = mirror.files();
            let identity = &mirror.run().identity;
            let written = bytes.map_err(|error| error.to_string()).and_then(|bytes| {
                unpack_step(files, identity, &step, &bytes).map_err(|error| error.to_string())
            });
            if let Err(error) = written {
                (self.talk)(&format!("the files of step {step} are missing here: {error}"));
            }
        }
        let lines = entries.into_iter().map(line).collect();
        mirror.append(lines).map_err(failed("write the records of the run"))
    }

    async fn fetch(&self, files: StepFiles) -> (StepFiles, Result<Vec<u8>, StoreError>) {
        let bytes = self.store.get(&files.hash).await;
        (files, bytes)
    }

    /// An answer with its files in the store, where the workers find them.
    async fn with_files(&self, mut input: Input) -> Result<Input, StoreError> {
        if let Input::Answered { id, response } = &mut input
            && let Some(folder) = &response.files
        {
            match pack_folder(Path::new(folder)) {
                Ok(packed) => {
                    response.files = Some(format!("{STORED}{}", self.store.put(packed).await?));
                }
                // A worker that shares this project reads them here.
                Err(error) => {
                    let text = format!("the files with the answer to {id} are not sent: {error}");
                    (self.talk)(&text);
                }
            }
        }
        Ok(input)
    }

    /// Sends what users want, appends what follows from it, and confirms it. Returns whether the run could be told.
    async fn pass_on(&self, mirror: &mut Mirror<'_>, wishes: Wishes) -> Result<bool, Failure> {
        for wish in &wishes.wishes {
            let told = match self.with_files(wish.input.clone()).await {
                Ok(input) => {
                    let told = tell(&self.handle, input, wish.ends_steps).await;
                    told.map_err(|error| error.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = told {
                (self.talk)(&format!("run {} cannot be told: {error}; trying again", self.id));
                tokio::time::sleep(RETRY_INTERVAL).await;
                // It may have ended.
                self.catch_up(mirror).await?;
                return Ok(false);
            }
        }
        self.catch_up(mirror).await?;
        mirror.confirm(wishes);
        Ok(true)
    }
}

/// Tells when something may have happened to a run.
struct News {
    events: WorkflowHistory,
    is_any: bool,
}

impl News {
    /// Waits for an event of the history, then for a moment, so that many events lead to one query. May be cancelled.
    async fn wait(&mut self, begin: impl Fn() -> WorkflowHistory) {
        let mut event = self.events.next().await;
        self.is_any = true;
        loop {
            if !matches!(event, Some(Ok(_))) {
                // The history is over, and there may be a next one; or the server cannot be reached.
                self.events = begin();
                tokio::time::sleep(RETRY_INTERVAL).await;
                return;
            }
            match self.events.next().now_or_never() {
                Some(next) => event = next,
                None => break,
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn line(entry: Entry) -> JournalEntry {
    JournalEntry { at_ms: entry.at_ms, records: entry.records }
}

/// Passes troubles on.
struct Troubles(Talk);

impl Observer for Troubles {
    fn see(&mut self, seen: &Seen) {
        if let Event::Trouble(text) = &seen.event {
            (self.0)(text);
        }
    }
}
