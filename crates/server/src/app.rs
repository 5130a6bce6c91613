//! The state that all requests share, and the table of routes.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Json, Router,
    extract::{DefaultBodyLimit, State},
    middleware,
    routing::{MethodRouter, get, post},
};
use raymond_engine::{
    store::{layout::StateDir, user::UserDir},
    sys::clock,
};
use raymond_flow::money::Usd;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::{
    Host, ServerOptions, asks,
    changes::Changes,
    commands,
    error::{ApiError, ApiResult},
    guard::{self, Hosts},
    page,
    projects::Project,
    request::BODY_BYTES_MAX,
    runs,
    shelf::Shelf,
    steps, streams,
    token::ServerToken,
    transcript, uploads, workflows, worktrees,
};

/// The most event streams that are open at a time: enough for a hundred pages, each with a few of them.
const STREAMS_MAX: usize = 512;

/// The running server. Everything in it can be rebuilt from disk.
pub(crate) struct App {
    pub(crate) user_dir: UserDir,
    pub(crate) project: Option<StateDir>,
    pub(crate) roots: Vec<PathBuf>,
    pub(crate) token: ServerToken,
    pub(crate) hosts: Hosts,
    pub(crate) is_read_only: bool,
    pub(crate) budget_max: Option<Usd>,
    pub(crate) program: PathBuf,
    pub(crate) version: String,
    pub(crate) host: Arc<dyn Host>,
    pub(crate) started_at: u64,
    pub(crate) shelf: Shelf,
    pub(crate) changes: Changes,
    pub(crate) streams: Arc<Semaphore>,
}

/// A route: its method, its path, and what it does.
type Route = (&'static str, &'static str, MethodRouter<Arc<App>>);

/// Every route under `/api`; `docs/api.openapi.json` lists the same.
pub(crate) fn routes() -> Vec<Route> {
    vec![
        ("GET", "/api/server", get(server)),
        ("GET", "/api/runs", get(runs::list)),
        ("GET", "/api/events", get(streams::rows)),
        ("GET", "/api/runs/{project}/{run}", get(runs::one)),
        ("GET", "/api/runs/{project}/{run}/events", get(streams::run)),
        ("GET", "/api/runs/{project}/{run}/log", get(runs::log)),
        ("GET", "/api/runs/{project}/{run}/graph", get(runs::graph)),
        ("GET", "/api/runs/{project}/{run}/cost", get(runs::cost)),
        ("GET", "/api/runs/{project}/{run}/timeline", get(runs::timeline)),
        ("GET", "/api/runs/{project}/{run}/steps", get(steps::list)),
        ("GET", "/api/runs/{project}/{run}/steps/{step}", get(steps::one)),
        ("GET", "/api/runs/{project}/{run}/steps/{step}/transcript", get(transcript::page)),
        (
            "GET",
            "/api/runs/{project}/{run}/steps/{step}/transcript/events",
            get(streams::transcript),
        ),
        ("GET", "/api/runs/{project}/{run}/steps/{step}/files/{name}", get(steps::file)),
        ("GET", "/api/runs/{project}/{run}/agents/{agent}/diff", get(worktrees::diff)),
        ("GET", "/api/workflows", get(workflows::list)),
        ("GET", "/api/workflows/{workflow}", get(workflows::one)),
        ("GET", "/api/asks", get(asks::list)),
        ("GET", "/api/asks/{project}/{run}/{ask}", get(asks::one)),
        ("GET", "/api/asks/{project}/{run}/{ask}/files/{name}", get(asks::attachment)),
        (
            "POST",
            "/api/asks/{project}/{run}/{ask}/files/{name}",
            post(uploads::upload).layer(DefaultBodyLimit::max(uploads::UPLOAD_BYTES_MAX)),
        ),
        ("POST", "/api/asks/{project}/{run}/{ask}/answer", post(commands::answer)),
        ("POST", "/api/workflows/{workflow}/runs", post(commands::start)),
        ("POST", "/api/runs/{project}/{run}/resume", post(commands::resume)),
        ("POST", "/api/runs/{project}/{run}/stop", post(commands::stop)),
        ("POST", "/api/runs/{project}/{run}/cancel", post(commands::cancel)),
        ("POST", "/api/runs/{project}/{run}/limits", post(commands::limits)),
        ("POST", "/api/runs/{project}/{run}/tell", post(commands::tell)),
    ]
}

impl App {
    pub(crate) fn new(options: ServerOptions, token: ServerToken, hosts: Hosts) -> Self {
        Self {
            user_dir: options.user_dir,
            project: options.project,
            roots: options.roots,
            token,
            hosts,
            is_read_only: options.is_read_only,
            budget_max: options.budget_max,
            program: options.program,
            version: options.version,
            host: options.host,
            started_at: clock::now_ms(),
            shelf: Shelf::default(),
            changes: Changes::new(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }

    /// Runs work that reads files or blocks on another thread than the one that answers requests.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let app = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || work(&app)).await;
        done.unwrap_or_else(|_| {
            Err(ApiError::unreadable("the server failed at this; its terminal says why"))
        })
    }
}

/// All routes, behind the guard.
pub(crate) fn router(app: Arc<App>) -> Router {
    let mut router = Router::new();
    for (_, path, handler) in routes() {
        router = router.route(path, handler);
    }
    router
        .route("/", get(page::index))
        .route("/{*name}", get(page::file))
        .route("/api", get(no_route))
        .route("/api/{*rest}", get(no_route).post(no_route))
        .fallback(no_route)
        .method_not_allowed_fallback(async || ApiError::method_not_allowed())
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn_with_state(Arc::clone(&app), guard::guard))
        .with_state(app)
}

async fn no_route() -> ApiError {
    ApiError::not_found("there is no such route").with_hint("raymond help api")
}

/// `GET /api/server`
async fn server(State(app): State<Arc<App>>) -> ApiResult<Json<Value>> {
    let projects = app.read(|app| Ok(app.projects())).await?;
    let projects: Vec<_> = projects.iter().map(Project::json).collect();
    Ok(Json(json!({
        "version": app.version, "now": clock::now_ms(), "started_at": app.started_at,
        "is_read_only": app.is_read_only, "budget_max_usd": app.budget_max, "projects": projects,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn described_routes_are_those_that_there_are() {
        let described: Value =
            serde_json::from_str(include_str!("../../../docs/api.openapi.json")).unwrap();
        let mut described: Vec<_> = described["paths"]
            .as_object()
            .into_iter()
            .flatten()
            .flat_map(|(path, methods)| {
                let methods = methods.as_object().into_iter().flatten();
                methods.map(|(method, _)| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
            })
            .collect();
        let routes = routes();
        let mut there: Vec<_> =
            routes.iter().map(|(m, path, _)| ((*m).to_owned(), (*path).to_owned())).collect();
        described.sort();
        there.sort();
        assert_eq!(described, there);
        let document = include_str!("../../../docs/api.md");
        for (method, path) in there {
            assert!(document.contains(&format!("| `{method} {path}` |")), "{method} {path}");
        }
    }
}
