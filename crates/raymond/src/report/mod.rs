//! What people see of a run.

mod console;

pub(crate) use console::Console;
