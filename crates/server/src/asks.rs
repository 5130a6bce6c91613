//! Questions to people: those that are open, and one of them with its attachments.

use std::{
    io::{self, Read as _},
    path::Path as FilePath,
    sync::Arc,
};

use axum::{
    Json,
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use raymond_engine::asks::{self, AnswerError, GivenAnswer, PublishedQuestion, ShownFile};
use raymond_flow::id::{AskId, RunId};
use serde_json::{Value, json};

use crate::{
    app::App,
    error::{ApiError, ApiResult},
    markdown,
    projects::Project,
    request::NamedRun,
    shelf::lock,
    uploads::is_plain,
};

/// How many bytes of an attachment are read to tell whether it is text.
const LOOK_BYTES: usize = 8 * 1024;

/// `GET /api/asks`
pub(crate) async fn list(State(app): State<Arc<App>>) -> ApiResult<Json<Value>> {
    app.read(|app| {
        let rows = app.rows();
        let with_asks = rows.iter().filter(|(_, row)| row.value["asks"][0].is_object());
        let mut open = Vec::new();
        for ((project, run), row) in with_asks {
            let project = app.project(project)?;
            let unreadable = |error| cannot_read(run, &error);
            for question in asks::open_questions(&project.state_dir, run).map_err(unreadable)? {
                open.push((
                    question.asked_at_ms,
                    view(&project, run, &question, None, &row.value["name"]),
                ));
            }
        }
        open.sort_by_key(|(asked_at, _)| *asked_at);
        let open: Vec<_> = open.into_iter().map(|(_, ask)| ask).collect();
        Ok(Json(json!({ "asks": open })))
    })
    .await
}

/// `GET /api/asks/{project}/{run}/{ask}`
pub(crate) async fn one(run: NamedRun) -> ApiResult<Json<Value>> {
    FoundAsk::read(run, |run, asked| {
        let name = FilePath::new(&asked.workflow).file_name().map(|name| name.to_string_lossy());
        let FoundAsk { question, answer, .. } = asked;
        let mut view = view(&run.project, &run.id, question, answer.as_ref(), &json!(name));
        view["step"] = json!(asked.step);
        Ok(Json(view))
    })
    .await
}

/// The question that a request names.
pub(crate) struct FoundAsk {
    id: AskId,
    question: PublishedQuestion,
    answer: Option<GivenAnswer>,
    workflow: String,
    /// The step that asked it, if the run still knows that.
    step: Option<String>,
}

impl FoundAsk {
    /// Reads the question, on a thread for that.
    pub(crate) async fn read<T: Send + 'static>(
        run: NamedRun,
        work: impl FnOnce(&NamedRun, &Self) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let app = Arc::clone(&run.app);
        app.read(move |_| work(&run, &Self::find(&run)?)).await
    }

    fn find(run: &NamedRun) -> ApiResult<Self> {
        let ask = &*run.names.ask;
        let none =
            || ApiError::not_found(format!("run `{}` has asked no question `{ask}`", run.id));
        // The id becomes the name of a directory, so it must not contain a path.
        let id = AskId::parse(ask).filter(|id| is_plain(id.agent.as_str())).ok_or_else(none)?;
        let (question, answer) = published(run, &id)?.ok_or_else(none)?;
        let opened = run.open()?;
        let opened = lock(&opened);
        let workflow = opened.overview.run().map(|run| run.scope_dir.clone());
        let workflow = workflow.unwrap_or_default();
        // The agent begins no further step before the question is answered.
        let mut steps = opened.overview.steps.iter().rev();
        let step = steps
            .find(|step| step.agent == id.agent && step.started_at <= question.asked_at_ms)
            .map(|step| step.step.clone());
        Ok(Self { id, question, answer, workflow, step })
    }

    /// Refuses what is meant for an answer if there is one.
    pub(crate) fn check_open(&self) -> ApiResult<()> {
        let Some(first) = self.answer.clone() else { return Ok(()) };
        let error = AnswerError::Answered { id: self.id.clone(), first: Box::new(first) };
        Err(ApiError::refused(error.to_string()))
    }
}

/// The question and its answer. If the run has only recorded it yet, this waits for its files, so that a person can
/// answer as soon as a row shows the question.
fn published(
    run: &NamedRun,
    id: &AskId,
) -> ApiResult<Option<(PublishedQuestion, Option<GivenAnswer>)>> {
    let state_dir = &run.project.state_dir;
    let look =
        || asks::question(state_dir, &run.id, id).map_err(|error| cannot_read(&run.id, &error));
    if let Some(found) = look()? {
        return Ok(Some(found));
    }
    let opened = run.open()?;
    let is_recorded = lock(&opened).overview.run().is_some_and(|run| run.question(id).is_some());
    if is_recorded {
        asks::wait_for_files(state_dir, &run.id, std::slice::from_ref(id));
    }
    look()
}

