//! The test kit itself: the model API as a client sees it, the program around it, and the real
//! Claude Code on it.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

mod claude;
mod client;
mod program;
mod replies;
mod requests;
