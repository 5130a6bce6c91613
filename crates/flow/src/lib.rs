//! The workflow language of Raymond. Pure: it touches no files, processes, clock, environment or
//! randomness.

pub mod id;
pub mod money;
pub mod policy;
pub mod prompt;
pub mod scope;
pub mod source;
pub mod tag;
pub mod text;
pub mod world;
