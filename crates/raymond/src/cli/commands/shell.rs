//! Commands about the program itself: settings, completions, the manual page.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::CommandFactory as _;

use super::place::state_dir;
use crate::{
    cli::args::{Arguments, Place},
    config::{self, Config},
    failure::Failure,
};

/// `raymond init`
pub(in crate::cli) fn init(place: &Place) -> Result<ExitCode, Failure> {
    let path = config::write_template(state_dir(place)?.root())?;
    print(&format!("{}\n", path.display()))
}

/// `raymond config`
pub(in crate::cli) fn config(place: &Place) -> Result<ExitCode, Failure> {
    print(&Config::load(state_dir(place)?.root())?.describe())
}

/// `raymond completions SHELL`
pub(in crate::cli) fn completions(shell: clap_complete::Shell) -> Result<ExitCode, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "raymond", &mut script);
    print(&String::from_utf8_lossy(&script))
}

/// `raymond man`
pub(in crate::cli) fn man() -> Result<ExitCode, Failure> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(Arguments::command()).render(&mut page);
    rendered.map_err(|error| Failure::io("print", &error))?;
    print(&String::from_utf8_lossy(&page))
}

fn print(text: &str) -> Result<ExitCode, Failure> {
    let printed = io::stdout().lock().write_all(text.as_bytes());
    printed.map_err(|error| Failure::io("print", &error))?;
    Ok(ExitCode::SUCCESS)
}
