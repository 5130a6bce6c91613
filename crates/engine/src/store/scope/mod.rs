//! Workflows on disk (a file, a directory or an archive), and the [`World`](raymond_flow::world::World)
//! that a run reads.

mod archive;
mod files;
mod pack;
mod source;
#[cfg(test)]
mod tests;
mod world;

pub use archive::{ArchiveError, extract_with_tests};
pub use files::WorkflowFiles;
pub use pack::{PackError, bundle, pack, pack_yaml, unpack};
pub use source::{ScopeError, ScopeSource, is_packed, is_yaml, subworkflows};
pub(crate) use world::DiskWorld;
