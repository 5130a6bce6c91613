//! What can be typed by those who write workflows.

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
    /// Find what is wrong or odd about a workflow without running it.
    Lint(Lint),
    /// Draw a workflow: Mermaid, DOT or a page for a browser, on standard output.
    Diagram(DiagramArgs),
    /// Begin a workflow of your own.
    New(New),
    /// Make a folder one zip archive, always the same bytes.
    Pack(Pack),
}

/// Does what was typed.
pub(super) fn run(command: Authoring) -> Result<ExitCode, Failure> {
    match command {
        Authoring::Lint(arguments) => lint(&arguments),
        Authoring::Diagram(arguments) => diagram(&arguments),
        Authoring::New(arguments) => new(&arguments),
        Authoring::Pack(arguments) => pack(&arguments),
    }
}

/// A workflow to be looked at.
#[derive(Debug, Args)]
pub(crate) struct Lint {
    /// A state file, a folder or a zip archive.
    #[arg(required_unless_present = "explain")]
    pub(crate) workflow: Option<PathBuf>,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    /// Show what is at least so bad.
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

    /// A variable that runs will be started with.
    #[arg(long = "var", value_name = "NAME")]
    pub(crate) variables: Vec<String>,

    /// Whose rules apply [default: those of this machine].
    #[arg(long, value_enum)]
    pub(crate) platform: Option<PlatformName>,
}

/// A workflow to be drawn.
#[derive(Debug, Args)]
pub(crate) struct DiagramArgs {
    /// A state file, a folder or a zip archive [default: the workflow of the run].
    #[arg(required_unless_present = "run")]
    pub(crate) workflow: Option<PathBuf>,

    /// The language.
    #[arg(long, value_enum, default_value_t = Format::Mermaid)]
    pub(crate) format: Format,

    /// A page for a browser, complete in itself.
    #[arg(long, conflicts_with = "format")]
    pub(crate) html: bool,

    /// Show what a run did: which states it visited, how often, and for how much.
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

/// A workflow to begin with.
#[derive(Debug, Args)]
pub(crate) struct New {
    /// The folder to make.
    pub(crate) name: PathBuf,

    /// What it is like.
    #[arg(long, value_enum, default_value_t = Template::Linear)]
    pub(crate) template: Template,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Template {
    /// One state after the other.
    Linear,
    /// Work, checks and a review, until it is good.
    Review,
    /// A plan that a person approves, sends back or stops.
    Approval,
    /// A worker for each item of a list.
    FanOut,
    /// Wait for something, then act on it.
    Polling,
}

/// A folder to be packed.
#[derive(Debug, Args)]
pub(crate) struct Pack {
    /// The folder of a workflow.
    pub(crate) folder: PathBuf,

    /// The archive [default: the folder's name with .zip, in the current folder].
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
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
