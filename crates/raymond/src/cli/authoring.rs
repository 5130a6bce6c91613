//! The command line for authors of workflows.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand, ValueEnum};
use raymond_flow::source::{Platform, Severity};

use super::{
    args::Place,
    commands::{diagram, lint, new, pack},
};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Authoring {
    /// Find mistakes in a workflow without running it.
    Lint(Lint),
    /// Draw a workflow as Mermaid, DOT or an HTML page, on standard output.
    Diagram(DiagramArgs),
    /// Create a workflow from a template.
    New(New),
    /// Pack a directory into a zip archive or one YAML file, reproducibly, or unpack one.
    Pack(Pack),
}

/// Runs the command.
pub(super) fn run(command: Authoring) -> Result<ExitCode, Failure> {
    match command {
        Authoring::Lint(arguments) => lint(&arguments),
        Authoring::Diagram(arguments) => diagram(&arguments),
        Authoring::New(arguments) => new(&arguments),
        Authoring::Pack(arguments) => pack(&arguments),
    }
}

/// The arguments of `raymond lint`.
#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// State files, directories, zip archives or YAML files; a directory that is no workflow stands for those in it.
    #[arg(required_unless_present = "explain")]
    pub(crate) workflow: Vec<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Print findings for a CI system: GitHub's annotations, or SARIF.
    #[arg(long, value_enum, conflicts_with = "json")]
    pub(crate) format: Option<FindingFormat>,

    /// Minimum severity to show.
    #[arg(long, value_enum, default_value_t = SeverityName::Warning)]
    pub(crate) level: SeverityName,

    /// Treat findings of a rule as errors; `warnings` means all warnings.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(crate) deny: Vec<String>,

    /// Ignore findings of a rule.
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub(crate) allow: Vec<String>,

    /// Print the manual page of a rule; `all` lists them.
    #[arg(long, value_name = "RULE", conflicts_with = "workflow")]
    pub(crate) explain: Option<String>,

    /// Name of a variable that runs will be started with.
    #[arg(long = "var", value_name = "NAME")]
    pub(crate) variables: Vec<String>,

    /// Platform whose rules apply [default: this one].
    #[arg(long, value_enum)]
    pub(crate) platform: Option<PlatformName>,
}

/// A notation of findings that other programs read.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FindingFormat {
    /// Commands of GitHub's workflows, which annotate the lines of a pull request.
    Github,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// The arguments of `raymond diagram`.
#[derive(Debug, Args)]
pub(crate) struct DiagramArgs {
    /// A state file, a directory, a zip archive or a YAML file [default: the workflow of the run].
    #[arg(required_unless_present = "run")]
    pub(crate) workflow: Option<PathBuf>,

    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    pub(crate) format: Format,

    /// Write a self-contained HTML page.
    #[arg(long, conflicts_with = "format")]
    pub(crate) html: bool,

    /// Mark what a run did: the states that it entered, how often, and the cost.
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,

    #[command(flatten)]
    pub(crate) place: Place,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    Mermaid,
    Dot,
}

/// The arguments of `raymond new`.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// Directory to create.
    pub(crate) name: PathBuf,

    /// Template to use.
    #[arg(long, value_enum, default_value_t = Template::Linear)]
    pub(crate) template: Template,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Template {
    /// One state after the other.
    Linear,
    /// Work, tests and a review, until both pass.
    Review,
    /// A plan that a person approves, sends back or stops.
    Approval,
    /// Workers for the parts of a task, whose results are joined.
    FanOut,
    /// A reviewer for each file, and a report of what all of them found.
    MapReview,
    /// Workers in git worktrees of their own, whose branches are landed behind a gate.
    Worktrees,
    /// Attempts with a limit.
    Retry,
    /// Wait for something, then act on it.
    Polling,
}

/// The arguments of `raymond pack`.
#[derive(Debug, Args)]
pub(crate) struct Pack {
    /// Directory of the workflow; with --unpack, a zip archive or a YAML file.
    pub(crate) folder: PathBuf,

    /// File to write, or new directory [default: the name of the workflow, in the current directory].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,

    /// Write one YAML file instead of a zip archive.
    #[arg(long)]
    pub(crate) yaml: bool,

    /// Write the files of a zip archive or a YAML file into a new directory.
    #[arg(long, conflicts_with = "yaml")]
    pub(crate) unpack: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum SeverityName {
    Error,
    Warning,
    Note,
}

impl From<SeverityName> for Severity {
    fn from(level: SeverityName) -> Self {
        match level {
            SeverityName::Error => Self::Error,
            SeverityName::Warning => Self::Warning,
            SeverityName::Note => Self::Note,
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PlatformName {
    Unix,
    Windows,
}

impl From<PlatformName> for Platform {
    fn from(name: PlatformName) -> Self {
        match name {
            PlatformName::Unix => Self::Unix,
            PlatformName::Windows => Self::Windows,
        }
    }
}
