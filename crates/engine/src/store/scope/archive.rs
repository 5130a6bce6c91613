//! Workflows in one file, zip archives and YAML: read into memory within limits, and rejected unless they are plain files of a workflow and its
//! subworkflows.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read},
    path::Path,
};

use raymond_flow::{
    one_file::{OneFile, OneFileError},
    scope::{Listing, workflow_folders},
};
use thiserror::Error;

use super::source::is_yaml;
use crate::trust::private;
use zip::{ZipArchive, result::ZipError};

use crate::trust::regular;

/// Far more state files than a workflow written by hand has.
pub(super) const FILES_MAX: usize = 1_000;
/// Room for the files, for one file of macOS's Finder for each of them, and for directories.
const ENTRIES_MAX: usize = 3 * FILES_MAX;
/// Larger than any prompt that a model can read.
pub(super) const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// All files are in memory at once while an archive is read.
pub(super) const TOTAL_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// All files uncompressed, and as much again for their names and for the files that are skipped.
pub(super) const ARCHIVE_BYTES_MAX: u64 = 2 * TOTAL_BYTES_MAX;

/// Why an archive is rejected.
#[derive(Debug, Error)]
pub enum ArchiveError {
    /// A one-file workflow with a mistake.
    #[error("line {0}")]
    Yaml(#[from] OneFileError),
    /// Not a zip archive, or a damaged one.
    #[error("it cannot be read as a zip archive")]
    Zip(#[from] ZipError),
    /// The file cannot be read.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// A name that leads out of the archive, or that is not a file name.
    #[error("`{name}` is not a safe file name")]
    UnsafeName {
        /// The name.
        name: String,
    },
    /// A name that cannot be unpacked on every platform.
    #[error("`{name}` cannot be the name of a file on Windows")]
    NotPortable {
        /// The name.
        name: String,
    },
    /// A symbolic link.
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
    /// Two files with the same name: it is undefined which of them counts.
    #[error("it has two files with the same name")]
    DuplicateNames,
    /// Two names that are the same on a case-insensitive file system.
    #[error("`{first}` and `{second}` differ only in case")]
    Duplicate {
        /// The name that comes first in the archive's order.
        first: String,
        /// The name that collides with it.
        second: String,
    },
    /// A file that is neither at the top level, nor in the one directory at the top, nor in a subworkflow.
    #[error(
        "`{name}` is in a subdirectory without an entry state: put all state files at the top level, or all in one \
         directory; a subworkflow has an entry state of its own"
    )]
    Nested {
        /// The file.
        name: String,
    },
    /// Too many files.
    #[error("it has more than {FILES_MAX} files")]
    TooMany,
    /// One file, or all files together, exceed a limit.
    #[error("`{name}` exceeds the limit of {limit} bytes")]
    TooLarge {
        /// The file.
        name: String,
        /// The limit in bytes, of one file or of the total.
        limit: u64,
    },
}

/// Reads the archive at `path`: contents by name in the scope.
pub(super) fn read(path: &Path) -> Result<Files, ArchiveError> {
    Ok(read_with_yaml(path)?.0)
}

/// Writes all files of the archive at `path` into `folder`, also the tests, which a run does not see.
pub fn extract_with_tests(path: &Path, folder: &Path) -> Result<(), ArchiveError> {
    write_files(&read_all(path)?, folder)
}

/// The same with the tests, whose names begin with their directory.
pub(super) fn read_all(path: &Path) -> Result<Files, ArchiveError> {
    if is_yaml(path) { Ok(read_yaml(path)?.read.files) } else { read_zip(path) }
}

/// The files of a workflow, by name.
pub(super) type Files = BTreeMap<String, Vec<u8>>;

/// A workflow in a YAML file, and where its states stand in it.
#[derive(Clone, Debug)]
pub(super) struct Yaml {
    /// The name of the file.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) read: OneFile,
}

/// The files that a run sees, and the YAML if `path` is one.
pub(super) fn read_with_yaml(path: &Path) -> Result<(Files, Option<Yaml>), ArchiveError> {
    let yaml = is_yaml(path).then(|| read_yaml(path)).transpose()?;
    let mut files = match &yaml {
        Some(yaml) => yaml.read.files.clone(),
        None => read_zip(path)?,
    };
    files.retain(|name, _| !is_test(name));
    Ok((files, yaml))
}

fn read_yaml(path: &Path) -> Result<Yaml, ArchiveError> {
    let text = regular::text_of(&regular::open_linked(path)?, path, ARCHIVE_BYTES_MAX)?;
    let read = OneFile::read(&text)?;
    if read.files.len() > FILES_MAX {
        return Err(ArchiveError::TooMany);
    }
    let mut total = 0;
    for (name, bytes) in &read.files {
        total += bytes.len() as u64;
        for (size, limit) in [(bytes.len() as u64, FILE_BYTES_MAX), (total, TOTAL_BYTES_MAX)] {
            if size > limit {
                return Err(ArchiveError::TooLarge { name: name.clone(), limit });
            }
        }
    }
    check_layout(&read.files, "")?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Yaml { name, text, read })
}

