//! Copies files into the directory of a question: those that it shows, and those that come with its answer.

use std::{
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::trust::{private, regular, seal::hex};

/// The largest file that is shown or handed over. It is copied while the run waits.
pub(crate) const FILE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// The largest total size of the files of one answer.
pub(crate) const UPLOAD_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// How many files can be handed over with an answer.
pub(crate) const UPLOADS_MAX: usize = 64;
/// The longest name of a copy: what file systems allow, less room for a number.
const NAME_BYTES_MAX: usize = 200;

/// A file that was copied.
#[derive(Debug)]
pub(super) struct Copied {
    pub(super) bytes: u64,
    pub(super) sha256: String,
}

/// Checks that a file can be shown: regular, not too large, and reached without a link out of `folder`.
pub(crate) fn check(folder: &Path, path: &str) -> io::Result<()> {
    let size = regular::open_below(folder, Path::new(path))?.metadata()?.len();
    if size > FILE_BYTES_MAX { Err(too_large()) } else { Ok(()) }
}

/// Copies an open file to `to`, durably.
pub(super) fn copy(from: File, to: &Path) -> io::Result<Copied> {
    let mut copy = private::options().create(true).truncate(true).write(true).open(to)?;
    // The file may grow while it is read.
    let mut rest = from.take(FILE_BYTES_MAX + 1);
    let mut hash = Sha256::new();
    let mut bytes = 0;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = rest.read(&mut buffer)?;
        let Some(part) = buffer.get(..length).filter(|part| !part.is_empty()) else { break };
        hash.update(part);
        copy.write_all(part)?;
        bytes += part.len() as u64;
    }
    if bytes > FILE_BYTES_MAX {
        return Err(too_large());
    }
    copy.sync_all()?;
    Ok(Copied { bytes, sha256: hexadecimal(hash) })
}

/// The bytes of a copy, if they still are those with this SHA-256.
pub(super) fn read_unchanged(file: File, sha256: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if hexadecimal(Sha256::new_with_prefix(&bytes)) != sha256 {
        let message = "it has changed since the question was asked";
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    Ok(bytes)
}

fn hexadecimal(hash: Sha256) -> String {
    hex(&hash.finalize())
}

/// Copies `files` into the new directory `to`, each under its own name, durably.
pub(super) fn upload(files: &[PathBuf], to: &Path) -> Result<(), (PathBuf, io::Error)> {
    let fail = |path: &Path, message: String| (path.to_owned(), io::Error::other(message));
    if let Some(path) = files.get(UPLOADS_MAX) {
        let message = format!("at most {UPLOADS_MAX} files can be handed over");
        return Err(fail(path, message));
    }
    // The outer one first: nothing is made behind a link in its place.
    let made = to.parent().into_iter().chain([to]).try_for_each(private::create_dir_all);
    made.map_err(|error| (to.to_owned(), error))?;
    let mut total = 0;
    for path in files {
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            return Err(fail(path, "its name cannot be used".to_owned()));
        };
        if name.len() > NAME_BYTES_MAX {
            return Err(fail(path, format!("its name has more than {NAME_BYTES_MAX} bytes")));
        }
        let target = to.join(name);
        if target.exists() {
            return Err(fail(path, "another file of the same name is handed over, too".to_owned()));
        }
        let copied = regular::open_linked(path).and_then(|file| copy(file, &target));
        total += copied.map_err(|error| (path.clone(), error))?.bytes;
        if total > UPLOAD_BYTES_MAX {
            let message = format!("the files together exceed {UPLOAD_BYTES_MAX} bytes");
            return Err(fail(path, message));
        }
    }
    let synced = to.ancestors().take(2).try_for_each(crate::sys::sync_folder);
    synced.map_err(|error| (to.to_owned(), error))
}

/// The name of the copy of an attachment: the number distinguishes two files with the same name.
pub(super) fn copy_name(number: usize, path: &str) -> String {
    let name = Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or("file");
    let end = (0..=NAME_BYTES_MAX.min(name.len())).rev().find(|at| name.is_char_boundary(*at));
    let name = name.get(..end.unwrap_or_default()).unwrap_or_default();
    format!("{number}_{name}")
}

fn too_large() -> io::Error {
    let message = format!("it exceeds the limit of {FILE_BYTES_MAX} bytes");
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}
