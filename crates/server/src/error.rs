//! Errors for clients: a status, a code for programs, a sentence for people.

use axum::{
    Json,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use raymond_engine::EngineError;
use serde::Deserialize;
use serde_json::json;

/// Why a request was not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ApiError {
    status: StatusCode,
    code: &'static str,
    message: String,
    /// What to do next.
    hints: Vec<String>,
}

/// A failure as a command of `raymond` prints it with `--json`; `docs/operations.md` describes it.
#[derive(Debug, Deserialize)]
struct PrintedFailure {
    error: CommandFailure,
}

#[derive(Debug, Deserialize)]
struct CommandFailure {
    kind: String,
    message: String,
    hints: Vec<String>,
}

/// The result of handling a request.
pub(crate) type ApiResult<T> = Result<T, ApiError>;

impl ApiError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into(), hints: Vec::new() }
    }

    /// A parameter or a body is wrong.
    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", message)
    }

    pub(crate) fn unauthorized() -> Self {
        let message = "this needs `Authorization: Bearer TOKEN`";
        let error = Self::new(StatusCode::UNAUTHORIZED, "unauthorized", message);
        error.with_hint("open the page with its token: raymond open")
    }

    pub(crate) fn forbidden(message: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, "forbidden", message)
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "not_found", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        let message = "this route does not take this method";
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message)
    }

    /// The failure of a command: the last line that it printed on standard error.
    pub(crate) fn of_command(printed: &str) -> Self {
        let last = printed.lines().last().unwrap_or_default();
        let Ok(PrintedFailure { error }) = serde_json::from_str(last) else {
            return Self::failed(format!("the command ended unexpectedly: {}", printed.trim()));
        };
        let new = match &*error.kind {
            "usage" => Self::bad_request,
            "not_found" => Self::not_found,
            "refused" => Self::refused,
            _ => Self::failed,
        };
        Self { hints: error.hints, ..new(error.message) }
    }

    /// A command failed, and not because of the request.
    pub(crate) fn failed(message: String) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
    }

    /// A change is not possible now.
    pub(crate) fn refused(message: impl Into<String>) -> Self {
        Self::new(StatusCode::CONFLICT, "refused", message)
    }

    pub(crate) fn too_large(bytes_max: usize) -> Self {
        let message = format!("the body has more than {bytes_max} bytes");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", message)
    }

    pub(crate) fn unsupported(expected: &str) -> Self {
        let message = format!("a POST here needs `Content-Type: {expected}`");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message)
    }

    pub(crate) fn misdirected() -> Self {
        let message = "the Host of this request is not a name of this server";
        let error = Self::new(StatusCode::MISDIRECTED_REQUEST, "misdirected", message);
        error.with_hint("behind a reverse proxy: raymond serve --listen ADDRESS --host NAME")
    }

    pub(crate) fn too_many_requests() -> Self {
        let message = "too many requests with a wrong token";
        Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many_requests", message)
    }

    /// Files cannot be read.
    pub(crate) fn unreadable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "unreadable", message)
    }

    pub(crate) fn busy(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message)
    }

    /// The same with what to do about it.
    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hints: vec![hint.into()], ..self }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let Self { status, code, message, hints } = self;
        let body = json!({ "error": { "code": code, "message": message, "hints": hints } });
        let mut response = (status, Json(body)).into_response();
        if status == StatusCode::TOO_MANY_REQUESTS {
            response.headers_mut().insert("retry-after", axum::http::HeaderValue::from(60));
        }
        response
    }
}

impl From<EngineError> for ApiError {
    fn from(error: EngineError) -> Self {
        let mut message = error.to_string();
        let mut next = std::error::Error::source(&error);
        while let Some(source) = next {
            message = format!("{message}: {source}");
            next = source.source();
        }
        match error {
            EngineError::NoSuchRun { .. } => Self::not_found(message),
            _ => Self::unreadable(message),
        }
    }
}
