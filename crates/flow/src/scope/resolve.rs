//! Which file of one folder the name of a state refers to on a platform.
//!
//! | written | Unix | Windows |
//! |---|---|---|
//! | `NEXT.md` | that file | that file |
//! | `NEXT.sh` | that file | wrong platform |
//! | `NEXT.bat` | wrong platform | that file |
//! | `NEXT` | `NEXT.md` or `NEXT.sh`, whichever exists; both are ambiguous | likewise with `.bat` |
//!
//! A script of the other platform is never a candidate, so a workflow may have both.

use thiserror::Error;

use crate::{
    id::StateName,
    source::{PROMPT_EXTENSION, Platform, StateKind, StateKindError},
    world::WorldError,
};

use super::{Listing, split_target};

/// The names of entry states.
pub const ENTRY_STEMS: [&str; 2] = ["1_START", "START"];

/// Why a name does not resolve to a state.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ResolveError {
    /// No file matches.
    #[error("{}", describe_missing(name, candidates, suggestion.as_deref()))]
    NotFound {
        /// The name as written.
        name: String,
        /// The file names that would match.
        candidates: Vec<String>,
        /// The file that was probably meant.
        suggestion: Option<String>,
    },
    /// Several files match.
    #[error("state `{name}` is ambiguous: {} all match", candidates.join(", "))]
    Ambiguous {
        /// The name as written.
        name: String,
        /// The files that exist.
        candidates: Vec<String>,
    },
    /// Only a script of the other platform matches.
    #[error("state `{name}` cannot run on {platform}: {} is for {}", candidates.join(", "), platform.other())]
    WrongPlatform {
        /// The name as written.
        name: String,
        /// The platform of the run.
        platform: Platform,
        /// The files of the other platform.
        candidates: Vec<String>,
    },
    /// A file that is not a state.
    #[error(transparent)]
    Unsupported(StateKindError),
    /// A subworkflow where only a state can stand.
    #[error(
        "`{name}` leads into a subworkflow, which only <call>, <function> and <fork> can enter"
    )]
    Subworkflow {
        /// The name as written.
        name: String,
    },
    /// No folder of this name.
    #[error("there is no subworkflow `{folder}`{}", meant(suggestion.as_deref()))]
    NoFolder {
        /// The folder as written, with its slash.
        folder: String,
        /// The folder that was probably meant.
        suggestion: Option<String>,
    },
    /// A folder without a usable entry state.
    #[error("`{folder}` is not a subworkflow: {}", explained(error))]
    NoStart {
        /// The folder.
        folder: String,
        /// What is wrong with its entry state.
        error: Box<EntryError>,
    },
    /// No such state in a subworkflow.
    #[error("in `{folder}`: {error}")]
    InFolder {
        /// The folder.
        folder: String,
        /// What is wrong with the name.
        error: Box<ResolveError>,
    },
    /// A subworkflow in too many others.
    #[error(
        "`{folder}` lies too deep: at most {} folders may lie in each other",
        super::FOLDER_DEPTH_MAX
    )]
    TooDeep {
        /// The folder.
        folder: String,
    },
    /// The folder could not be listed.
    #[error(transparent)]
    Unlisted(WorldError),
}

impl ResolveError {
    /// What is wrong with the name, and the subworkflow in which it was looked up; empty for the folder of the
    /// state that wrote it.
    pub fn in_its_folder(&self) -> (&str, &Self) {
        if let Self::InFolder { folder, error } = self { (folder, error) } else { ("", self) }
    }
}

fn meant(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!(" (did you mean `{name}`?)")).unwrap_or_default()
}

fn explained(error: &EntryError) -> String {
    match error {
        EntryError::Unusable(why) => format!("{error}: {why}"),
        EntryError::None { .. } | EntryError::Both { .. } => error.to_string(),
    }
}

