//! What somebody typed as a workflow, and what it means.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    id::StateName,
    scope::{EntryError, Listing, entry},
    source::{Platform, StateKind, StateKindError},
};
use thiserror::Error;

use super::{ArchiveError, archive};

/// A workflow that can be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeSource {
    /// The folder or the archive, absolute.
    pub path: PathBuf,
    /// The first state.
    pub entry: StateName,
    /// What a run of it is called if nobody says otherwise.
    pub name: String,
}

/// Why something is not a workflow.
#[derive(Debug, Error)]
pub enum ScopeError {
    /// It is not there, or cannot be read.
    #[error("cannot open {}", path.display())]
    Io {
        /// What was opened.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A path that is not text cannot be written to the journal.
    #[error("the path {} is not valid text", path.display())]
    NotText {
        /// The path.
        path: PathBuf,
    },
    /// A file, but no state and no archive.
    #[error(transparent)]
    Kind(#[from] StateKindError),
    /// State files that nobody has written by hand.
    #[error("the state files in {} have more than {limit} bytes", path.display())]
    TooLarge {
        /// The folder.
        path: PathBuf,
        /// The limit that they pass.
        limit: u64,
    },
    /// A folder or archive without a state to start with.
    #[error("{} cannot be started", path.display())]
    Entry {
        /// The folder or archive.
        path: PathBuf,
        /// Why not.
        source: EntryError,
    },
    /// An archive that is refused.
    #[error("{} is not a workflow", path.display())]
    Archive {
        /// The archive.
        path: PathBuf,
        /// Why not.
        source: ArchiveError,
    },
}

impl ScopeSource {
    /// Looks at what `path` is.
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
        if is_archive(&absolute) {
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

/// An absolute path as programs understand it. Windows has another way to write them, which its
/// own shell does not know.
pub(super) fn plain(path: PathBuf) -> PathBuf {
    match path.to_str().and_then(|text| text.strip_prefix(r"\\?\")) {
        Some(text) if cfg!(windows) && !text.starts_with("UNC") => PathBuf::from(text),
        _ => path,
    }
}

/// Whether a path is an archive, by its name: a folder may be called anything.
pub fn is_archive(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("zip"))
        && !path.is_dir()
}

/// The files directly in `folder`.
pub(super) fn list_folder(folder: &Path) -> io::Result<Listing> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A link to a folder is one, too.
        let is_folder = entry
            .file_type()
            .is_ok_and(|kind| kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()));
        if let (Ok(name), false) = (entry.file_name().into_string(), is_folder) {
            names.push(name);
        }
    }
    Ok(Listing::new(names))
}