fn read_zip(path: &Path) -> Result<Files, ArchiveError> {
    let file = regular::open_linked(path)?;
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
        // The sizes that the archive claims are not trusted: reading stops at the limit.
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

/// The directory of a workflow's tests, beside the states. It is not part of the scope: a run never sees it.
pub(super) const TESTS: &str = "tests/";

/// Whether a file of a workflow is in the tests of the workflow or of one of its subworkflows.
fn is_test(name: &str) -> bool {
    own_folder(name).ends_with(TESTS)
}

/// The folder of a file with its slash; empty at the top.
fn own_folder(name: &str) -> &str {
    name.rfind('/').and_then(|at| name.get(..=at)).unwrap_or_default()
}

/// Whether a file comes from a file manager and not from the author: resource forks and directory
/// settings of macOS, thumbnails and directory settings of Windows. Such files are never read.
pub(super) fn is_passed_over(name: &str) -> bool {
    let (top, own) = (name.split('/').next(), name.rsplit('/').next().unwrap_or_default());
    let is_windows = |of: &str| own.eq_ignore_ascii_case(of);
    top == Some("__MACOSX")
        || own == ".DS_Store"
        || own.starts_with("._")
        || is_windows("Thumbs.db")
        || is_windows("desktop.ini")
}

/// Strips the top-level directory, if all files are in one.
fn flatten(files: Files) -> Result<Files, ArchiveError> {
    let folder = files.keys().next().and_then(|name| name.split_once('/'));
    let prefix = folder.map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
    let is_one_folder = files.keys().all(|name| name.starts_with(&prefix));
    let prefix = if is_one_folder { prefix } else { String::new() };
    let own = |name: &str| name.strip_prefix(&prefix).unwrap_or(name).to_owned();
    let files: BTreeMap<_, _> =
        files.into_iter().map(|(name, bytes)| (own(&name), bytes)).collect();
    check_layout(&files, &prefix)?;
    Ok(files)
}

/// Checks that every directory is a subworkflow or has the tests of one, and that a file system without case can
/// hold the files. `prefix` is what was before their names.
pub(super) fn check_layout(files: &Files, prefix: &str) -> Result<(), ArchiveError> {
    let listing = |folder: &str| Ok::<_, ArchiveError>(Listing::of_folder(files.keys(), folder));
    let folders: BTreeSet<_> =
        workflow_folders(listing)?.into_iter().map(|(path, _)| path).collect();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for name in files.keys() {
        let whole = || format!("{prefix}{name}");
        let folder = own_folder(name);
        let last = name.strip_prefix(folder).unwrap_or_default();
        if !folders.contains(folder.strip_suffix(TESTS).unwrap_or(folder)) {
            return Err(ArchiveError::Nested { name: whole() });
        }
        if last.is_empty() || last == "." || last == ".." {
            return Err(ArchiveError::UnsafeName { name: whole() });
        }
        if !name.split('/').all(is_portable) {
            return Err(ArchiveError::NotPortable { name: whole() });
        }
        // A file system without case would also put the files of two such folders into one.
        for path in [name.as_str(), folder] {
            match seen.insert(path.trim_end_matches('/').to_lowercase(), path.to_owned()) {
                Some(first) if first != path => {
                    let second = path.to_owned();
                    return Err(ArchiveError::Duplicate { first, second });
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a file system of Windows can hold a file or folder of this name.
fn is_portable(name: &str) -> bool {
    const DEVICES: [&str; 6] = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"];
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_uppercase();
    let port = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    let mut number = port.unwrap_or_default().chars();
    let is_port = number.next().is_some_and(|first| "0123456789¹²³".contains(first))
        && number.next().is_none();
    let has_bad = name.contains(|c: char| c.is_control() || "<>:\"|?*\\".contains(c));
    !(DEVICES.contains(&&*stem) || is_port || has_bad || name.ends_with(['.', ' ']))
}

/// Extracts an archive into a private directory and replaces the directory's previous contents. Returns its files, and the
/// YAML if it is one.
pub(super) fn extract(path: &Path, folder: &Path) -> Result<(Files, Option<Yaml>), ArchiveError> {
    let (files, yaml) = read_with_yaml(path)?;
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    write_files(&files, folder)?;
    Ok((files, yaml))
}

fn write_files(files: &Files, folder: &Path) -> Result<(), ArchiveError> {
    private::create_dir_all(folder)?;
    for (name, bytes) in files {
        private::create_dir_all(&folder.join(own_folder(name)))?;
        private::write(&folder.join(name), bytes)?;
    }
    Ok(())
}