/// Finds the state that `name` refers to.
pub fn resolve(
    listing: &Listing,
    name: &str,
    platform: Platform,
) -> Result<StateName, ResolveError> {
    if name.contains('/') && split_target(name).is_some() {
        return Err(ResolveError::Subworkflow { name: name.to_owned() });
    }
    match StateKind::of(name, platform) {
        Ok(_) if listing.contains(name) => Ok(StateName::new(name)),
        Ok(_) => Err(not_found(listing, name, vec![name.to_owned()])),
        Err(StateKindError::WrongPlatform { .. }) => Err(ResolveError::WrongPlatform {
            name: name.to_owned(),
            platform,
            candidates: vec![name.to_owned()],
        }),
        Err(unsupported @ StateKindError::Unsupported { .. }) => {
            resolve_abstract(listing, name, platform, unsupported)
        }
    }
}

/// Resolves a name without the extension of a state, such as `NEXT` or `v1.2`.
fn resolve_abstract(
    listing: &Listing,
    name: &str,
    platform: Platform,
    unsupported: StateKindError,
) -> Result<StateName, ResolveError> {
    let possible = [PROMPT_EXTENSION, platform.script_extension()]
        .map(|extension| format!("{name}{extension}"));
    let mut found: Vec<_> =
        possible.iter().filter(|file| listing.contains(file)).cloned().collect();
    match (found.pop(), found.is_empty()) {
        (Some(only), true) => return Ok(StateName::new(only)),
        (Some(last), false) => {
            found.push(last);
            return Err(ResolveError::Ambiguous { name: name.to_owned(), candidates: found });
        }
        (None, _) => {}
    }
    let elsewhere = format!("{name}{}", platform.other().script_extension());
    if listing.contains(&elsewhere) {
        let candidates = vec![elsewhere];
        return Err(ResolveError::WrongPlatform { name: name.to_owned(), platform, candidates });
    }
    if listing.contains(name) {
        return Err(ResolveError::Unsupported(unsupported));
    }
    Err(not_found(listing, name, possible.to_vec()))
}

fn not_found(listing: &Listing, name: &str, candidates: Vec<String>) -> ResolveError {
    let folder = format!("{name}/");
    let folder = listing.folders().find(|known| *known == folder);
    let suggestion = folder.or_else(|| listing.suggest(name)).map(str::to_owned);
    ResolveError::NotFound { name: name.to_owned(), candidates, suggestion }
}

fn describe_missing(name: &str, candidates: &[String], suggestion: Option<&str>) -> String {
    let neither = match candidates {
        [prompt, script] => format!(": there is neither {prompt} nor {script}"),
        _ => String::new(),
    };
    format!("state `{name}` not found{neither}{}", meant(suggestion))
}

/// Why a directory or archive has no entry state.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EntryError {
    /// Neither name exists.
    #[error("no entry state: expected 1_START or START, with the extension .md or {extension}")]
    None {
        /// The extension of scripts on this platform.
        extension: &'static str,
        /// The file that was probably meant.
        suggestion: Option<String>,
    },
    /// Both names exist.
    #[error("two entry states, {first} and {second}: keep only one")]
    Both {
        /// The file for `1_START`.
        first: StateName,
        /// The file for `START`.
        second: StateName,
    },
    /// An entry state exists but cannot be used.
    #[error("the entry state cannot be used")]
    Unusable(#[source] ResolveError),
}

/// Finds the state at which a directory or archive starts.
pub fn entry(listing: &Listing, platform: Platform) -> Result<StateName, EntryError> {
    let mut found = Vec::new();
    let mut unusable = None;
    for stem in ENTRY_STEMS {
        match resolve(listing, stem, platform) {
            Ok(state) => found.push(state),
            Err(ResolveError::NotFound { .. }) => {}
            // An ambiguous name is clearly the one that the author meant. A script of the other
            // platform matters only if there is no other candidate.
            Err(error @ ResolveError::Ambiguous { .. }) => return Err(EntryError::Unusable(error)),
            Err(error) => unusable = Some(error),
        }
    }
    let second = found.pop();
    match (found.pop(), second, unusable) {
        (Some(first), Some(second), _) => Err(EntryError::Both { first, second }),
        (None, Some(only), _) => Ok(only),
        (_, None, Some(error)) => Err(EntryError::Unusable(error)),
        (_, None, None) => {
            let suggestion = listing.suggest("START").map(str::to_owned);
            Err(EntryError::None { extension: platform.script_extension(), suggestion })
        }
    }
}
