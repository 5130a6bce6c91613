//! Resolves the name in a tag to a file.
//!
//! A scope is flat: the files of one directory or of one archive. [`resolve`] finds the state that
//! a name refers to on a platform, [`entry`] the state at which a workflow starts.

mod listing;
mod resolve;

pub use listing::Listing;
pub use resolve::{ENTRY_STEMS, EntryError, ResolveError, entry, resolve};
