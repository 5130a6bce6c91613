//! Commands about the program itself: settings and completions.

use std::process::ExitCode;

use clap::CommandFactory as _;

use super::place::state_dir;
use crate::{
    cli::args::{Arguments, Place},
    config::{self, Config},
    failure::Failure,
    out,
};

/// `raymond init`
pub(in crate::cli) fn init(place: &Place) -> Result<ExitCode, Failure> {
    let path = config::write_template(state_dir(place)?.root())?;
    out::path(&path)?;
    Ok(ExitCode::SUCCESS)
}

/// `raymond config`
pub(in crate::cli) fn config(place: &Place) -> Result<ExitCode, Failure> {
    out::text(&Config::load(state_dir(place)?.root())?.describe())?;
    Ok(ExitCode::SUCCESS)
}

/// `raymond completions SHELL`
pub(in crate::cli) fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "raymond", &mut script);
    out::data(&String::from_utf8_lossy(&script))?;
    Ok(ExitCode::SUCCESS)
}
