//! Questions to people: those that are open, one of them with its attachments, uploads, and the answer.

use std::{
    fs, io,
    path::{Path as FilePath, PathBuf},
    sync::Arc,
    time::Duration,
};

use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest as _, Path, Request, State},
    http::header,
    response::{IntoResponse as _, Response},
};
use raymond_engine::{
    asks::{self, AnswerError, GivenAnswer, PublishedQuestion, Reply, ShownFile},
    private, regular, views,
};
use raymond_flow::id::{AskId, RunId};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    app::App,
    error::{Answer, ApiError},
    markdown,
    projects::Project,
    request::{Body, refuse_longer},
    shelf::lock,
};

/// The largest file that can be handed over with an answer.
pub(crate) const UPLOAD_BYTES_MAX: usize = 25 * 1024 * 1024;
/// How long an upload waits for its answer.
const UPLOAD_LIFE: Duration = Duration::from_hours(1);
/// How many files an answer has.
const FILES_MAX: usize = 20;
/// The longest name of a file.
const NAME_BYTES_MAX: usize = 200;
/// The largest attachment that is shown.
const ATTACHMENT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// How much of an attachment says whether it is text.
const LOOK_BYTES: usize = 8 * 1024;

/// `GET /api/asks`
pub(crate) async fn list(State(app): State<Arc<App>>) -> Answer<Json<Value>> {
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
pub(crate) async fn one(
    State(app): State<Arc<App>>,
    Path((project, run, ask)): Path<(String, String, String)>,
) -> Answer<Json<Value>> {
    app.read(move |app| {
        let asked = Asked::find(app, &project, &run, &ask)?;
        let name = FilePath::new(&asked.workflow).file_name().map(|name| name.to_string_lossy());
        let Asked { project, run, question, answer, .. } = &asked;
        let mut view = view(project, run, question, answer.as_ref(), &json!(name));
        view["step"] = json!(asked.step);
        Ok(Json(view))
    })
    .await
}

/// A question that was found.
struct Asked {
    project: Project,
    run: RunId,
    id: AskId,
    question: PublishedQuestion,
    answer: Option<GivenAnswer>,
    workflow: String,
    /// The step that asked it, if the run still knows that.
    step: Option<String>,
}

impl Asked {
    fn find(app: &App, project: &str, run: &str, ask: &str) -> Answer<Self> {
        let project = app.project(project)?;
        let (run, _) = project.run(run)?;
        let none = || ApiError::not_found(format!("run `{run}` has asked no question `{ask}`"));
        // The directory of a question is named by it: nothing that leads elsewhere.
        let id = AskId::parse(ask).filter(|id| is_plain(id.agent.as_str())).ok_or_else(none)?;
        let found = asks::question(&project.state_dir, &run, &id);
        let found = found.map_err(|error| cannot_read(&run, &error))?;
        let (question, answer) = found.ok_or_else(none)?;
        let opened = app.open(&project, run.as_str())?;
        let opened = lock(&opened);
        let workflow = opened.overview.run().map(|run| run.scope_dir.clone());
        let workflow = workflow.unwrap_or_default();
        // The agent begins no further step before the question is answered.
        let mut steps = opened.overview.steps.iter().rev();
        let step = steps
            .find(|step| step.id.agent == id.agent && step.started_ms <= question.asked_at_ms)
            .map(|step| views::step_name(&step.id));
        Ok(Self { project, run, id, question, answer, workflow, step })
    }
}

fn cannot_read(run: &RunId, error: &io::Error) -> ApiError {
    ApiError::unreadable(format!("cannot read the questions of run `{run}`: {error}"))
}

/// Whether a name from the network is only a name.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(|c: char| c.is_control() || matches!(c, '/' | '\\' | ':'))
}

