//! What users and programs see of a run.

mod asks;
mod board;
mod complaint;
mod findings;
pub(crate) mod items;
mod json_lines;
mod lines;
mod live;
mod narrator;
mod next;
mod status;
mod summary;
pub(crate) mod time;
pub(crate) mod transcript;
mod watched;
pub(crate) mod words;

pub(crate) use asks::{asked_lines, question_json, question_lines};
pub(crate) use complaint::near;
pub(crate) use findings::{Placed, Sources, as_github, as_json, as_sarif, as_text};
pub(crate) use json_lines::JsonLines;
pub(crate) use lines::{Lines, warning};
pub(crate) use live::Live;
pub(crate) use narrator::Narrator;
pub(crate) use next::Next;
pub(crate) use status::{StatusReport, status_line};
pub(crate) use summary::{Gatherer, advice, summary_lines};

use raymond_engine::{run::events::Observer, store::layout::RunFiles};

use crate::out;

/// The observer for standard error: live if the terminal can redraw rows, else plain lines.
pub(crate) fn on_terminal(level: words::Level, files: Option<RunFiles>) -> Box<dyn Observer> {
    if out::can_redraw() {
        Box::new(Live::new(level, files))
    } else {
        Box::new(Lines::new(out::people(), level, files))
    }
}
