//! Runs workflows on many machines, with Temporal as the engine that is trusted with queues, timers and lost workers.
//!
//! ```text
//!  raymond cluster start ──► Temporal ◄── raymond cluster worker (any number)
//!                               │             ├ the workflow `raymond_run`: decide, apply, settle of raymond-flow
//!                               │             └ the activity `step` ──orders──► raymond __host ──► keeper ──► child
//!                            history          ◄──────────────────── inputs ────┘
//! ```
//!
//! One Temporal workflow is one run, and its state is a [`Run`](raymond_flow::machine::Run). It decides; it reads only the
//! bundle of the workflow's files, which its hash pins. A step is an activity: the worker orders it from the host of that
//! run on its machine, a process of the local program with the local keeper and step directories.
//!
//! Suggested reading order: `messages`, `sequencer`, `stored`, `world`, `step_queue`, `workflow`, `hosts`, `sessions`, `checkouts`,
//! `activities`, `worker`, `commands`, `log`, `mirror`.

#![forbid(unsafe_code)]

#[expect(missing_docs, reason = "the macros generate items without documentation")]
pub mod activities;
mod bundles;
mod capacity;
mod checkouts;
mod cipher;
pub mod cli;
mod codec;
mod commands;
mod connection;
mod failure;
mod homes;
mod hosts;
mod labels;
mod log;
pub mod messages;
mod mirror;
mod queues;
mod replay;
mod sequencer;
mod sessions;
mod step_queue;
mod store;
mod stored;
mod worker;
#[expect(missing_docs, reason = "the macros generate items without documentation")]
pub mod workflow;
mod world;

pub use commands::run;
pub use failure::Failure;
