//! End-to-end tests of the program: real processes, real signals, real files. `tests/windows` has those for
//! Windows.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
#![allow(clippy::disallowed_methods, reason = "tests print for those who run them")]

mod ask_faults;
mod asks;
#[cfg(unix)]
mod attacks;
mod authoring;
mod browser;
mod chromium;
mod claude;
mod cluster;
mod conformance;
mod debug;
mod documents;
mod door;
mod env;
mod examples;
mod face;
mod failover;
mod faults;
mod guide;
mod handover;
mod input;
mod joins;
mod mistakes;
mod one_file;
mod page;
mod pasted;
mod portable;
mod printed;
mod private;
mod recovery;
mod rehearsals;
mod results;
mod retention;
mod rewinding;
mod screen;
mod scripts;
#[cfg(feature = "serve")]
mod serve;
mod sessions;
mod shared_limits;
mod show;
mod shuffled;
mod special_files;
mod stopped;
mod subworkflows;
mod terminal;
mod trust;
mod turns;
mod versions;
mod worktrees;
