//! Event streams: views of what changes, at most ten times a second, the last one wins.
//!
//! A stream is a task that waits for a change of files, reads what is new and sends the views that differ. It keeps only
//! what it has sent. If the client is slow, the task waits, and everything that changed meanwhile is sent once.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    extract::State,
    http::HeaderMap,
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_core::Stream;
use raymond_engine::{
    agent::Activity,
    observe::{
        overview::Overview,
        views::{self, LiveFacts},
    },
};
use raymond_flow::id::AgentId;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc},
    time::{Instant, sleep_until},
};

use crate::{
    app::App,
    changes::Changed,
    error::{ApiError, ApiResult},
    request::{NamedRun, Parameters},
    runs::is_position,
    shelf::{OpenRun, RunKey, RunRow, summary},
    transcript::{self, Reading},
};

/// The shortest time between two views of a run.
const INTERVAL: Duration = Duration::from_millis(100);
/// The same for all rows: each reading lists all runs.
const ROWS_INTERVAL: Duration = Duration::from_millis(300);
/// How often a run with running turns is read again: their output is not in its journal.
const GLANCE: Duration = Duration::from_secs(1);
/// How often everything is read again, in case a change was not reported.
const SAFETY: Duration = Duration::from_secs(10);
/// How often a keep-alive is sent.
const BEAT: Duration = Duration::from_secs(15);
/// How many events wait for a slow reader.
const WAITING_MAX: usize = 256;
/// How many steps are sent one by one at a time.
const STEPS_MAX: usize = 200;
/// How many rows of runs that are over a stream begins with.
const ENDED_ROWS: usize = 100;

/// The events of one stream.
struct Events {
    receiver: mpsc::Receiver<Event>,
    /// One of the streams that may be open.
    _permit: OwnedSemaphorePermit,
}

impl Stream for Events {
    type Item = Result<Event, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.receiver.poll_recv(context).map(|event| event.map(Ok))
    }
}

/// The answer to a request for a stream, and where its events go. When the reader leaves, sending fails.
fn stream(app: &App) -> ApiResult<(Response, mpsc::Sender<Event>)> {
    let permit = Arc::clone(&app.streams).try_acquire_owned();
    let permit = permit.map_err(|_| {
        let error = ApiError::busy("too many event streams are open");
        error.with_hint("close pages that show this server, and try again")
    })?;
    let (sender, receiver) = mpsc::channel(WAITING_MAX);
    let beat = KeepAlive::new().interval(BEAT).text("beat");
    let events = Sse::new(Events { receiver, _permit: permit }).keep_alive(beat);
    Ok((events.into_response(), sender))
}

fn event(name: &str, data: &Value) -> Event {
    Event::default().event(name).data(data.to_string())
}

/// Sends; `None` if the reader has left.
async fn send(sender: &mpsc::Sender<Event>, events: Vec<Event>) -> Option<()> {
    for event in events {
        sender.send(event).await.ok()?;
    }
    Some(())
}

/// From where a stream continues.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct From {
    from: Option<u64>,
}

impl From {
    /// What the reader has seen last, as the header or the parameter says.
    fn seen(&self, headers: &HeaderMap) -> Option<u64> {
        let header = headers.get("last-event-id").and_then(|id| id.to_str().ok());
        header.and_then(|id| id.trim().parse().ok()).or(self.from)
    }
}

/// `GET /api/events`
pub(crate) async fn rows(State(app): State<Arc<App>>) -> ApiResult<Response> {
    let (response, sender) = stream(&app)?;
    tokio::spawn(async move {
        let _ = send_rows(&app, &sender).await;
    });
    Ok(response)
}

