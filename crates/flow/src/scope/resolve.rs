//! Which file a state's name means on a platform.
//!
//! | written | Unix | Windows |
//! |---|---|---|
//! | `NEXT.md` | that file | that file |
//! | `NEXT.sh` | that file | wrong platform |
//! | `NEXT.bat` | wrong platform | that file |
//! | `NEXT` | `NEXT.md` or `NEXT.sh`, whichever exists; both are ambiguous | likewise with `.bat` |
//!
//! A script of the other platform is never a candidate, so a workflow may carry both.

use thiserror::Error;

use crate::{
    id::StateName,
    source::{PROMPT_EXTENSION, Platform, StateKind, StateKindError},
};

use super::Listing;

/// The names that start a folder or an archive.
pub const ENTRY_STEMS: [&str; 2] = ["1_START", "START"];

/// Why a name means no state.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ResolveError {
    /// No file fits.
    #[error("state `{name}` not found")]
    NotFound {
        /// The name as written.
        name: String,
        /// The file names that would have fitted.
        candidates: Vec<String>,
        /// What was probably meant.
        suggestion: Option<String>,
    },
    /// Several files fit.
    #[error("state `{name}` is ambiguous: {} all fit", candidates.join(", "))]
    Ambiguous {
        /// The name as written.
        name: String,
        /// The files that exist.
        candidates: Vec<String>,
    },
    /// Only a script of the other platform fits.
    #[error("state `{name}` cannot run on {platform}: {} is for {}", candidates.join(", "), platform.other())]
    WrongPlatform {
        /// The name as written.
        name: String,
        /// Where we are.
        platform: Platform,
        /// The files of the other platform.
        candidates: Vec<String>,
    },
    /// A file, but not a state.
    #[error(transparent)]
    Unsupported(StateKindError),
}

/// Finds the state that `name` means.
pub fn resolve(
    listing: &Listing,
    name: &str,
    platform: Platform,
) -> Result<StateName, ResolveError> {
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

/// A name without an extension that means anything, such as `NEXT` or `v1.2`.
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
    let suggestion = listing.suggest(name).map(str::to_owned);
    ResolveError::NotFound { name: name.to_owned(), candidates, suggestion }
}

/// Why a folder has no state to start with.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum EntryError {
    /// Neither name is there.
    #[error("no entry state: expected 1_START or START, with the extension .md or {extension}")]
    None {
        /// The extension of scripts here.
        extension: &'static str,
        /// What was probably meant to be it.
        suggestion: Option<String>,
    },
    /// Both names are there.
    #[error("two entry states, {first} and {second}: only one may stay")]
    Both {
        /// The file for `1_START`.
        first: StateName,
        /// The file for `START`.
        second: StateName,
    },
    /// One is there, but cannot be used.
    #[error("the entry state cannot be used")]
    Unusable(#[source] ResolveError),
}

/// The state with which a folder or archive starts.
pub fn entry(listing: &Listing, platform: Platform) -> Result<StateName, EntryError> {
    let mut found = Vec::new();
    let mut unusable = None;
    for stem in ENTRY_STEMS {
        match resolve(listing, stem, platform) {
            Ok(state) => found.push(state),
            Err(ResolveError::NotFound { .. }) => {}
            // Two files for one name leave no doubt that this name was meant; a script of the
            // other platform matters only if nothing else is there.
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
