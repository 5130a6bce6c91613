//! What is shown of runs, also of those that another process owns. Nothing here changes a run.

pub mod answers;
pub mod debug;
pub mod follower;
pub mod overview;
pub(crate) mod tails;
pub mod transcript;
pub mod views;
pub mod watch;
