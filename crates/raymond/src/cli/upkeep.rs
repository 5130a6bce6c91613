//! The command line for transcripts, checks and old runs.

#[cfg(feature = "serve")]
use std::net::IpAddr;
use std::{path::PathBuf, process::ExitCode, str::FromStr, time::Duration};

use clap::{Args, Subcommand, ValueEnum};
use raymond_flow::machine::Status;
#[cfg(feature = "serve")]
use raymond_flow::money::Usd;

#[cfg(feature = "serve")]
use super::commands::{open, serve};
use super::{
    args::Place,
    commands::{doctor, land, prune, show, trust},
};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(crate) enum Upkeep {
    /// Show the transcript of a run: prompts, messages, tools, answers, costs.
    Show(Show),
    /// Check whether everything that Raymond needs is installed.
    ///
    /// Each coding agent takes two turns against a model in this program, in a home of its own: nothing is paid for, and nothing
    /// of yours is used. Exits with 1 if there is a problem that prevents runs.
    Doctor(Doctor),
    /// Take over settings and runs of a project that your Raymond did not write.
    ///
    /// Shows the settings of the project that give power (programs, permissions, higher budgets) and the runs that came with it, and asks.
    /// Until then neither is used: a repository can be cloned with anything in it.
    Trust(Trust),
    /// Remove old runs from the disk.
    ///
    /// Runs that can still be resumed are kept unless `--status` names them; running ones are always kept, and so are those with
    /// worktrees whose work is nowhere else.
    /// Nothing is removed without `--yes` or your answer on a terminal.
    Prune(Prune),
    /// Merge the branches of workers into the branch that is checked out.
    ///
    /// For what a run with worktrees has left unlanded. Branches are merged one by one, in the order of forking; one that
    /// conflicts is left as it is, and the others go on. The checkout must be clean.
    Land(Land),
    /// Show all your runs in a browser, live, on this machine.
    ///
    /// Prints a link. The server owns no run: it can be ended at any time, and runs go on.
    #[cfg(feature = "serve")]
    Serve(Serve),
    /// Open the page of the running server in a browser.
    #[cfg(feature = "serve")]
    Open(Open),
}

/// Runs the command.
pub(super) fn run(command: &Upkeep) -> Result<ExitCode, Failure> {
    match command {
        Upkeep::Show(arguments) => show(arguments),
        Upkeep::Doctor(arguments) => doctor(arguments),
        Upkeep::Trust(arguments) => trust(arguments),
        Upkeep::Prune(arguments) => prune(arguments),
        Upkeep::Land(arguments) => land(arguments),
        #[cfg(feature = "serve")]
        Upkeep::Serve(arguments) => serve(arguments),
        #[cfg(feature = "serve")]
        Upkeep::Open(arguments) => open(arguments),
    }
}

/// The arguments of `raymond trust`.
#[derive(Debug, Args)]
pub(crate) struct Trust {
    /// The directory of the project [default: the current one].
    #[arg(value_name = "DIR", conflicts_with = "data_dir")]
    pub(crate) folder: Option<PathBuf>,

    /// Do not ask.
    #[arg(long, short)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) place: Place,
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

    /// Show what workers with worktrees have changed, instead of the transcript.
    #[arg(long, conflicts_with_all = ["follow", "json"])]
    pub(crate) diff: bool,

    /// Print entries as JSON, one per line.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond land`.
#[derive(Debug, Args)]
pub(crate) struct Land {
    /// Run id, or a unique prefix of it [default: the latest run].
    pub(crate) run: Option<String>,

    /// Workers whose branches are merged [default: all that have ended].
    pub(crate) agents: Vec<String>,

    /// Only tell what can be merged.
    #[arg(long)]
    pub(crate) dry_run: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond doctor`.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Leave out the turns of coding agents, which take some seconds.
    #[arg(long)]
    pub(crate) quick: bool,

    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,

    #[command(flatten)]
    pub(crate) place: Place,
}

/// The arguments of `raymond prune`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch that can be typed")]
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

    /// Keep the runs, and remove only the worktrees of workers that were joined or whose run has ended.
    #[arg(long, conflicts_with_all = ["older_than", "status", "max_size"])]
    pub(crate) worktrees: bool,

    /// Remove worktrees also with changes that are not committed, or commits that are on no other branch.
    #[arg(long)]
    pub(crate) discard_work: bool,

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

/// How runs are served.
#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Show only the runs of this project [default: all projects in which you started runs].
    #[arg(long, value_name = "DIR")]
    pub(crate) project: Option<PathBuf>,

    /// A directory whose workflows can be started from the page; can be repeated [default: the projects].
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,

    /// The port [default: 7420, or a free one after it].
    #[arg(long, value_name = "N")]
    pub(crate) port: Option<u16>,

    /// Another address than the loopback. Anyone who reaches it needs only the token.
    #[arg(long, value_name = "ADDRESS", requires = "host")]
    pub(crate) listen: Option<IpAddr>,

    /// A name under which browsers ask for the server; can be repeated [default: localhost].
    #[arg(long, value_name = "NAME", value_parser = host_name)]
    pub(crate) host: Vec<String>,

    /// Only show: nothing can be started, stopped or answered.
    #[arg(long)]
    pub(crate) read_only: bool,

    /// Resume the runs whose program died, as `raymond recover` does. Without it, the page shows them and offers that.
    #[arg(long, conflicts_with = "read_only")]
    pub(crate) recover: bool,

    /// The highest budget that a run can be given from the page, in US dollars; 0 is no limit [default: 50].
    #[arg(long, value_name = "USD")]
    pub(crate) max_budget: Option<Usd>,
}

/// How the page is opened.
#[cfg(feature = "serve")]
#[derive(Debug, Args)]
pub(crate) struct Open {
    /// Print the link instead of opening a browser.
    #[arg(long)]
    pub(crate) print: bool,
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
    /// Runs that came with the project: your Raymond did not write them.
    Foreign,
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

/// A name for `serve --host`. An address that stands for all others is none: `--listen` was meant.
#[cfg(feature = "serve")]
fn host_name(text: &str) -> Result<String, String> {
    match text.parse::<IpAddr>() {
        Ok(address) if address.is_unspecified() => Err(format!(
            "no browser asks for this name; to listen on all addresses: --listen {address} --host NAME"
        )),
        _ => Ok(text.to_owned()),
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

    #[cfg(feature = "serve")]
    #[test]
    fn address_of_all_interfaces_is_no_name_of_a_server() {
        let why = host_name("0.0.0.0").unwrap_err();
        assert!(why.ends_with("--listen 0.0.0.0 --host NAME"), "{why}");
        assert!(host_name("::").is_err());
        for name in ["127.0.0.1", "10.0.0.7", "box.example.org"] {
            assert_eq!(host_name(name).as_deref(), Ok(name));
        }
    }

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