async fn send_rows(app: &Arc<App>, sender: &mpsc::Sender<Event>) -> Option<()> {
    let mut sent = SentRows::default();
    loop {
        let began = Instant::now();
        let projects = app.read(|app| Ok(app.projects())).await.ok()?;
        // Before reading: a change that comes while the rows are read is not missed.
        // A new project is a file in the user's list, and has no directory of runs before its first run.
        let list = ["", "projects"].map(|name| app.user_dir.file(name));
        let folders = projects.iter().map(|project| {
            let workflows = project.state_dir.workflows();
            if workflows.is_dir() { workflows } else { project.state_dir.root().to_owned() }
        });
        let changed: Vec<_> =
            list.into_iter().chain(folders).map(|it| app.changes.of(&it)).collect();
        let rows = app.read(|app| Ok(app.rows())).await.ok()?;
        send(sender, sent.news(&rows)).await?;
        sleep_until(began + ROWS_INTERVAL).await;
        let is_running = rows.iter().any(|(_, row)| row.value["status"] == "running");
        let patience = if is_running { GLANCE } else { SAFETY };
        wait_for_any(&changed, patience, sender).await?;
    }
}

/// What a reader of all rows knows.
#[derive(Default)]
struct SentRows {
    rows: HashMap<RunKey, Arc<Value>>,
    summary: Value,
}

impl SentRows {
    /// The events that bring the reader up to date.
    fn news(&mut self, rows: &[(RunKey, RunRow)]) -> Vec<Event> {
        let mut events = Vec::new();
        let mut ended = 0;
        for (key, row) in rows {
            let is_known = self.rows.get(key).is_some_and(|known| **known == *row.value);
            // At the beginning not all that are over, however long ago.
            let is_old = self.summary.is_null() && row.group == views::Group::Ended && {
                ended += 1;
                ended > ENDED_ROWS
            };
            if !is_known && !is_old {
                events.push(event("row", &row.value));
            }
            self.rows.insert(key.clone(), Arc::clone(&row.value));
        }
        let there: HashSet<_> = rows.iter().map(|(key, _)| key).collect();
        self.rows.retain(|key, _| {
            let is_there = there.contains(key);
            if !is_there {
                events.push(event("removed", &json!({ "project": key.0, "run": key.1 })));
            }
            is_there
        });
        let summary = summary(rows);
        if summary != self.summary {
            events.push(event("summary", &summary));
            self.summary = summary;
        }
        events
    }
}

/// Waits until one of several directories changes, or the reader leaves.
async fn wait_for_any(
    changed: &[Changed],
    patience: Duration,
    sender: &mpsc::Sender<Event>,
) -> Option<()> {
    let mut waits = tokio::task::JoinSet::new();
    for one in changed {
        let mut receiver = one.receiver();
        waits.spawn(async move { drop(receiver.changed().await) });
    }
    tokio::select! {
        () = sender.closed() => None,
        () = tokio::time::sleep(patience) => Some(()),
        Some(_) = waits.join_next() => Some(()),
    }
}

/// `GET /api/runs/{project}/{run}/events`
pub(crate) async fn run(
    named: NamedRun,
    Parameters(from): Parameters<From>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let seen = from.seen(&headers);
    let (response, sender) = stream(&named.app)?;
    tokio::spawn(async move {
        let mut changed = named.app.changes.of(&named.project.state_dir.workflows());
        let mut sent = Sent { offset: seen, ..Sent::default() };
        loop {
            let began = Instant::now();
            let taken = std::mem::take(&mut sent);
            let read = named.clone().read(move |named, run| {
                let header = run.view(&named.app, &named.project);
                let (events, sent) = taken.news(run, header);
                let is_live = run.live.owner.is_some() && run.overview.running().next().is_some();
                Ok((events, sent, is_live))
            });
            let Ok((events, now_sent, is_live)) = read.await else {
                // Its files were removed.
                let _ = sender.send(event("removed", &json!({}))).await;
                return;
            };
            sent = now_sent;
            if send(&sender, events).await.is_none() {
                return;
            }
            sleep_until(began + INTERVAL).await;
            let patience = if is_live { GLANCE } else { SAFETY };
            tokio::select! {
                () = sender.closed() => return,
                () = changed.wait(patience) => {}
            }
        }
    });
    Ok(response)
}

