//! The system calls that the standard library does not have, each behind a safe function.
//!
//! The only place of this crate with `unsafe`. `unix` and `windows` have the same functions; `linux` and
//! `program` have those that only the keeper needs, `portable` their replacements on other systems, and
//! `job` the process trees of Windows.

pub mod clock;
#[cfg(windows)]
mod job;
#[cfg(not(portable))]
mod linux;
mod portable;
#[cfg(unix)]
mod processes;
#[cfg(not(portable))]
mod program;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(windows)]
pub use job::Tree;
#[cfg(not(portable))]
pub(crate) use linux::*;
#[cfg(unix)]
pub use portable::Tree;
pub(crate) use portable::*;
#[cfg(unix)]
pub(crate) use processes::*;
#[cfg(not(portable))]
pub(crate) use program::*;
#[cfg(unix)]
pub use unix::discard_input;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub use windows::discard_input;
#[cfg(windows)]
pub(crate) use windows::*;
