//! Archives: read whole, bounded, and refused unless they are just what a workflow may be.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::Path,
};

use thiserror::Error;

use crate::private;
use zip::{ZipArchive, result::ZipError};

use crate::regular;

/// More state files than anybody writes.
pub(super) const FILES_MAX: usize = 1_000;
/// Those, a file of Finder's for each of them, and a few folders.
const ENTRIES_MAX: usize = 3 * FILES_MAX;
/// Larger than any prompt a model can read.
pub(super) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// All of it stays in memory for a moment.
pub(super) const TOTAL_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// All files as they are, and as much again for their names and for what is passed over.
const ARCHIVE_BYTES_MAX: u64 = 2 * TOTAL_BYTES_MAX;

/// Why an archive is refused.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// Not an archive, or damaged.
    #[error("it cannot be read as a zip archive")]
    Zip(#[from] ZipError),
    /// The file system says no.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// A name that leads out of the archive, or that is no file name.
    #[error("`{name}` is not a safe file name")]
    UnsafeName {
        /// The name.
        name: String,
    },
    /// A link.
    #[error("`{name}` is a symbolic link")]
    Symlink {
        /// Its name.
        name: String,
    },
    /// A file that needs a password.
    #[error("`{name}` is encrypted")]
    Encrypted {
        /// Its name.
        name: String,
    },
    /// Two files of one name: which of them is meant?
    #[error("it has two files of the same name")]
    DuplicateNames,
    /// Two files that some file systems cannot tell apart.
    #[error("`{first}` and `{second}` have the same name where case does not matter")]
    Duplicate {
        /// The one.
        first: String,
        /// The other.
        second: String,
    },
    /// Neither flat nor one folder.
    #[error("`{name}` lies in a folder: state files lie at the top, or all in one folder")]
    Nested {
        /// The file.
        name: String,
    },
    /// Too many files.
    #[error("it has more than {FILES_MAX} files")]
    TooMany,
    /// Too large a file, or too much in all.
    #[error("`{name}` makes it larger than the {limit} bytes that are allowed")]
    TooLarge {
        /// The file.
        name: String,
        /// The limit that it passes.
        limit: u64,
    },
}

/// The files of the archive at `path`, by their names in the scope.
pub(super) fn read(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, ArchiveError> {
    let mut files = read_all(path)?;
    files.retain(|name, _| !name.starts_with(TESTS));
    Ok(files)
}

/// Writes the tests that the archive at `path` holds into `folder`, and tells how many files that were.
pub fn extract_tests(path: &Path, folder: &Path) -> Result<usize, ArchiveError> {
    let files = read_all(path)?;
    let tests = files.iter().filter_map(|(name, bytes)| Some((name.strip_prefix(TESTS)?, bytes)));
    let mut count = 0;
    for (name, bytes) in tests {
        private::create_dir_all(folder)?;
        private::write(&folder.join(name), bytes)?;
        count += 1;
    }
    Ok(count)
}

/// The same with the tests, whose names begin with their folder.
fn read_all(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, ArchiveError> {
    let file = regular::open(path)?;
    if file.metadata()?.len() > ARCHIVE_BYTES_MAX {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Err(ArchiveError::TooLarge { name, limit: ARCHIVE_BYTES_MAX });
    }
    let mut archive = ZipArchive::new(file)?;
    if archive.len() > ENTRIES_MAX {
        return Err(ArchiveError::TooMany);
    }
    if archive.has_duplicate_names() {
        return Err(ArchiveError::DuplicateNames);
    }
    let mut files = BTreeMap::new();
    let mut total = 0;
    for index in 0..archive.len() {
        let raw = archive.by_index_raw(index)?;
        let name = raw.name()?.into_owned();
        let is_absolute = name.starts_with('/');
        if is_absolute || raw.enclosed_name().is_none() || name.contains(['\\', '\0', ':']) {
            return Err(ArchiveError::UnsafeName { name });
        }
        if is_passed_over(&name) {
            continue;
        }
        if raw.encrypted() {
            return Err(ArchiveError::Encrypted { name });
        }
        if raw.is_symlink() {
            return Err(ArchiveError::Symlink { name });
        }
        if raw.is_dir() {
            continue;
        }
        if files.len() == FILES_MAX {
            return Err(ArchiveError::TooMany);
        }
        drop(raw);
        // What the archive says about sizes is not believed: reading stops at the limit.
        let left = TOTAL_BYTES_MAX - total;
        let mut bytes = Vec::new();
        archive.by_index(index)?.take(FILE_BYTES_MAX.min(left) + 1).read_to_end(&mut bytes)?;
        for (room, limit) in [(FILE_BYTES_MAX, FILE_BYTES_MAX), (left, TOTAL_BYTES_MAX)] {
            if bytes.len() as u64 > room {
                return Err(ArchiveError::TooLarge { name, limit });
            }
        }
        total += bytes.len() as u64;
        files.insert(name, bytes);
    }
    flatten(files)
}

/// The folder of a workflow's tests, beside the states. It is no part of the scope: a run never sees it.
pub(super) const TESTS: &str = "tests/";

/// Whether a file was put there by a file manager and not by the author: resource forks and folder
/// settings of macOS, thumbnails and folder settings of Windows. They are never read.
pub(super) fn is_passed_over(name: &str) -> bool {
    let (top, own) = (name.split('/').next(), name.rsplit('/').next().unwrap_or_default());
    let is_windows = |of: &str| own.eq_ignore_ascii_case(of);
    top == Some("__MACOSX")
        || own == ".DS_Store"
        || own.starts_with("._")
        || is_windows("Thumbs.db")
        || is_windows("desktop.ini")
}

/// Takes the one top-level folder away, if everything lies in one.
fn flatten(files: BTreeMap<String, Vec<u8>>) -> Result<BTreeMap<String, Vec<u8>>, ArchiveError> {
    let folder = files.keys().next().and_then(|name| name.split_once('/'));
    let prefix = folder.map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let is_one_folder = files.keys().all(|name| name.starts_with(&prefix));
    let mut flat = BTreeMap::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (name, bytes) in files {
        let own = if is_one_folder { name.strip_prefix(&prefix) } else { None };
        let own = own.unwrap_or(&name).to_owned();
        let last = own.strip_prefix(TESTS).unwrap_or(&own);
        if last.contains('/') {
            return Err(ArchiveError::Nested { name });
        }
        if last.is_empty() || last == "." || last == ".." {
            return Err(ArchiveError::UnsafeName { name });
        }
        if let Some(first) = seen.insert(own.to_lowercase(), own.clone()) {
            return Err(ArchiveError::Duplicate { first, second: own });
        }
        flat.insert(own, bytes);
    }
    Ok(flat)
}

/// Writes the files of an archive to a private folder, in the place of what was there.
pub(super) fn extract(path: &Path, folder: &Path) -> Result<(), ArchiveError> {
    let files = read(path)?;
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    private::create_dir_all(folder)?;
    for (name, bytes) in files {
        private::write(&folder.join(name), bytes)?;
    }
    Ok(())
}
