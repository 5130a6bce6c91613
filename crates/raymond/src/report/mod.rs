//! What people and programs see of a run.

mod findings;
mod json;
mod lines;
mod live;
mod status;
pub(crate) mod time;
pub(crate) mod transcript;
pub(crate) mod words;

pub(crate) use findings::{Sources, as_json, as_text};
pub(crate) use json::{JsonLines, closed};
pub(crate) use lines::Lines;
pub(crate) use status::describe;

use raymond_engine::events::Observer;

use crate::out;

/// Whoever tells a person on standard error: live if that is a terminal, else in plain lines.
pub(crate) fn on_terminal(level: words::Level) -> Box<dyn Observer> {
    let is_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if out::is_terminal() && !is_plain {
        Box::new(live::Live::new(level))
    } else {
        Box::new(Lines::new(out::people(), level))
    }
}
