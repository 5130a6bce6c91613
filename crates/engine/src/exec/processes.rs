//! Starts programs that end together with all their descendants, or that outlive this process.

use std::{io, process::Command};

use crate::exec::step::survivors;
pub use crate::sys::Tree;

/// A mark that a program and all its descendants have, whatever group or session they move to.
#[derive(Debug)]
pub struct Mark(String);

impl Mark {
    /// Marks the program that `command` starts.
    pub fn put_on(command: &mut Command) -> Self {
        let own = survivors::mark(&uuid::Uuid::new_v4().simple().to_string(), "setup");
        command.env(survivors::MARK, survivors::marks(std::env::var_os(survivors::MARK), &own));
        Self(own)
    }

    /// Kills all that have it.
    pub fn kill(&self) -> io::Result<()> {
        survivors::kill(&self.0).map(drop)
    }
}

/// Prepares a program that outlives this process and its terminal: the terminal's Ctrl-C does not reach it, and
/// it does not keep our standard output open, whose end a reader may wait for.
pub fn set_apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(windows)]
    crate::sys::set_apart(command);
}
