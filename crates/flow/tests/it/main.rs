//! The language as its documents describe it, one module per chapter.

#![allow(
    clippy::unwrap_used,
    clippy::needless_pass_by_value,
    clippy::case_sensitive_file_extension_comparisons,
    reason = "in tests a panic is the message, and names are what they are"
)]

mod asks;
mod continuing;
mod diagrams;
mod evaluators;
mod failover;
mod failures;
mod fixtures;
mod forks;
mod graph;
mod hostile;
mod joins;
mod journal;
mod limits;
mod messages;
mod one_file;
mod outputs;
mod own_questions;
mod policy;
mod properties;
mod resolution;
mod rewinding;
mod schema;
mod sessions;
mod sim;
mod spending;
mod state_files;
mod subworkflows;
mod tags;
mod templates;
mod transitions;
mod worktrees;
