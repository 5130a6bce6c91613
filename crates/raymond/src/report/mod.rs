//! What people see of a run.

mod console;
mod findings;

pub(crate) use console::Console;
pub(crate) use findings::{Sources, as_json, as_text};
