//! Shows the runs of a user in a browser, and lets people start, stop and resume them.
//!
//! ```text
//! request ─► guard (Host, Origin, token) ─► handler ─► files of runs          reading: shelf, overview
//!                                                   └► `raymond stop --json`  changing: commands
//! ```
//!
//! The server owns no run. It reads what is on disk and acts through the commands of `raymond`, so it can be killed,
//! started twice or upgraded at any time, and no run notices. It keeps nothing in memory that a restart would lose.
//! `docs/api.md` describes the interface; the page under `page/` uses nothing else.
//!
//! Suggested reading order: `app` (the table of routes), `guard`, `shelf`, `streams`, `commands`.

mod app;
mod asks;
mod changes;
mod commands;
mod connections;
mod diff;
mod error;
mod graph;
mod guard;
mod listen;
mod markdown;
mod page;
mod projects;
mod request;
mod runs;
mod shelf;
mod steps;
mod streams;
#[cfg(test)]
mod tests;
mod token;
mod transcript;
mod uploads;
mod workflows;
mod worktrees;

use std::{net::IpAddr, path::PathBuf, sync::Arc};

use raymond_engine::{
    agent::Agents,
    store::{layout::StateDir, user::UserDir},
};
use raymond_flow::{machine::Run, money::Usd};

pub use listen::{Bound, ServeError};
pub use token::last_link;

/// What the program around the server knows: settings, and words for people.
pub trait Host: Send + Sync + 'static {
    /// The coding agents of a project, to understand what their turns print.
    fn agents(&self, state_dir: &StateDir) -> Agents;

    /// The budget of a new run in a project; `None` is no limit.
    fn budget(&self, state_dir: &StateDir) -> Option<Usd>;

    /// What a person can type about a run. `status` is its status in a word.
    fn next(&self, state_dir: &StateDir, run: &Run, status: &str) -> Option<String>;
}

/// How the server is started.
pub struct ServerOptions {
    /// Where it keeps its token, and finds the projects of the user.
    pub user_dir: UserDir,
    /// Only this project, not all of the user's.
    pub project: Option<StateDir>,
    /// Directories whose workflows can be started; empty means those of the projects.
    pub roots: Vec<PathBuf>,
    /// Where it listens; `None` is the loopback.
    pub address: Option<IpAddr>,
    /// On which port; `None` takes a free one near the usual one.
    pub port: Option<u16>,
    /// Names under which it may be asked, besides those of the loopback.
    pub hosts: Vec<String>,
    /// Whether it changes nothing.
    pub is_read_only: bool,
    /// The highest budget that a run can be given through it; `None` is no limit.
    pub budget_max: Option<Usd>,
    /// This program, which carries out changes.
    pub program: PathBuf,
    /// Its version.
    pub version: String,
    /// What the program around it knows.
    pub host: Arc<dyn Host>,
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions").field("project", &self.project).finish_non_exhaustive()
    }
}
