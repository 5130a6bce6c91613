//! The program on Windows, as its users meet it: batch files, process trees, consoles, paths.
//!
//! On other systems nothing is left of it; `scripts/test` runs it there under Wine.

#![cfg(windows)]
#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
#![allow(clippy::disallowed_methods, reason = "tests print for those who run them")]

#[path = "../it/env.rs"]
#[allow(dead_code, reason = "the tests of other systems need more of it")]
mod env;
#[path = "../it/examples.rs"]
mod examples;
mod paths;
mod processes;
mod recovery;
mod scripts;
