//! Starts programs that end together with all their descendants, or that outlive this process.

use std::process::Command;

pub use crate::sys::Tree;

/// Prepares a program that outlives this process and its terminal: the terminal's Ctrl-C does not reach it, and
/// it does not keep our standard output open, whose end a reader may wait for.
pub fn set_apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(windows)]
    crate::sys::set_apart(command);
}
