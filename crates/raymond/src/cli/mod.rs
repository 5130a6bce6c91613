//! From the words on the command line to what they ask for.

mod args;
mod authoring;
mod commands;

use std::process::ExitCode;

use clap::Parser as _;

use crate::failure::Failure;
use args::{Arguments, Command};

/// Does what the command line says.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let Arguments { command, start } = Arguments::parse();
    match command {
        None => commands::start(start),
        Some(Command::Start(start)) => commands::start(start),
        Some(Command::Run { id, options }) => commands::resume(&id, &options),
        Some(Command::List { place }) => commands::list(&place),
        Some(Command::Status { id, place }) => commands::status(&id, &place),
        Some(Command::Test(test)) => commands::test(&test),
        Some(Command::Demo) => commands::demo(),
        Some(Command::Log { id, follow, place }) => commands::log(&id, follow, &place),
        Some(Command::Cancel { id, place }) => commands::cancel(&id, &place),
        Some(Command::Init { place }) => commands::init(&place),
        Some(Command::Config { place }) => commands::config(&place),
        Some(Command::Completions { shell }) => commands::completions(shell),
        Some(Command::Man) => commands::man(),
        Some(Command::Recover { options }) => commands::recover(&options),
        Some(Command::Authoring(command)) => authoring::run(command),
        Some(Command::Keeper { folder }) => commands::keep(&folder),
    }
}
