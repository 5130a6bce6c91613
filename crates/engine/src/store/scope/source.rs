//! Resolves the path that the user gave for a workflow.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    id::StateName,
    scope::{EntryError, Listing, entry, workflow_folders},
    source::{Platform, StateKind, StateKindError},
};
use thiserror::Error;

use super::{ArchiveError, archive};

/// A workflow that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeSource {
    /// The absolute path of the directory or archive.
    pub path: PathBuf,
    /// The entry state.
    pub entry: StateName,
    /// The name from which the id of a run is made, unless the user gives an id.
    pub name: String,
}

/// Why a path cannot be used as a workflow.
#[derive(Debug, Error)]
pub enum ScopeError {
    /// The path does not exist or cannot be read.
    #[error("cannot open {}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The path is not UTF-8, and so cannot be written to the journal.
    #[error("the path {} is not valid UTF-8", path.display())]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// A file that is neither a state nor an archive.
    #[error(transparent)]
    Kind(#[from] StateKindError),
    /// The state files together exceed the limit.
    #[error("the state files in {} have more than {limit} bytes", path.display())]
    TooLarge {
        /// The directory.
        path: PathBuf,
        /// The limit in bytes.
        limit: u64,
    },
    /// A directory or archive without an entry state.
    #[error("{} cannot be started", path.display())]
    Entry {
        /// The directory or archive.
        path: PathBuf,
        /// What is wrong with its entry state.
        source: EntryError,
    },
    /// The archive cannot be read, or breaks a rule.
    #[error("{} is not a workflow", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// The rule that it breaks.
        source: ArchiveError,
    },
}

impl ScopeSource {
    /// Finds out whether `path` is a directory, an archive or a state file, and its entry state.
    pub fn open(path: &Path) -> Result<Self, ScopeError> {
        let io = |source| ScopeError::Io { path: path.to_owned(), source };
        let absolute = plain(fs::canonicalize(path).map_err(io)?);
        if absolute.to_str().is_none() {
            return Err(ScopeError::NotText { path: absolute });
        }
        let file_name =
            |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if absolute.is_dir() {
            let listing = list_folder(&absolute).map_err(io)?;
            let name = file_name(&absolute);
            return Self::with_entry(absolute, name, &listing);
        }
        if is_packed(&absolute) {
            let files = archive::read(&absolute)
                .map_err(|source| ScopeError::Archive { path: absolute.clone(), source })?;
            let name = absolute.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            return Self::with_entry(absolute, name, &Listing::new(files.into_keys()));
        }
        let state = file_name(&absolute);
        StateKind::of(&state, Platform::HERE)?;
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        let name = file_name(&folder);
        Ok(Self { path: folder, entry: StateName::new(state), name })
    }

    fn with_entry(path: PathBuf, name: String, listing: &Listing) -> Result<Self, ScopeError> {
        let first = entry(listing, Platform::HERE);
        let entry = first.map_err(|source| ScopeError::Entry { path: path.clone(), source })?;
        Ok(Self { path, entry, name })
    }
}

/// Removes the `\\?\` prefix that Windows puts before canonical paths: `cmd.exe` does not
/// understand it.
pub(super) fn plain(path: PathBuf) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_prefix(r"\\?\")) {
        Some(text) if cfg!(windows) && !text.starts_with("UNC") => PathBuf::from(text),
        _ => path,
    }
}

/// Whether `path` is a workflow in one file: its name ends in `.zip`, `.yaml` or `.yml`, and it is not a
/// directory.
pub fn is_packed(path: &Path) -> bool {
    has_extension(path, &["zip", "yaml", "yml"]) && !path.is_dir()
}

/// Whether a packed workflow is YAML.
pub fn is_yaml(path: &Path) -> bool {
    has_extension(path, &["yaml", "yml"])
}

fn has_extension(path: &Path, known: &[&str]) -> bool {
    let is_one = |extension: &std::ffi::OsStr| {
        known.iter().any(|known| extension.eq_ignore_ascii_case(known))
    };
    path.extension().is_some_and(is_one)
}

/// The subworkflows of the workflow in `folder`: their paths below it, each with a slash at its end.
pub fn subworkflows(folder: &Path) -> io::Result<Vec<String>> {
    let found = workflow_folders(|inner| list_folder(&folder.join(inner)))?;
    Ok(found.into_iter().map(|(path, _)| path).filter(|path| !path.is_empty()).collect())
}

/// The files and folders directly in `folder`. A link to a directory is neither: it may lead out of the scope.
pub(super) fn list_folder(folder: &Path) -> io::Result<Listing> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type();
        if kind.as_ref().is_ok_and(std::fs::FileType::is_dir) {
            names.push(format!("{name}/"));
        } else if !(kind.is_ok_and(|kind| kind.is_symlink()) && entry.path().is_dir()) {
            names.push(name);
        }
    }
    Ok(Listing::new(names))
}