/// What a reader of one run knows.
#[derive(Default)]
struct Sent {
    /// Up to where in the journal; `None` if nothing.
    offset: Option<u64>,
    header: Value,
    activities: BTreeMap<AgentId, Activity>,
    heard_at: BTreeMap<AgentId, u64>,
}

impl Sent {
    /// The events that bring the reader up to date. Only the last one has an id: if the connection breaks before it,
    /// the reader asks for all of them again.
    fn news(mut self, run: &OpenRun, header: Value) -> (Vec<Event>, Self) {
        let overview = &run.overview;
        let known = self.offset.filter(|offset| is_position(overview, *offset));
        let is_first = self.header.is_null();
        let mut events = Vec::new();
        for id in self.changed_agents(overview, known, &run.live) {
            events.push(event("agent", &views::agent(overview, &id, &run.live)));
        }
        if let Some(known) = known {
            events.extend(changed_steps(overview, known));
        }
        if is_first || !events.is_empty() || header != self.header {
            let id = overview.offset().to_string();
            events.push(event("run", &header).id(id));
        }
        self.offset = Some(overview.offset());
        self.header = header;
        self.activities.clone_from(&run.live.activities);
        self.heard_at.clone_from(&run.live.heard_at);
        (events, self)
    }

    fn changed_agents(
        &self,
        overview: &Overview,
        known: Option<u64>,
        live: &LiveFacts,
    ) -> Vec<AgentId> {
        let mut agents = views::agents(overview);
        if let Some(known) = known {
            agents.retain(|id| {
                let offset = overview.agents.get(id).map_or(0, |facts| facts.offset);
                offset > known
                    || self.activities.get(id) != live.activities.get(id)
                    || self.heard_at.get(id) != live.heard_at.get(id)
            });
        }
        agents
    }
}

fn changed_steps(overview: &Overview, known: u64) -> Vec<Event> {
    let changed: Vec<_> = overview.steps.iter().filter(|step| step.offset > known).collect();
    if changed.len() > STEPS_MAX {
        return vec![event(
            "steps",
            &json!({ "count": overview.forgotten + overview.steps.len() }),
        )];
    }
    changed.into_iter().map(|step| event("step", &json!(step))).collect()
}

/// `GET /api/runs/{project}/{run}/steps/{step}/transcript/events`
pub(crate) async fn transcript(
    run: NamedRun,
    Parameters(from): Parameters<From>,
    headers: HeaderMap,
) -> ApiResult<Response> {
    // The id is that of the last entry that was seen; the parameter says which comes first.
    let seen = headers.get("last-event-id").and_then(|id| id.to_str().ok()?.trim().parse().ok());
    let first = seen.map_or(from.from.unwrap_or(0), |seen: u64| seen.saturating_add(1));
    let app = Arc::clone(&run.app);
    let reading = app.read(move |_| Reading::open(run)).await?;
    let (response, sender) = stream(&app)?;
    tokio::spawn(async move {
        let _ = send_entries(&app, &sender, reading, first).await;
    });
    Ok(response)
}

async fn send_entries(
    app: &Arc<App>,
    sender: &mpsc::Sender<Event>,
    mut reading: Reading,
    first: u64,
) -> Option<()> {
    let mut index = 0;
    loop {
        let began = Instant::now();
        let (entries, is_all, read) = app
            .read(move |_| {
                let (entries, is_all) = reading.some()?;
                Ok((entries, is_all, reading))
            })
            .await
            .ok()?;
        reading = read;
        let mut events = Vec::new();
        for entry in entries {
            if u64::try_from(index).is_ok_and(|index| index >= first) {
                let value = transcript::json(&entry, index);
                events.push(event("entry", &value).id(index.to_string()));
            }
            index += 1;
        }
        send(sender, events).await?;
        if reading.is_over() {
            return sender.send(event("over", &json!({}))).await.ok();
        }
        if is_all {
            tokio::select! {
                () = sender.closed() => return None,
                () = sleep_until(began + 2 * INTERVAL) => {}
            }
        }
    }
}
