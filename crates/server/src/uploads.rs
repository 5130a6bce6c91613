//! Files that people upload to hand them over with an answer. Each waits in a directory of its own in the user's state
//! directory, under a random name, until an answer names it.

use std::{fs, path::PathBuf, sync::Arc, time::Duration};

use axum::{Json, extract::Request, http::header};
use raymond_engine::{store::user::UserDir, trust::private};
use serde_json::{Value, json};

use crate::{
    asks::FoundAsk,
    error::{ApiError, ApiResult},
    request::{NamedRun, body},
    token::random,
};

/// The largest file that can be handed over with an answer.
pub(crate) const UPLOAD_BYTES_MAX: usize = 25 * 1024 * 1024;
/// How long an upload waits for its answer.
const UPLOAD_LIFE: Duration = Duration::from_hours(1);
/// The most uploads that wait at a time: more than an answer can have.
const UPLOADS_MAX: usize = 40;
/// The most files of one answer.
const FILES_MAX: usize = 20;
/// The longest name of a file.
const NAME_BYTES_MAX: usize = 200;
/// The directory of all uploads.
const FOLDER: &str = "uploads";

/// `POST /api/asks/{project}/{run}/{ask}/files/{name}`
pub(crate) async fn upload(run: NamedRun, request: Request) -> ApiResult<Json<Value>> {
    const KIND: &str = "application/octet-stream";
    if request.headers().get(header::CONTENT_TYPE).is_none_or(|kind| kind != KIND) {
        return Err(ApiError::unsupported(KIND));
    }
    let (app, name) = (Arc::clone(&run.app), run.names.name.clone());
    if !is_plain(&name) {
        let message =
            "the name of the file: expected a name without `/`, `\\`, `:` and `.` at its beginning";
        return Err(ApiError::bad_request(message));
    }
    // Before the body is read: what nothing can be done with is not taken.
    FoundAsk::read(run, |_, asked| asked.check_open()).await?;
    let bytes = body(request, UPLOAD_BYTES_MAX).await?;
    app.read(move |app| {
        let uploads = app.user_dir.file(FOLDER);
        remove_old(&app.user_dir);
        if fs::read_dir(&uploads).is_ok_and(|waiting| waiting.count() >= UPLOADS_MAX) {
            let message = format!("{UPLOADS_MAX} uploads wait for their answers");
            return Err(ApiError::refused(message).with_hint("give an answer with them"));
        }
        let failed = |error| ApiError::unreadable(format!("cannot keep the file: {error}"));
        let id = random().map_err(failed)?;
        let folder = uploads.join(&id);
        private::create_dir_all(&folder).map_err(failed)?;
        private::write(&folder.join(&name), &bytes).map_err(failed)?;
        Ok(Json(json!({ "file": id, "bytes": bytes.len() })))
    })
    .await
}

/// Whether a name from a request is a plain file name, not a path.
pub(crate) fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && !name.contains(|c: char| c.is_control() || matches!(c, '/' | '\\' | ':'))
}

/// Removes uploads that no answer has named for long.
pub(crate) fn remove_old(user_dir: &UserDir) {
    for entry in fs::read_dir(user_dir.file(FOLDER)).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|data| data.modified()).map(|at| at.elapsed());
        if matches!(age, Ok(Ok(age)) if age > UPLOAD_LIFE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The uploads that an answer names.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    folders: Vec<PathBuf>,
    pub(crate) files: Vec<PathBuf>,
}

impl Uploads {
    /// Those with these names, which the server has chosen.
    pub(crate) fn named(user_dir: &UserDir, names: &[String]) -> ApiResult<Self> {
        if names.len() > FILES_MAX {
            return Err(ApiError::bad_request(format!("`files`: at most {FILES_MAX}")));
        }
        let mut found = Self::default();
        for name in names {
            let none = || ApiError::bad_request(format!("`files`: there is no upload `{name}`"));
            if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(none());
            }
            let folder = user_dir.file(FOLDER).join(name);
            let entries = fs::read_dir(&folder).map_err(|_| none())?;
            found.files.extend(entries.flatten().map(|entry| entry.path()));
            found.folders.push(folder);
        }
        Ok(found)
    }

    /// Removes them: they were handed over.
    pub(crate) fn remove(self) {
        for folder in self.folders {
            let _ = fs::remove_dir_all(folder);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_uploads_that_waited_for_long_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let user_dir = UserDir::new(home.path());
        for (name, age) in [("a0", Duration::ZERO), ("b1", 2 * UPLOAD_LIFE)] {
            let folder = user_dir.file(FOLDER).join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("x.txt"), name).unwrap();
            let at = SystemTime::now() - age;
            fs::File::open(&folder).unwrap().set_modified(at).unwrap();
        }
        remove_old(&user_dir);
        assert_eq!(Uploads::named(&user_dir, &["a0".to_owned()]).unwrap().files.len(), 1);
        Uploads::named(&user_dir, &["b1".to_owned()]).unwrap_err();
    }

    #[test]
    fn only_names_that_the_server_chose_are_uploads() {
        let home = tempfile::tempdir().unwrap();
        let user_dir = UserDir::new(home.path());
        fs::create_dir_all(user_dir.file(FOLDER)).unwrap();
        for name in ["", ".", "..", "../uploads", "/etc", "a/b", "0123456789abcdef"] {
            Uploads::named(&user_dir, &[name.to_owned()]).unwrap_err();
        }
        Uploads::named(&user_dir, &vec![String::new(); FILES_MAX + 1]).unwrap_err();
    }
}
