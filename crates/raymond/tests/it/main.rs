//! The program as its users meet it: real processes, real signals, real files.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

mod authoring;
mod browser;
mod claude;
mod documents;
mod env;
mod face;
mod faults;
mod guide;
mod handover;
mod portable;
mod recovery;
mod rehearsals;
mod scripts;
mod stopped;
mod turns;
