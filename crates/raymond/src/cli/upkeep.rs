//! The command line for transcripts, checks and old runs.

use std::{process::ExitCode, str::FromStr, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use raymond_flow::machine::Status;

use super::{
    args::Place,
    commands::{doctor, prune, show},
};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Upkeep {
    /// Show the transcript of a run: prompts, messages, tools, answers, costs.
    Show(Show),
    /// Check whether everything that Raymond needs is installed.
    ///
    /// Exits with 1 if there is a problem that prevents runs.
    Doctor(Doctor),
    /// Remove old runs from the disk.
    ///
    /// Runs that can still be resumed are kept unless `--status` names them; running ones are always kept.
    /// On a terminal nothing is removed without `--yes`.
    Prune(Prune),
}

/// Runs the command.
pub(super) fn run(command: &Upkeep) -> Result<ExitCode, Failure> {
    match command {
        Upkeep::Show(arguments) => show(arguments),
        Upkeep::Doctor(arguments) => doctor(arguments),
        Upkeep::Prune(arguments) => prune(arguments),
    }
}

/// The arguments of `raymond show`.
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Run id, or a unique prefix of it [default: the latest run].
    pub(crate) run: Option<String>,

    /// One step (`main.3`, or `3` for main), or all steps of an agent; shown in full.
    pub(crate) step: Option<String>,

    /// Continue until the run ends.
    #[arg(long, short)]
    pub(crate) follow: bool,

    /// Print entries as JSON, one per line.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond prune`.
#[derive(Debug, Args)]
pub(crate) struct Prune {
    /// Remove runs that have not changed for this long: 12h, 7d, 4w [default: 7d, or 0d with --max-size].
    #[arg(long, value_name = "AGE")]
    pub(crate) older_than: Option<Age>,

    /// Remove runs with this status, instead of those that cannot be resumed. Can be repeated.
    #[arg(long, value_name = "STATUS", value_enum)]
    pub(crate) status: Vec<PrunedStatus>,

    /// Remove the oldest runs until all runs together have at most this size: 500M, 2G.
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_size: Option<Size>,

    /// Only list what would be removed. The default on a terminal.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,

    /// Remove without asking, also on a terminal.
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The statuses of runs that can be removed. A running one cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrunedStatus {
    Completed,
    Cancelled,
    Failed,
    Stopped,
    Paused,
    /// Runs whose journal cannot be read.
    Unreadable,
}

impl PrunedStatus {
    /// The status of a run that is not running.
    pub(crate) fn of(status: Status) -> Option<Self> {
        match status {
            Status::Running => None,
            Status::Completed => Some(Self::Completed),
            Status::Cancelled => Some(Self::Cancelled),
            Status::Failed => Some(Self::Failed),
            Status::Stopped => Some(Self::Stopped),
            Status::Paused => Some(Self::Paused),
        }
    }
}

/// An age such as `7d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) Duration);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("s", 1), ("m", 60), ("h", 3600), ("d", 86400), ("w", 7 * 86400)];
        let seconds = with_unit(text, &units);
        let seconds = seconds.ok_or_else(|| format!("`{text}` is not an age: 12h, 7d, 4w"))?;
        Ok(Self(Duration::from_secs(seconds)))
    }
}

/// A size in bytes such as `500M`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let units = [("K", 1 << 10), ("M", 1 << 20), ("G", 1 << 30), ("T", 1 << 40), ("", 1)];
        let bytes = with_unit(text, &units);
        bytes.map(Self).ok_or_else(|| format!("`{text}` is not a size: 500M, 2G"))
    }
}

/// Parses a whole number with a unit.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    units.iter().find_map(|(unit, factor)| {
        let number = text.strip_suffix(unit)?;
        let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| number.parse::<u64>().ok()?.checked_mul(*factor)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_are_whole_numbers_with_a_unit() {
        assert_eq!("7d".parse(), Ok(Age(Duration::from_hours(7 * 24))));
        assert_eq!("500M".parse(), Ok(Size(500 << 20)));
        assert_eq!("12".parse(), Ok(Size(12)));
        for wrong in ["7", "d", "-1d", "1.5d", "7 d", "99999999999999999w"] {
            assert!(wrong.parse::<Age>().is_err(), "{wrong}");
        }
        assert!("1X".parse::<Size>().is_err());
    }
}
