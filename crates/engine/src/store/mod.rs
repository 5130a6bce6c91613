//! The files of runs and of their user: where they are, how they become durable, and when they are removed.

pub mod journal;
pub mod layout;
pub mod lock;
pub mod prune;
pub mod results;
pub(crate) mod retention;
pub(crate) mod room;
pub mod scope;
pub(crate) mod state_file;
pub mod user;