fn view(
    project: &Project,
    run: &RunId,
    question: &PublishedQuestion,
    answer: Option<&GivenAnswer>,
    name: &Value,
) -> Value {
    let choices = question
        .choices
        .iter()
        .map(|choice| json!({ "label": choice.label, "leads_to": choice.state }));
    let attachments = question.attachments.iter().map(|file| {
        let shown_as = match &file.error {
            Some(_) => None,
            None => Some(shown_as(&file_of(project, run, question, file))),
        };
        json!({
            "name": file_name(file), "path": file.path, "bytes": file.bytes, "sha256": file.sha256,
            "shown_as": shown_as, "problem": file.error,
        })
    });
    let agent = question.ask_id().map(|id| id.agent);
    json!({
        "project": project.key, "run": run, "ask": question.id, "agent": agent, "name": name,
        "state": question.state, "question": question.text,
        "markdown": markdown::tree(&question.text), "choices": choices.collect::<Vec<_>>(),
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

/// The name of an attachment's copy.
fn file_name(file: &ShownFile) -> String {
    let name = FilePath::new(&file.copy).file_name();
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Where the copy of an attachment is: below the run, whatever the question's file says.
fn file_of(
    project: &Project,
    run: &RunId,
    question: &PublishedQuestion,
    file: &ShownFile,
) -> PathBuf {
    let asks = project.state_dir.run(run).asks;
    let folder = FilePath::new(&file.copy).parent().and_then(FilePath::parent);
    let folder = folder.and_then(FilePath::file_name).unwrap_or(question.id.as_ref());
    asks.join(folder).join("attachments").join(file_name(file))
}

/// How an attachment may be shown: anything that a browser could carry out is only downloaded.
fn shown_as(path: &FilePath) -> &'static str {
    match regular::read(path, ATTACHMENT_BYTES_MAX) {
        Ok(bytes) => kind(&bytes).0,
        Err(_) => "download",
    }
}

/// How bytes may be shown, and their type. By what they begin with, never by a name.
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
pub(crate) async fn attachment(
    State(app): State<Arc<App>>,
    Path((project, run, ask, name)): Path<(String, String, String, String)>,
) -> Answer<Response> {
    app.read(move |app| {
        let asked = Asked::find(app, &project, &run, &ask)?;
        let none = || ApiError::not_found(format!("question `{ask}` has no attachment `{name}`"));
        let shown = asked.question.attachments.iter().find(|file| file_name(file) == name);
        let path = file_of(&asked.project, &asked.run, &asked.question, shown.ok_or_else(none)?);
        let bytes = regular::read(&path, ATTACHMENT_BYTES_MAX);
        let bytes = bytes
            .map_err(|error| ApiError::unreadable(format!("cannot read `{name}`: {error}")))?;
        let (how, kind) = kind(&bytes);
        let place = if how == "download" { "attachment" } else { "inline" };
        let headers = [(header::CONTENT_TYPE, kind), (header::CONTENT_DISPOSITION, place)];
        Ok((headers, bytes).into_response())
    })
    .await
}

/// `POST /api/asks/{project}/{run}/{ask}/files/{name}`
pub(crate) async fn upload(
    State(app): State<Arc<App>>,
    Path((project, run, ask, name)): Path<(String, String, String, String)>,
    request: Request,
) -> Answer<Json<Value>> {
    const KIND: &str = "application/octet-stream";
    let headers = request.headers();
    if headers.get(header::CONTENT_TYPE).is_none_or(|kind| kind != KIND) {
        return Err(ApiError::unsupported(KIND));
    }
    refuse_longer(headers, UPLOAD_BYTES_MAX)?;
    let bytes = Bytes::from_request(request, &()).await;
    let bytes = bytes.map_err(|_| ApiError::too_large(UPLOAD_BYTES_MAX))?;
    app.read(move |app| {
        Asked::find(app, &project, &run, &ask)?;
        if !is_plain(&name) {
            let message = "the name of the file: expected a name without `/`, `\\` or `:`";
            return Err(ApiError::bad_request(message));
        }
        let failed = |error| ApiError::unreadable(format!("cannot keep the file: {error}"));
        let uploads = app.user_dir.file("uploads");
        remove_old(&uploads);
        let id = crate::token::random().map_err(failed)?;
        let folder = uploads.join(&id);
        private::create_dir_all(&folder).map_err(failed)?;
        private::write(&folder.join(&name), &bytes).map_err(failed)?;
        Ok(Json(json!({ "file": id, "bytes": bytes.len() })))
    })
    .await
}

/// Removes uploads that no answer has named for long.
fn remove_old(uploads: &FilePath) {
    for entry in fs::read_dir(uploads).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|data| data.modified()).map(|at| at.elapsed());
        if matches!(age, Ok(Ok(age)) if age > UPLOAD_LIFE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// What a person answers.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Given {
    label: Option<String>,
    text: String,
    files: Vec<String>,
}

/// `POST /api/asks/{project}/{run}/{ask}/answer`
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    Path((project, run, ask)): Path<(String, String, String)>,
    Body(given): Body<Given>,
) -> Answer<Json<Value>> {
    app.read(move |app| {
        let Asked { project, run, id, question, .. } = Asked::find(app, &project, &run, &ask)?;
        let (folders, files) = uploaded(app, &given.files)?;
        let (result, comment) = match given.label {
            Some(label) => (label, given.text),
            None => (given.text, String::new()),
        };
        let by = std::env::var("USER").or_else(|_| std::env::var("USERNAME")).unwrap_or_default();
        let reply = Reply { result, comment, files, by, how: "page".to_owned() };
        let given =
            asks::answer(&project.state_dir, &run, &id, &reply).map_err(|error| refusal(&error))?;
        for folder in folders {
            let _ = fs::remove_dir_all(folder);
        }
        let choice = question.choices.iter().find(|choice| choice.label == given.result);
        let leads_to = choice.map(|choice| &choice.state).or(question.next.as_ref());
        let resumed = app.go_on(&project, &run);
        Ok(Json(json!({ "at": given.at_ms, "leads_to": leads_to, "resumed": resumed })))
    })
    .await
}

/// The files that were uploaded under these names, and the directories that they are in.
fn uploaded(app: &App, names: &[String]) -> Answer<(Vec<PathBuf>, Vec<PathBuf>)> {
    if names.len() > FILES_MAX {
        return Err(ApiError::bad_request(format!("`files`: at most {FILES_MAX}")));
    }
    let (mut folders, mut files) = (Vec::new(), Vec::new());
    for name in names {
        let none = || ApiError::bad_request(format!("`files`: there is no upload `{name}`"));
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(none());
        }
        let folder = app.user_dir.file("uploads").join(name);
        let entries = fs::read_dir(&folder).map_err(|_| none())?;
        files.extend(entries.flatten().map(|entry| entry.path()));
        folders.push(folder);
    }
    Ok((folders, files))
}

fn refusal(error: &AnswerError) -> ApiError {
    match error {
        AnswerError::Answered { .. } => ApiError::refused(error.to_string()),
        AnswerError::NoSuchQuestion { .. } => ApiError::not_found(error.to_string()),
        AnswerError::NotAChoice { .. }
        | AnswerError::Empty
        | AnswerError::NoComment
        | AnswerError::TooLong { .. }
        | AnswerError::File { .. } => ApiError::bad_request(error.to_string()),
        AnswerError::Trust(_) | AnswerError::Io { .. } => ApiError::unreadable(error.to_string()),
    }
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
