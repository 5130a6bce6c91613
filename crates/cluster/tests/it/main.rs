//! The cluster with everything real: a Temporal server, workers in directories of their own, hosts, keepers, children.
//!
//! Needs `scripts/install-programs temporal seaweedfs` and the local program (`cargo build --workspace` in the repository's root).

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
#![allow(clippy::print_stderr, reason = "tests print for those who run them")]

mod checkouts;
mod connection;
mod continued;
mod differential;
mod encrypted;
mod env;
mod faults;
mod figures;
mod homes;
mod labels;
mod limits;
mod mirror;
mod network;
mod s3;
mod sessions;
mod storm;
mod upgrade;
