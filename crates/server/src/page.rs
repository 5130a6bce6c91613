//! The page: files that are part of the program. A debug build reads them from disk, so that a change needs no build.

use axum::{
    body::Body,
    extract::Path,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::error::{ApiError, ApiResult};

/// A file of the page.
struct PageFile {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        &[$(PageFile { name: $name, bytes: include_bytes!(concat!("../page/", $name)) }),*]
    };
}

/// Every file, by its name in the URL. Types and licences are not served.
#[rustfmt::skip]
static FILES: &[PageFile] = files! {
    "actions.js",
    "api.js",
    "format.js",
    "frame.js",
    "help.js",
    "html.js",
    "icon.svg",
    "index.html",
    "keys.js",
    "main.js",
    "needs.js",
    "parts/agents.js",
    "parts/attachments.js",
    "parts/bar.js",
    "parts/changes.js",
    "parts/cost.js",
    "parts/css.js",
    "parts/dialog.js",
    "parts/diff.js",
    "parts/graph.js",
    "parts/log.js",
    "parts/markdown.js",
    "parts/raw.js",
    "parts/row.js",
    "parts/settings.js",
    "parts/status.js",
    "parts/steps.js",
    "parts/time_axis.js",
    "parts/timeline.js",
    "parts/transcript.js",
    "parts/virtual.js",
    "router.js",
    "screen.js",
    "store.js",
    "style.css",
    "theme.js",
    "vendor/lit-html/directive-helpers.js",
    "vendor/lit-html/directive.js",
    "vendor/lit-html/directives/guard.js",
    "vendor/lit-html/directives/repeat.js",
    "vendor/lit-html/lit-html.js",
    "views/ask.js",
    "views/home.js",
    "views/run.js",
    "views/step.js",
    "views/unknown.js",
    "views/workflow.js",
    "views/workflows.js",
};

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> ApiResult<Response> {
    serve("index.html", &headers)
}

/// `GET /NAME`, a name that may have slashes
pub(crate) async fn file(Path(name): Path<String>, headers: HeaderMap) -> ApiResult<Response> {
    serve(&name, &headers)
}

fn serve(name: &str, headers: &HeaderMap) -> ApiResult<Response> {
    let file = FILES.iter().find(|file| file.name == name);
    let file = file.ok_or_else(|| ApiError::not_found("the page has no such file"))?;
    let bytes = contents(file);
    let tag = format!("\"{:08x}-{}\"", crc32fast::hash(&bytes), bytes.len());
    let known = headers.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    let common = [(header::ETAG, tag.clone()), (header::CACHE_CONTROL, "no-cache".to_owned())];
    if known == Some(&tag) {
        return Ok((StatusCode::NOT_MODIFIED, common).into_response());
    }
    Ok((common, [(header::CONTENT_TYPE, kind(file.name))], Body::from(bytes)).into_response())
}

/// Its bytes. The name is one of ours, never the client's.
fn contents(file: &PageFile) -> Vec<u8> {
    if cfg!(debug_assertions) {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("page").join(file.name);
        if let Ok(bytes) = std::fs::read(path) {
            return bytes;
        }
    }
    file.bytes.to_vec()
}

/// Its type, by the ending of its name.
fn kind(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("html") => "text/html; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    /// The names of the files below `folder`, with slashes.
    fn names_in(folder: &Path, before: &str) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for item in fs::read_dir(folder).unwrap() {
            let item = item.unwrap();
            let name = format!("{before}{}", item.file_name().to_str().unwrap());
            if item.file_type().unwrap().is_dir() {
                names.extend(names_in(&item.path(), &format!("{name}/")));
            } else {
                names.insert(name);
            }
        }
        names
    }

    #[test]
    fn every_file_of_the_page_is_part_of_the_program() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("page");
        let mut there = names_in(&folder, "");
        there.retain(|name| !name.ends_with(".d.ts") && !name.ends_with("/LICENSE"));
        let listed: BTreeSet<_> = FILES.iter().map(|file| file.name.to_owned()).collect();
        assert_eq!(listed, there);
        for file in FILES {
            assert_ne!(kind(file.name), "application/octet-stream", "{}", file.name);
        }
    }
}
