//! The page: files that are part of the program. A debug build reads them from disk, so that a change needs no build.

use axum::{
    body::Body,
    extract::Path,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::error::{Answer, ApiError};

/// A file of the page.
struct File {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

macro_rules! files {
    ($($name:literal $kind:literal),* $(,)?) => {
        &[$(File { name: $name, kind: $kind, bytes: include_bytes!(concat!("../page/", $name)) }),*]
    };
}

/// Every file, by its name in the URL.
static FILES: &[File] = files! {
    "index.html" "text/html; charset=utf-8",
};

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Answer<Response> {
    serve("index.html", &headers)
}

/// `GET /NAME`, a name that may have slashes
pub(crate) async fn file(Path(name): Path<String>, headers: HeaderMap) -> Answer<Response> {
    serve(&name, &headers)
}

fn serve(name: &str, headers: &HeaderMap) -> Answer<Response> {
    let file = FILES.iter().find(|file| file.name == name);
    let file = file.ok_or_else(|| ApiError::not_found("the page has no such file"))?;
    let bytes = contents(file);
    let tag = format!("\"{:08x}-{}\"", crc32fast::hash(&bytes), bytes.len());
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let common = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if known == Some(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    Ok((common, [(header::CONTENT_TYPE, file.kind)], Body::from(bytes)).into_response())
}

/// Its bytes. The name is one of ours, never the client's.
fn contents(file: &File) -> Vec<u8> {
    if cfg!(debug_assertions) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page").join(file.name);
        if let Ok(bytes) = std::fs::read(path) {
            return bytes;
        }
    }
    file.bytes.to_vec()
}
