//! From the name in a tag to the file that it means.
//!
//! A scope is flat: the files of one folder, or of one archive. [`resolve`] finds the state that
//! a name stands for on a platform, [`entry`] the state with which a folder starts.

mod listing;
mod resolve;

pub use listing::Listing;
pub use resolve::{ENTRY_STEMS, EntryError, ResolveError, entry, resolve};
