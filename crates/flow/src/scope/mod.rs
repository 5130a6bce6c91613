//! Resolves the name in a tag to a file.
//!
//! A scope is the files of one directory or of one archive. [`resolve`] finds the state of one folder that
//! a name refers to on a platform, [`entry`] the state at which a workflow starts. [`Folder`] also finds the
//! states of subworkflows, which are folders in it.

mod folder;
mod listing;
mod resolve;

pub(crate) use folder::OR_IN_FOLDER;
pub use folder::{FOLDER_DEPTH_MAX, Folder, split_target, workflow_folders};
pub use listing::Listing;
pub use resolve::{ENTRY_STEMS, EntryError, ResolveError, entry, resolve};
