//! Workflows on disk: a file, a folder or an archive, and the world as a run sees it.

mod archive;
mod source;
#[cfg(test)]
mod tests;
mod world;

pub use archive::ArchiveError;
pub use source::{ScopeError, ScopeSource};
pub(crate) use world::DiskWorld;
