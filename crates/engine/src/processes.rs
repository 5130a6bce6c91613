//! Starting programs that end together with everything that they start, or that outlive this one.

use std::process::Command;

pub use crate::sys::Tree;

/// Prepares a program that is to outlive this one and its terminal: the terminal's Ctrl-C does not reach
/// it, and it does not keep our own outputs open, whose end a reader may wait for.
pub fn set_apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(windows)]
    crate::sys::set_apart(command);
}
