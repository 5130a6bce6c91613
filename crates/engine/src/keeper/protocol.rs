//! What orchestrator, keeper and reapers say to each other.
//!
//! The keeper hears requests on one socket, one JSON object a line, and answers the first with
//! `ok`. A step is handed over on another socket, which spare reapers listen on: whoever takes the
//! call reads a [`Launch`] on one line, gets everything ready, and starts when the next line says
//! `go`. A call that ends before is a step that must not start. If the step's child can be kept
//! for another step, that one comes on the same call, and the end of the call is the end of the
//! child. What becomes of steps comes as datagrams from the reapers: the bare name of a step's folder,
//! meaning "look at it".

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The keeper's socket in the run's folder.
pub(super) const KEEPER_SOCKET: &str = "keeper.sock";
/// Where spare reapers wait for steps.
pub(super) const STEPS_SOCKET: &str = "steps.sock";
/// What a reaper waits for before it starts anything.
pub(super) const GO: &[u8] = b"go\n";
/// Where folders are prepared for steps to come.
pub(crate) const SPARE_FOLDERS: &str = "spare";
/// Held for life by the one keeper of a run.
pub(super) const KEEPER_LOCK: &str = "keeper.lock";

/// A wish of the orchestrator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Request {
    /// Always the first: the environment that children inherit, as `NAME=value` bytes. Once it is
    /// answered, no step gets another.
    Hello { environment: Vec<Vec<u8>> },
    /// End everything and go.
    Shutdown,
}

/// A step to be started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Launch {
    /// The step's folder.
    pub(crate) folder: PathBuf,
    /// Whether the folder is there already, with something for the child in it. If it is not, a
    /// prepared one can take its place.
    pub(crate) has_folder: bool,
    /// The program, absolute, and its arguments.
    pub(crate) program: Vec<String>,
    /// Variables on top of what children inherit; an empty value does not unset anything.
    pub(crate) environment: Vec<(String, String)>,
    /// Variables that children must not inherit.
    #[serde(default)]
    pub(crate) without: Vec<String>,
    /// Where it runs.
    pub(crate) cwd: PathBuf,
    /// What it reads; `None` is nothing.
    pub(crate) stdin: Option<PathBuf>,
    /// What it prints, at the beginning of a line, when it is done and can be given more to read.
    /// It is then kept for another step that is handed over on the same call, until that call ends.
    #[serde(default)]
    pub(crate) done_mark: Option<String>,
    /// Files to be locked: nobody else may have the same conversation meanwhile.
    #[serde(default)]
    pub(crate) conversations: Conversations,
    /// How long it may print nothing; 0 is no limit.
    pub(crate) idle_seconds: u64,
    /// Whether output and exit record must survive a loss of power: somebody paid for them.
    pub(crate) is_durable: bool,
}

/// The conversations that a child has to itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Conversations {
    /// The one that it leads, for as long as it lives.
    pub(crate) own: Option<PathBuf>,
    /// The one that it begins with, for its first step.
    pub(crate) source: Option<PathBuf>,
}

impl Launch {
    /// The name of the step's folder, which is also what reapers call it.
    pub(super) fn name(&self) -> String {
        self.folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}
