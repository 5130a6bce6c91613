//! Steps: the list of them in pages, one of them, and its files in parts.

use std::io::{Read as _, Seek as _, SeekFrom};

use axum::{
    Json,
    http::{HeaderName, header},
    response::{IntoResponse as _, Response},
};
use raymond_engine::{
    observe::{overview::Overview, transcript::StepFile, views},
    run::events::Event,
};
use raymond_flow::{
    id::StepId,
    machine::{Action, Step},
    policy::AllowedTransition,
    view::StepFacts,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    error::{ApiError, ApiResult},
    projects::step_id,
    request::{NamedRun, Names, Parameters},
    runs::events,
};

/// How many steps a page has, by default and at most.
const STEPS: usize = 200;
const STEPS_MAX: usize = 1_000;
/// How many bytes of a file are sent at once, by default and at most.
const PART_BYTES: u64 = 64 * 1024;
const PART_BYTES_MAX: u64 = 1024 * 1024;
/// The most events about one step.
const EVENTS_MAX: usize = 100;

/// Which steps are asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StepsQuery {
    agent: Option<String>,
    state: Option<String>,
    before: Option<usize>,
    limit: Option<usize>,
    order: Option<Order>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Order {
    Newest,
    Oldest,
}

/// `GET /api/runs/{project}/{run}/steps`
pub(crate) async fn list(
    run: NamedRun,
    Parameters(which): Parameters<StepsQuery>,
) -> ApiResult<Json<Value>> {
    run.read(move |_, run| {
        let overview = &run.overview;
        let is = |wanted: &Option<String>, name: &str| wanted.as_ref().is_none_or(|it| it == name);
        let is_wanted = |step: &&StepFacts| {
            is(&which.agent, step.agent.as_str()) && is(&which.state, step.state.as_str())
        };
        let limit = which.limit.unwrap_or(STEPS).clamp(1, STEPS_MAX);
        let mut steps: Vec<_> = overview.steps.iter().filter(is_wanted).collect();
        let count = steps.len();
        if which.order == Some(Order::Oldest) {
            steps.retain(|step| which.before.is_none_or(|before| step.index > before));
        } else {
            steps.retain(|step| which.before.is_none_or(|before| step.index < before));
            steps.reverse();
        }
        let has_more = steps.len() > limit;
        steps.truncate(limit);
        let next = steps.last().filter(|_| has_more).map(|step| step.index);
        Ok(Json(json!({ "steps": steps, "next": next, "count": count })))
    })
    .await
}

/// The facts about a step that the run has.
pub(crate) fn find<'o>(overview: &'o Overview, name: &str) -> ApiResult<&'o StepFacts> {
    let none = || ApiError::not_found(format!("run `{}` has no step `{name}`", overview.id()));
    overview.step(&step_id(name)?).ok_or_else(none)
}

/// The intent of a step.
pub(crate) fn intent(overview: &Overview, facts: &StepFacts) -> ApiResult<Step> {
    let gone = || ApiError::unreadable("the journal has changed: the step is not where it was");
    overview.intent(facts)?.ok_or_else(gone)
}

/// `GET /api/runs/{project}/{run}/steps/{step}`
pub(crate) async fn one(run: NamedRun) -> ApiResult<Json<Value>> {
    run.read(|named, run| {
        let overview = &run.overview;
        let facts = find(overview, &named.names.step)?;
        let mut value = json!(facts);
        let intent = intent(overview, facts)?;
        let turn = match &intent.action {
            Action::Turn(turn) => Some(turn),
            Action::Script { .. } => None,
        };
        let allowed = turn.iter().flat_map(|turn| &turn.policy.allowed);
        let allowed: Vec<_> = allowed.map(AllowedTransition::example).collect();
        let files = StepFile::ALL.iter().filter_map(|file| {
            let (_, _, bytes) = file.open(overview.files(), &facts.id()).ok()??;
            Some(json!({ "name": file.name(), "bytes": bytes }))
        });
        let of_agent = |number| StepId { agent: facts.agent.clone(), number };
        let near = |number: Option<u32>| {
            number
                .map(of_agent)
                .filter(|id| overview.step(id).is_some())
                .map(|id| views::step_name(&id))
        };
        value["session"] = json!(turn.map(|turn| turn.session.id()));
        value["effort"] = json!(turn.and_then(|turn| turn.settings.effort.as_ref()));
        value["asked_model"] = json!(turn.and_then(|turn| turn.settings.model.as_ref()));
        value["coding_agent"] = json!(turn.and_then(|turn| turn.settings.agent.as_ref()));
        value["allowed"] = json!(allowed);
        let agent = views::agent(overview, &facts.agent, &run.live);
        value["worktree"] = agent["worktree"].clone();
        value["files"] = json!(files.collect::<Vec<_>>());
        value["previous"] = json!(near(facts.number.checked_sub(1)));
        value["following"] = json!(near(facts.number.checked_add(1)));
        value["events"] = json!(events_about(overview, facts)?);
        Ok(Json(value))
    })
    .await
}

/// What happened to the agent from the beginning of a step to the beginning of its next one.
fn events_about(overview: &Overview, facts: &StepFacts) -> ApiResult<Vec<Value>> {
    let agent = &facts.agent;
    let number = std::cell::Cell::new(0);
    let is_about = |read: &raymond_engine::observe::follower::Read<'_>| {
        let Event::Recorded { record, .. } = &read.seen.event else { return false };
        if let Some((whose, step)) = record.intent()
            && whose == agent
        {
            number.set(step.number);
        }
        record.agent() == Some(agent) && number.get() == facts.number
    };
    Ok(events(overview, facts.line, EVENTS_MAX, false, is_about)?.0)
}

/// Which part of a file is asked for.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileQuery {
    offset: Option<i64>,
    length: Option<u64>,
}

/// `GET /api/runs/{project}/{run}/steps/{step}/files/{name}`
pub(crate) async fn file(
    run: NamedRun,
    Parameters(part): Parameters<FileQuery>,
) -> ApiResult<Response> {
    run.read(move |named, run| {
        let Names { step, name, .. } = &named.names;
        let facts = find(&run.overview, step)?;
        let none = || ApiError::not_found(format!("step `{step}` has no file `{name}`"));
        let file = StepFile::ALL.into_iter().find(|file| file.name() == name).ok_or_else(none)?;
        let unreadable = |error: std::io::Error| {
            ApiError::unreadable(format!("cannot read `{name}` of step `{step}`: {error}"))
        };
        let open = file.open(run.overview.files(), &facts.id()).map_err(unreadable)?;
        let (mut file, start, size) = open.ok_or_else(none)?;
        let from = match part.offset.unwrap_or(0) {
            back if back < 0 => size.saturating_sub(back.unsigned_abs()),
            offset => offset.unsigned_abs().min(size),
        };
        let length = part.length.unwrap_or(PART_BYTES).min(PART_BYTES_MAX).min(size - from);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start + from)).map_err(unreadable)?;
        file.take(length).read_to_end(&mut bytes).map_err(unreadable)?;
        let next = from + bytes.len() as u64;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let number =
            |name: &'static str, value: u64| (HeaderName::from_static(name), value.to_string());
        let headers = [
            (header::CONTENT_TYPE, "text/plain; charset=utf-8".to_owned()),
            number("raymond-size", size),
            number("raymond-offset", from),
            number("raymond-next", next),
        ];
        Ok((headers, text).into_response())
    })
    .await
}
