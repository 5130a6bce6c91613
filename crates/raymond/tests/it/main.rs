//! The program as its users meet it: real processes, real signals, real files.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

mod env;
mod faults;
mod handover;
mod portable;
mod recovery;
mod scripts;
mod turns;
