//! Workflows on disk: a file, a folder or an archive, and the world as a run sees it.

mod archive;
mod files;
mod pack;
mod source;
#[cfg(test)]
mod tests;
mod world;

pub use archive::{ArchiveError, extract_tests};
pub use files::WorkflowFiles;
pub use pack::{PackError, pack};
pub use source::{ScopeError, ScopeSource, is_archive};
pub(crate) use world::DiskWorld;
