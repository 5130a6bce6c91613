//! From the words on the command line to what they ask for.

mod args;
mod authoring;
mod commands;

use std::{env, process::ExitCode};

use clap::Parser as _;

use crate::{failure::Failure, out};
use args::{Arguments, Command};

/// Does what the command line says.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let Arguments { command, start } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return told(error),
    };
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
        Some(Command::Stop { id, now, place }) => commands::stop(&id, now, &place),
        Some(Command::Limit { id, limits, place }) => commands::limit(&id, &limits, &place),
        Some(Command::Init { place }) => commands::init(&place),
        Some(Command::Config { place }) => commands::config(&place),
        Some(Command::Completions { shell }) => commands::completions(shell),
        Some(Command::Man) => commands::man(),
        Some(Command::Recover { options }) => commands::recover(&options),
        Some(Command::Authoring(command)) => authoring::run(command),
        Some(Command::Keeper { folder }) => commands::keep(&folder),
    }
}

/// Prints what clap has to say: help, the version, or what is wrong with the command line. That is
/// quoted, and words of it may be names of files, so they are made visible before clap sees them.
fn told(error: clap::Error) -> Result<ExitCode, Failure> {
    let is_wrong = error.use_stderr();
    let words: Vec<_> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let shown: Vec<_> = words.iter().map(|word| out::one_line(word)).collect();
    let error = if is_wrong && shown != words {
        match Arguments::try_parse_from(shown) {
            Err(error) => error,
            // Right as it is shown, but not as it was typed: bytes that are no text.
            Ok(_) => return Err(Failure::usage(out::one_line(&error.to_string()))),
        }
    } else {
        error
    };
    // If nobody reads it, nothing can be done about that.
    let _ = error.print();
    Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1)))
}
