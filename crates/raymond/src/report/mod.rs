//! What people and programs see of a run.

mod findings;
mod json;
mod lines;
mod live;
mod status;
pub(crate) mod time;
pub(crate) mod words;

pub(crate) use findings::{Sources, as_json, as_text};
pub(crate) use json::JsonLines;
pub(crate) use lines::Lines;
pub(crate) use live::Live;
pub(crate) use status::describe;
