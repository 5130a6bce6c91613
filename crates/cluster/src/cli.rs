//! The command line of `raymond-cluster`, which `raymond cluster` runs.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use raymond_flow::source::is_label;

use crate::messages::steps_per_history;

/// The usual task queue.
const QUEUE: &str = "raymond";

/// Runs workflows on many machines, with Temporal.
#[derive(Debug, Parser)]
#[command(name = "raymond cluster", version)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Carry out steps on this machine, until Ctrl-C.
    Worker {
        #[command(flatten)]
        server: Server,
        /// Directory for the steps and settings of this worker. Each worker needs its own.
        #[arg(long, value_name = "DIR")]
        data_dir: PathBuf,
        /// The most steps at once.
        #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
        capacity: u32,
        /// Labels of this machine. It also carries out states whose `runs_on` names some of them.
        #[arg(long, value_name = "LABEL,…", value_delimiter = ',', value_parser = label)]
        labels: Vec<String>,
        /// Name of this worker, which no other has [default: a name that is kept in the directory].
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// After how many days without a step here the directories of a run are removed.
        #[arg(long, value_name = "DAYS", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=3650))]
        keep_days: u32,
    },
    /// Start a workflow. Options after WORKFLOW are those of `raymond start`.
    Start {
        #[command(flatten)]
        server: Server,
        /// After how many seconds without a sign of life a step counts as lost.
        #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(3..))]
        heartbeat: u64,
        /// After how many steps the history of the run is continued as a new one.
        #[arg(long, value_name = "N", hide = true, default_value_t = steps_per_history())]
        steps_per_history: u32,
        /// Where the agents work: in the same directory on all workers, or each in a checkout of its own on whichever
        /// worker has its step.
        #[arg(long, value_enum, default_value = "shared")]
        place: Place,
        /// Return at once, print the run's id, and do not mirror it here.
        #[arg(long)]
        detach: bool,
        /// The workflow, and options of `raymond start`.
        #[arg(
            required = true,
            value_name = "WORKFLOW",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        words: Vec<OsString>,
    },
    /// Keep a copy of a run in this project, for all other commands of raymond, until the run ends or rests.
    Mirror {
        #[command(flatten)]
        server: Server,
        #[command(flatten)]
        project: Project,
        /// The run.
        id: String,
    },
    /// List runs, the newest first.
    #[command(visible_alias = "ls")]
    List {
        #[command(flatten)]
        server: Server,
    },
    /// Show the state of a run as JSON, in the format of the state file.
    Show {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
    },
    /// Print the history of a run as JSON, for a report about a problem.
    History {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
    },
    /// Fetch the branches of a run that was started with `--place git` into a repository.
    Fetch {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
        /// A directory in the repository.
        #[arg(long, value_name = "DIR", default_value = ".")]
        directory: PathBuf,
    },
    /// Check before an upgrade that workers with this program can go on with runs that are running.
    Check {
        #[command(flatten)]
        server: Server,
        /// The runs [default: all that are running].
        #[arg(value_name = "ID")]
        ids: Vec<String>,
    },
    /// Wait until a run ends or rests.
    Wait {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
    },
    /// Stop a run so that it can be resumed.
    Stop {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
        /// Also stop the steps that are running.
        #[arg(long)]
        now: bool,
    },
    /// Cancel a run permanently and stop its processes.
    Cancel {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
    },
    /// Answer a question of a run.
    Answer {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
        /// The question, such as `main.1`.
        ask: String,
        /// The label of a choice, or the text.
        result: String,
        /// A comment on the choice.
        #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
        comment: String,
    },
    /// Change the limits of a run while it is running.
    Limit {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
        #[command(flatten)]
        limits: LimitOptions,
    },
    /// Resume a run that failed, was stopped or paused.
    Resume {
        #[command(flatten)]
        server: Server,
        /// The run.
        id: String,
        /// Budget of all agents together in US dollars; 0 is no limit.
        #[arg(long, value_name = "USD")]
        budget: Option<f64>,
        /// Return at once, and do not mirror it here.
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        project: Project,
    },
}

/// The variable with the path of the key file.
pub(crate) const KEY_FILE: &str = "RAYMOND_CLUSTER_KEY_FILE";

/// Where the agents of a run work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Place {
    /// In a directory that has the same path on all workers.
    Shared,
    /// Each in a checkout of its own.
    Git,
}

/// Where a run is mirrored.
#[derive(Clone, Debug, Args)]
pub(crate) struct Project {
    /// Directory for runs and settings [default: .raymond in the project].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

/// Limits to change; the others stay as they are.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct LimitOptions {
    /// Budget of all agents together in US dollars; 0 is no limit.
    #[arg(long, value_name = "USD")]
    pub(crate) budget: Option<f64>,
    /// Maximum number of states that all agents together enter; 0 is no limit.
    #[arg(long, value_name = "N")]
    pub(crate) max_iterations: Option<u64>,
    /// Maximum number of coding agent turns that run at once.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_parallel: Option<u32>,
}

/// Where Temporal and the store are.
#[derive(Clone, Debug, Args)]
pub(crate) struct Server {
    /// Address of the Temporal server, such as `localhost:7233` [default: that of Temporal's own settings].
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) temporal: Option<String>,
    /// Namespace [default: that of Temporal's own settings].
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Store for bundles and large payloads, the same for all: `file:///shared/raymond` or `s3://BUCKET/PREFIX`.
    #[arg(long, value_name = "URL", env = "RAYMOND_STORE")]
    pub(crate) store: String,
    /// File with the keys that encrypt what is stored and in histories, the same for all [default: nothing is encrypted].
    #[arg(long, value_name = "FILE", env = KEY_FILE)]
    pub(crate) key_file: Option<PathBuf>,
    /// Task queue of the workers.
    #[arg(long, value_name = "NAME", default_value = QUEUE)]
    pub(crate) queue: String,
}

impl Server {
    /// The options as they are typed.
    pub(crate) fn options(&self) -> Vec<(String, String)> {
        let queue = (self.queue != QUEUE).then_some(&self.queue);
        let key_file = self.key_file.as_ref().map(|path| path.display().to_string());
        let all = [
            ("--temporal", self.temporal.as_ref()),
            ("--namespace", self.namespace.as_ref()),
            ("--store", Some(&self.store)),
            ("--key-file", key_file.as_ref()),
            ("--queue", queue),
        ];
        let typed =
            |(name, value): (&str, Option<&String>)| Some((name.to_owned(), value?.clone()));
        all.into_iter().filter_map(typed).collect()
    }
}

fn label(word: &str) -> Result<String, String> {
    let allowed = "a label has letters, digits, `-`, `_` and `.`, at most 64 of them";
    if is_label(word) { Ok(word.to_owned()) } else { Err(allowed.to_owned()) }
}

/// How long `heartbeat` seconds are.
pub(crate) fn heartbeat_ms(heartbeat: u64) -> u64 {
    u64::try_from(Duration::from_secs(heartbeat).as_millis()).unwrap_or(u64::MAX)
}
