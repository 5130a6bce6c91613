//! What people and programs see of a run.

mod json;
mod lines;
mod live;
mod status;
pub(crate) mod time;
pub(crate) mod words;

pub(crate) use json::JsonLines;
pub(crate) use lines::Lines;
pub(crate) use live::Live;
pub(crate) use status::describe;
