//! Starting a program that goes on when this one has ended.

use std::process::Command;

/// Prepares a program that is to outlive this one and its terminal: the terminal's Ctrl-C is not for
/// it, and it keeps none of our own outputs open, for whose end a reader may wait.
pub fn set_apart(command: &mut Command) {
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(command, 0);
    #[cfg(windows)]
    crate::sys::set_apart(command);
}
