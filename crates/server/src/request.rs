//! What requests name and carry, within limits: the run in their path, parameters and bodies.

use std::sync::Arc;

use axum::{
    body::Bytes,
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use raymond_flow::id::RunId;
use serde::{Deserialize, de::DeserializeOwned};

use crate::{
    app::App,
    error::{ApiError, ApiResult},
    projects::Project,
    shelf::{OpenRun, lock},
};

/// The largest body of a change: an input, and little else.
pub(crate) const BODY_BYTES_MAX: usize = 1024 * 1024;

/// The run that the path of a request names, with what else it names. Its journal was there a moment ago.
#[derive(Clone)]
pub(crate) struct NamedRun {
    pub(crate) app: Arc<App>,
    pub(crate) project: Project,
    pub(crate) id: RunId,
    pub(crate) names: Names,
}

/// The parts of a path; empty if it has none of that name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Names {
    project: String,
    run: String,
    pub(crate) step: String,
    pub(crate) agent: String,
    pub(crate) ask: String,
    /// A file.
    pub(crate) name: String,
}

impl FromRequestParts<Arc<App>> for NamedRun {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, ApiError> {
        let names = Path::<Names>::from_request_parts(parts, app).await;
        let Path(names) = names.map_err(|wrong| malformed(wrong.body_text()))?;
        let found = app.read(move |app| {
            let project = app.project(&names.project)?;
            let id = project.run(&names.run)?;
            Ok((project, id, names))
        });
        let (project, id, names) = found.await?;
        Ok(Self { app: Arc::clone(app), project, id, names })
    }
}

impl NamedRun {
    /// Reads the run, up to date, on a thread for that.
    pub(crate) async fn read<T: Send + 'static>(
        self,
        work: impl FnOnce(&Self, &mut OpenRun) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let app = Arc::clone(&self.app);
        app.read(move |_| {
            let run = self.open()?;
            work(&self, &mut lock(&run))
        })
        .await
    }

    /// The run with everything that is shown of it, up to date.
    pub(crate) fn open(&self) -> ApiResult<Arc<std::sync::Mutex<OpenRun>>> {
        self.app.open(&self.project, &self.id)
    }
}

/// A JSON object in the body of a request. A form of another site cannot send this content type.
pub(crate) struct Body<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        if !is_json(request.headers()) {
            return Err(ApiError::unsupported("application/json"));
        }
        let bytes = body(request, BODY_BYTES_MAX).await?;
        let wrong = |error: serde_json::Error| malformed(format!("the body: {error}"));
        serde_json::from_slice(&bytes).map(Self).map_err(wrong)
    }
}

/// A request that no client makes which follows the description.
fn malformed(message: String) -> ApiError {
    ApiError::bad_request(message).with_hint("see which fields there are: raymond help api")
}

/// The whole body of a request. The limit of its route, which counts what really comes, is `bytes_max`, too.
pub(crate) async fn body(request: Request, bytes_max: usize) -> Result<Bytes, ApiError> {
    refuse_longer(request.headers(), bytes_max)?;
    Bytes::from_request(request, &()).await.map_err(|refused| {
        if refused.status() == StatusCode::PAYLOAD_TOO_LARGE {
            ApiError::too_large(bytes_max)
        } else {
            ApiError::bad_request("the body was cut off")
        }
    })
}

/// Refuses a body whose declared length is too large, before any of it is read.
fn refuse_longer(headers: &HeaderMap, bytes_max: usize) -> Result<(), ApiError> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    let length = length.and_then(|length| length.parse::<usize>().ok()).unwrap_or(0);
    if length > bytes_max { Err(ApiError::too_large(bytes_max)) } else { Ok(()) }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let mut parts = kind.unwrap_or_default().split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|kind| kind.eq_ignore_ascii_case("application/json"));
    is_json && parts.all(|part| part.eq_ignore_ascii_case("charset=utf-8"))
}

/// The parameters of a request. Unknown ones are refused by the type.
pub(crate) struct Parameters<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Parameters<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(parameters) = query.map_err(|wrong| malformed(wrong.body_text()))?;
        Ok(Self(parameters))
    }
}
