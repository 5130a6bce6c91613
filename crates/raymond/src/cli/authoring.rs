//! What can be typed by those who write workflows.

use std::{path::PathBuf, process::ExitCode};

use clap::{Args, Subcommand, ValueEnum};
use raymond_flow::source::{Platform, Severity};

use super::commands::lint;
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Authoring {
    /// Find what is wrong or odd about a workflow without running it.
    Lint(Lint),
}

/// Does what was typed.
pub(super) fn run(command: Authoring) -> Result<ExitCode, Failure> {
    match command {
        Authoring::Lint(arguments) => lint(&arguments),
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
    #[arg(long, value_enum, default_value_t = Level::Warning)]
    pub(crate) level: Level,

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

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    Error,
    Warning,
    Note,
}

impl From<Level> for Severity {
    fn from(level: Level) -> Self {
        match level {
            Level::Error => Self::Error,
            Level::Warning => Self::Warning,
            Level::Note => Self::Note,
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
