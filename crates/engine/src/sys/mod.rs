//! The system calls that the standard library does not have, each behind a safe function.
//!
//! The only place of this crate with `unsafe`. `unix` and `windows` offer the same to everybody;
//! `linux` and `program` have what the keeper needs beside it, `portable` what is done in its place elsewhere.

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

#[cfg(not(portable))]
pub(crate) use linux::*;
pub(crate) use portable::*;
#[cfg(unix)]
pub(crate) use processes::*;
#[cfg(not(portable))]
pub(crate) use program::*;
#[cfg(unix)]
pub(crate) use unix::*;
#[cfg(windows)]
pub(crate) use windows::*;
