//! The command line: commands and options.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args, Parser, Subcommand};

use super::{authoring::Authoring, options::LimitOptions, upkeep::Upkeep};
use crate::config::Overrides;

/// The version, with the commit that it was built from if that is known.
const VERSION: &str = env!("RAYMOND_BUILD");

/// Runs multi-step work through AI coding agents.
#[derive(Debug, Parser)]
#[command(name = "raymond", version = VERSION, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,

    #[command(flatten)]
    pub(crate) start: Start,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Start a workflow: a state file, a directory, a zip archive or a YAML file.
    Start(Start),
    /// Start a workflow, or resume a run.
    Run(Start),
    /// Resume a run that failed, was stopped or paused, or whose program died.
    Resume {
        #[command(flatten)]
        run: WhichRun,
        /// Resume in the background, and print the run's id.
        #[arg(long)]
        detach: bool,
        #[command(flatten)]
        options: Options,
    },
    /// List the runs of this project, the newest first.
    #[command(visible_alias = "ls")]
    List {
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Show the status of a run: agents, costs, what to do next.
    Status {
        #[command(flatten)]
        run: WhichRun,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Show the history of a run, one line per event.
    Log(Log),
    /// Show where the tokens of a run went, and which goto would be cheaper as reset.
    Cost {
        #[command(flatten)]
        run: WhichRun,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Make a new run from a run as it was before one of its steps; print its id.
    Rewind {
        /// Run id, or a unique prefix of it.
        run: String,
        /// The step that is done again: `main.3`, or `3` for main.
        step: String,
        /// Id of the new run.
        #[arg(long = "as", value_name = "ID")]
        new: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Make a new run from a run as it is now; print its id.
    ForkRun {
        #[command(flatten)]
        run: WhichRun,
        /// Id of the new run.
        #[arg(long = "as", value_name = "ID")]
        new: Option<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Watch a run of another process. Ctrl-C leaves it running.
    Attach {
        #[command(flatten)]
        run: WhichRun,
        /// Also show what coding agents are doing.
        #[arg(long, short)]
        verbose: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Cancel a run permanently and stop its processes.
    Cancel {
        /// Run id, or a unique prefix of it.
        id: String,
        /// Do not ask for confirmation. Required if there is no terminal.
        #[arg(long, short)]
        yes: bool,
        /// Print what the run is afterwards as JSON, and a failure, too.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Run the tests of a workflow, without a model and at no cost.
    Test(Test),
    /// Run a demo workflow with scripted replies.
    Demo {
        /// Also show it in a browser, until Ctrl-C.
        #[cfg(feature = "serve")]
        #[arg(long, conflicts_with = "json")]
        web: bool,
        /// Print events as JSON, one per line, instead of the result.
        #[arg(long)]
        json: bool,
    },
    /// Stop a run so that it can be resumed, also one in the background.
    Stop {
        /// Run id, or a unique prefix of it.
        id: String,
        /// Also stop the steps that are running.
        #[arg(long)]
        now: bool,
        /// Print what the run is afterwards as JSON, and a failure, too.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// List the questions that wait for a person's answer.
    Asks(Asks),
    /// Answer a question of a run, even if the run is not running.
    Answer(AnswerArgs),
    /// Send a message to an agent at work.
    Tell(Tell),
    /// Change the limits of a run, also while it is running.
    Limit {
        /// Run id, or a unique prefix of it.
        id: String,
        #[command(flatten)]
        limits: LimitOptions,
        /// Print what the run is afterwards as JSON, and a failure, too.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: Place,
    },
    /// Write a commented .raymond/config.toml.
    Init {
        #[command(flatten)]
        place: Place,
    },
    /// Show every setting, and where it comes from.
    Config {
        #[command(flatten)]
        place: Place,
    },
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
    /// Print the manual page, or write one for each command to a directory.
    Man {
        /// Directory for raymond.1, raymond-start.1 and so on.
        folder: Option<PathBuf>,
    },
    /// Show help about a command or a topic: authoring, operations, agents, protocol, events, journal, api.
    Help {
        /// A command or a topic [default: all commands, and a list of the topics].
        words: Vec<String>,
    },
    /// Resume every run whose program died.
    Recover {
        #[command(flatten)]
        options: Options,
    },
    #[command(flatten)]
    Authoring(Authoring),
    #[command(flatten)]
    Upkeep(Upkeep),
    /// Carry out a turn by a coding agent that speaks ACP. Raymond calls this itself.
    #[command(name = "__acp", hide = true)]
    Acp {
        /// Only ask the coding agent who it is.
        #[arg(long)]
        greet: bool,
        /// The coding agent and its arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
        command: Vec<String>,
    },
    /// Run workflows on many machines, with Temporal: worker, start, list, cancel, resume.
    ///
    /// The program raymond-cluster carries that out. It is installed separately; where it is, `raymond cluster --help` shows its own help.
    #[command(disable_help_flag = true)]
    Cluster {
        /// The arguments of raymond-cluster.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Print the run that `start` would start, for raymond-cluster.
    #[command(name = "__plan", hide = true)]
    Plan {
        /// Where to write the archive with the files of the workflow.
        #[arg(long)]
        bundle: PathBuf,
        #[command(flatten)]
        start: Start,
    },
    /// Carry out steps of a run of raymond-cluster, which calls this itself.
    #[command(name = "__host", hide = true)]
    Host {
        /// The run.
        id: String,
        /// The identity of the run.
        identity: String,
        /// The archive with the files of the workflow.
        bundle: PathBuf,
        #[command(flatten)]
        place: Place,
    },
    /// Start and guard the children of a run. Raymond calls this itself.
    #[command(name = "__keeper", hide = true)]
    Keeper {
        /// The run's directory.
        folder: PathBuf,
    },
}

/// A run.
#[derive(Debug, Args)]
pub(crate) struct WhichRun {
    /// Run id, or a unique prefix of it [default: the latest run].
    pub(crate) id: Option<String>,
}

/// Questions to be listed.
#[derive(Debug, Args)]
pub(crate) struct Asks {
    /// The run's id, or the beginning of it [default: all runs].
    pub(crate) id: Option<String>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Go on, and print questions as they are asked.
    #[arg(long, short)]
    pub(crate) follow: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond answer`.
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The run's id, or the beginning of it.
    pub(crate) run: String,

    /// The question (`main.1`), if the run asks several, and the label of the choice.
    #[arg(value_name = "[ASK] [LABEL]", num_args = 0..=2)]
    pub(crate) words: Vec<String>,

    /// The answer where there are no choices, else a comment; `-` reads standard input.
    #[arg(long, value_name = "TEXT")]
    pub(crate) text: Option<String>,

    /// A file to hand over; may be given several times.
    #[arg(long = "file", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// By what the answer came, as others will read it: the server answers for the page.
    #[arg(long, hide = true, default_value = "command")]
    pub(crate) how: String,

    /// Print when the answer was taken, and what follows, as JSON, and a failure, too.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond tell`.
#[derive(Debug, Args)]
pub(crate) struct Tell {
    /// Run id, or a unique prefix of it.
    pub(crate) run: String,

    /// The agent, if the run has several, and the message; `-` reads it from standard input.
    #[arg(value_name = "[AGENT] TEXT", num_args = 1..=2, required = true)]
    pub(crate) words: Vec<String>,

    /// Print what the run is afterwards as JSON, and a failure, too.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond log`.
#[derive(Debug, Args)]
pub(crate) struct Log {
    #[command(flatten)]
    pub(crate) run: WhichRun,

    /// Continue until the run ends; exit with its code.
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Show everything: every step, and every round of a loop.
    #[arg(long, short)]
    pub(crate) all: bool,

    /// Print events as JSON, one per line.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond start` and `raymond run`.
#[derive(Debug, Args)]
pub(crate) struct Start {
    /// A state file, a directory, a zip archive or a YAML file.
    #[arg(required = false)]
    pub(crate) workflow: Option<PathBuf>,

    /// Id of the new run [default: derived from the name of the workflow].
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,

    /// Text for the first state: `{{input}}` and `RAYMOND_INPUT`; `-` reads standard input.
    #[arg(long, value_name = "TEXT")]
    pub(crate) input: Option<String>,

    /// A variable for all prompts: `{{KEY}}`.
    #[arg(long = "var", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) variables: Vec<(String, String)>,

    /// Run in the background, and print the run's id.
    #[arg(long)]
    pub(crate) detach: bool,

    /// Start it although `raymond lint` finds errors in it.
    #[arg(long)]
    pub(crate) no_lint: bool,

    #[command(flatten)]
    pub(crate) options: Options,
}

/// The arguments of `raymond test`.
#[derive(Debug, Args)]
pub(crate) struct Test {
    /// The workflow: a state file, a directory, a zip archive or a YAML file.
    pub(crate) workflow: PathBuf,

    /// Run only cases whose names contain this text.
    pub(crate) filter: Option<String>,

    /// Write new snapshots.
    #[arg(long)]
    pub(crate) update: bool,

    /// Write the results to this file as XML, for a CI server.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,

    /// Turn this finished run into a test case instead of running any.
    #[arg(long, value_name = "ID", conflicts_with_all = ["filter", "update", "junit"])]
    pub(crate) record: Option<String>,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The options of a run.
#[derive(Clone, Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that can be typed")]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) overrides: Overrides,

    /// Write a debug directory with everything that happens, in .raymond/debug.
    #[arg(long)]
    pub(crate) debug: bool,

    /// Print events as JSON, one per line, instead of the result; with --detach, what the run is.
    #[arg(long)]
    pub(crate) json: bool,

    /// This is the half of --detach in the background.
    #[arg(long, hide = true)]
    pub(crate) detached: bool,

    /// Show only failures and warnings.
    #[arg(long, short)]
    pub(crate) quiet: bool,

    /// Also show what coding agents are doing.
    #[arg(long, short, conflicts_with = "quiet")]
    pub(crate) verbose: bool,

    /// Also write the progress to this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The location of runs.
#[derive(Clone, Debug, Args)]
pub(crate) struct Place {
    /// Directory for runs and settings [default: .raymond of this project].
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("expected KEY=VALUE")?;
    let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if key.is_empty() || !key.chars().all(is_name_char) {
        return Err(format!("`{key}` is not a name: letters, digits, `_`, `-` and `.`"));
    }
    Ok((key.to_owned(), value.to_owned()))
}