fn cannot_read(run: &RunId, error: &io::Error) -> ApiError {
    ApiError::unreadable(format!("cannot read the questions of run `{run}`: {error}"))
}

fn view(
    project: &Project,
    run: &RunId,
    question: &PublishedQuestion,
    answer: Option<&GivenAnswer>,
    name: &Value,
) -> Value {
    let choices =
        question.choices.iter().map(|choice| json!({ "label": choice.label, "to": choice.to }));
    let attachments = question.attachments.iter().map(|file| {
        let shown_as = match &file.error {
            Some(_) => None,
            None => Some(shown_as(project, run, question, file)),
        };
        json!({
            "name": file.name(), "path": file.path, "bytes": file.bytes, "sha256": file.sha256,
            "shown_as": shown_as, "problem": file.error,
        })
    });
    let agent = question.ask_id().map(|id| id.agent);
    json!({
        "project": project.key, "run": run, "ask": question.id, "agent": agent, "name": name,
        "state": question.state, "question": question.text, "is_whole": true,
        // What a permission names is shown as it is: a command is no Markdown.
        "markdown": (!question.is_permission).then(|| markdown::tree(&question.text)), "choices": choices.collect::<Vec<_>>(),
        "next": question.next, "attachments": attachments.collect::<Vec<_>>(),
        "asked_at": question.asked_at_ms, "deadline": question.deadline_ms,
        "default": question.default,
        "answer": answer.map(|answer| {
            json!({
                "label": (!question.choices.is_empty()).then_some(&answer.result),
                "text": if question.choices.is_empty() { &answer.result } else { &answer.comment },
                "by": answer.by, "how": answer.how, "at": answer.at_ms,
            })
        }),
    })
}

/// How an attachment may be shown: anything that a browser could execute is only downloaded.
fn shown_as(
    project: &Project,
    run: &RunId,
    question: &PublishedQuestion,
    file: &ShownFile,
) -> &'static str {
    let id = question.ask_id().ok_or_else(|| io::ErrorKind::NotFound.into());
    let start = id
        .and_then(|id| asks::open_attachment(&project.state_dir, run, &id, file))
        .and_then(|file| {
            let mut start = Vec::new();
            file.take(LOOK_BYTES as u64).read_to_end(&mut start).map(|_| start)
        });
    start.map_or("download", |start| kind(&start).0)
}

/// How bytes may be shown, and their type. Decided by their first bytes, never by a file name.
fn kind(bytes: &[u8]) -> (&'static str, &'static str) {
    let images: [(&[u8], _); 4] = [
        (b"\x89PNG\r\n\x1a\n", "image/png"),
        (b"\xff\xd8\xff", "image/jpeg"),
        (b"GIF8", "image/gif"),
        (b"RIFF", "image/webp"),
    ];
    if let Some((_, kind)) = images.iter().find(|(start, _)| bytes.starts_with(start))
        && (*kind != "image/webp" || bytes.get(8..12) == Some(b"WEBP"))
    {
        return ("image", kind);
    }
    let start = bytes.get(..LOOK_BYTES).unwrap_or(bytes);
    let is_text = !start.contains(&0)
        && std::str::from_utf8(start).map_or_else(|error| error.error_len().is_none(), |_| true);
    if is_text {
        ("text", "text/plain; charset=utf-8")
    } else {
        ("download", "application/octet-stream")
    }
}

/// `GET /api/asks/{project}/{run}/{ask}/files/{name}`
pub(crate) async fn attachment(run: NamedRun) -> ApiResult<Response> {
    FoundAsk::read(run, |run, FoundAsk { id, question, .. }| {
        let name = &*run.names.name;
        let none = || ApiError::not_found(format!("question `{id}` has no attachment `{name}`"));
        let shown = question.attachments.iter().find(|file| file.name() == name);
        let shown = shown.ok_or_else(none)?;
        let bytes = asks::attachment(&run.project.state_dir, &run.id, id, shown);
        let bytes = bytes
            .map_err(|error| ApiError::unreadable(format!("cannot read `{name}`: {error}")))?;
        let (how, kind) = kind(&bytes);
        let place = if how == "download" { "attachment" } else { "inline" };
        let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, place)];
        Ok((headers, bytes).into_response())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_text_and_bitmaps_are_shown_whatever_they_are_called() {
        assert_eq!(kind(b"# plan\n").0, "text");
        assert_eq!(kind("<script>ä".as_bytes()).1, "text/plain; charset=utf-8");
        assert_eq!(kind(b"\x89PNG\r\n\x1a\n....").1, "image/png");
        assert_eq!(
            kind(b"<svg xmlns='http://www.w3.org/2000/svg'/>").1,
            "text/plain; charset=utf-8"
        );
        assert_eq!(kind(b"RIFF....WAVE").0, "text");
        assert_eq!(kind(b"%PDF-1.7\0").0, "download");
    }
}
