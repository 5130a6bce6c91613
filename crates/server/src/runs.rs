//! Runs: the list of them, and everything about one.

use std::{ops::ControlFlow, sync::Arc};

use axum::{Json, extract::State};
use raymond_engine::{
    EngineError,
    observe::{
        follower::{Follower, Read},
        overview::Overview,
        views::{self, of_seen},
    },
    store::journal::Journal,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    app::App,
    error::{ApiError, ApiResult},
    graph,
    request::{NamedRun, Parameters},
    shelf::summary,
};

/// How many rows a page has, by default and at most.
const ROWS: usize = 100;
const ROWS_MAX: usize = 500;
/// The same for events.
const EVENTS: usize = 200;
const EVENTS_MAX: usize = 1_000;
/// The same for the bars of a timeline.
const BARS: usize = 2_000;
const BARS_MAX: usize = 10_000;

/// Which rows are asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RunsQuery {
    project: Option<String>,
    status: Option<String>,
    group: Option<String>,
    workflow: Option<String>,
    text: Option<String>,
    before: Option<String>,
    limit: Option<usize>,
}

impl RunsQuery {
    fn matches(&self, row: &Value) -> bool {
        let is = |name: &str, wanted: &Option<String>| {
            wanted.as_ref().is_none_or(|wanted| row[name].as_str() == Some(wanted))
        };
        is("project", &self.project)
            && is("status", &self.status)
            && is("group", &self.group)
            && (is("workflow_key", &self.workflow) || is("name", &self.workflow))
            && self.text.as_ref().is_none_or(|text| has_text(row, &text.to_lowercase()))
    }
}

/// Whether a row has a text that people would look for.
fn has_text(row: &Value, text: &str) -> bool {
    let has = |value: &Value| value.as_str().is_some_and(|it| it.to_lowercase().contains(text));
    let asks = row["asks"].as_array().into_iter().flatten();
    ["run", "workflow", "why", "result", "error"].iter().any(|name| has(&row[*name]))
        || ["state", "activity", "agent"].iter().any(|name| has(&row["now"][*name]))
        || asks.into_iter().any(|ask| has(&ask["question"]))
}

/// `GET /api/runs`
pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Parameters(which): Parameters<RunsQuery>,
) -> ApiResult<Json<Value>> {
    app.read(move |app| {
        let rows = app.rows();
        let limit = which.limit.unwrap_or(ROWS).clamp(1, ROWS_MAX);
        let name = |(project, run): &(String, _)| format!("{project}/{run}");
        let mut matching = rows.iter().filter(|(_, row)| which.matches(&row.value)).peekable();
        if let Some(before) = &which.before {
            while matching.next_if(|(key, _)| name(key) != *before).is_some() {}
            matching.next();
        }
        let page: Vec<_> = matching.by_ref().take(limit).collect();
        let next = page.last().filter(|_| matching.peek().is_some()).map(|(key, _)| name(key));
        let page: Vec<_> = page.iter().map(|(_, row)| &*row.value).collect();
        Ok(Json(json!({ "runs": page, "next": next, "summary": summary(&rows) })))
    })
    .await
}

/// `GET /api/runs/{project}/{run}`
pub(crate) async fn one(run: NamedRun) -> ApiResult<Json<Value>> {
    run.read(|named, run| {
        let mut value = run.view(&named.app, &named.project);
        let agents = views::agents(&run.overview);
        let agents = agents.iter().map(|id| views::agent(&run.overview, id, &run.live));
        value["agents"] = Value::from(agents.collect::<Vec<_>>());
        Ok(Json(value))
    })
    .await
}

/// `GET /api/runs/{project}/{run}/cost`
pub(crate) async fn cost(run: NamedRun) -> ApiResult<Json<Value>> {
    run.read(|_, run| Ok(Json(views::cost(&run.overview)))).await
}

/// `GET /api/runs/{project}/{run}/graph`
pub(crate) async fn graph(run: NamedRun) -> ApiResult<Json<Value>> {
    run.read(|_, run| Ok(Json(graph::of_run(&run.overview)))).await
}

/// Which part of a timeline is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimelineQuery {
    from: Option<u64>,
    to: Option<u64>,
    bars: Option<usize>,
}

/// `GET /api/runs/{project}/{run}/timeline`
pub(crate) async fn timeline(
    run: NamedRun,
    Parameters(span): Parameters<TimelineQuery>,
) -> ApiResult<Json<Value>> {
    run.read(move |_, run| {
        let overview = &run.overview;
        let begin = overview.run().map_or(0, |run| run.started_at_ms);
        let is_live = run.live.owner.is_some();
        let now = raymond_engine::sys::clock::now_ms();
        let end = overview.last_at.filter(|_| !is_live).unwrap_or(now);
        let (from, to) = (span.from.unwrap_or(begin), span.to.unwrap_or(end));
        let bars = span.bars.unwrap_or(BARS).clamp(1, BARS_MAX);
        Ok(Json(views::lanes(overview, from, to, bars)))
    })
    .await
}

/// Which part of a log is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LogQuery {
    from: Option<u64>,
    limit: Option<usize>,
    last: Option<usize>,
}

/// `GET /api/runs/{project}/{run}/log`
pub(crate) async fn log(
    run: NamedRun,
    Parameters(part): Parameters<LogQuery>,
) -> ApiResult<Json<Value>> {
    run.read(move |_, run| {
        let limit = part.limit.or(part.last).unwrap_or(EVENTS).clamp(1, EVENTS_MAX);
        let from = part.from.unwrap_or(0);
        if from > 0 && !is_position(&run.overview, from) {
            let message = format!("`from`: no decision of the journal begins at byte {from}");
            return Err(ApiError::bad_request(message));
        }
        let (events, next) = events(&run.overview, from, limit, part.last.is_some(), |_| true)?;
        Ok(Json(json!({ "events": events, "next": next })))
    })
    .await
}

/// Whether a decision of the journal begins or ends at this byte.
pub(crate) fn is_position(overview: &Overview, offset: u64) -> bool {
    offset <= overview.offset()
        && Journal::position(&overview.files().journal, offset).is_ok_and(|there| there.is_some())
}

/// Events from byte `from` of the journal on for which `is_wanted` holds, the first or the last `limit` of them; and the
/// byte at which the next begin. The run is replayed, because an event tells what an agent was before it.
pub(crate) fn events(
    overview: &Overview,
    from: u64,
    limit: usize,
    is_last: bool,
    is_wanted: impl Fn(&Read<'_>) -> bool,
) -> ApiResult<(Vec<Value>, u64)> {
    let mut found = std::collections::VecDeque::new();
    let mut next = from.max(overview.offset());
    let mut follower = Follower::new(overview.id().clone(), overview.files().clone());
    let read = follower.read_until(|read| {
        if read.line < from || !is_wanted(read) {
            return ControlFlow::Continue(());
        }
        // Whole decisions: a page ends between two of them.
        if found.len() >= limit
            && !is_last
            && found.back().is_some_and(|(line, _)| *line != read.line)
        {
            next = read.line;
            return ControlFlow::Break(());
        }
        let mut event = of_seen(read.seen);
        event["offset"] = json!(read.line);
        found.push_back((read.line, event));
        if is_last && found.len() > limit {
            found.pop_front();
        }
        ControlFlow::Continue(())
    });
    match read {
        // Events before the damage are sent; the run's `problem` describes the damage.
        Ok(()) | Err(EngineError::Journal(_) | EngineError::Replay { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    Ok((found.into_iter().map(|(_, event)| event).collect(), next))
}
