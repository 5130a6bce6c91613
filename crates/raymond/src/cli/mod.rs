//! Parses the command line and calls the command.

mod args;
mod authoring;
pub(crate) mod commands;
pub(crate) mod mistyped;
mod options;
mod upkeep;

use std::{env, process::ExitCode};

use clap::{CommandFactory as _, Parser as _};

use crate::{config, failure::Failure, out, report::warning};
use args::{Arguments, Command};

/// Runs the command on the command line.
pub(crate) fn run() -> Result<ExitCode, Failure> {
    let Arguments { command, start } = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return told(error),
    };
    warn_of_unknown_variables();
    has_randomness()?;
    match command {
        None if start.workflow.is_none() && env::args_os().len() < 2 => help(),
        None => commands::start(start),
        Some(Command::Start(start)) => commands::start(start),
        Some(Command::Run(start)) => commands::run(start),
        Some(Command::Resume { run, detach, options }) => commands::resume(&run, detach, &options),
        Some(Command::List { json, place }) => commands::list(json, &place),
        Some(Command::Status { run, json, place }) => commands::status(&run, json, &place),
        Some(Command::Cost { run, json, place }) => commands::cost(&run, json, &place),
        Some(Command::Rewind { run, step, new, place }) => {
            commands::rewind(&run, &step, new.as_deref(), &place)
        }
        Some(Command::ForkRun { run, new, place }) => {
            commands::fork_run(&run, new.as_deref(), &place)
        }
        Some(Command::Log(log)) => commands::log(&log),
        Some(Command::Attach { run, verbose, place }) => commands::attach(&run, verbose, &place),
        Some(Command::Cancel { id, yes, json, place }) => commands::cancel(&id, yes, json, &place),
        Some(Command::Test(test)) => commands::test(&test),
        Some(Command::Stop { id, now, json, place }) => commands::stop(&id, now, json, &place),
        Some(Command::Limit { id, limits, json, place }) => {
            commands::limit(&id, &limits, json, &place)
        }
        Some(Command::Asks(asks)) => commands::asks(&asks),
        Some(Command::Tell(tell)) => commands::tell(&tell),
        Some(Command::Answer(answer)) => commands::answer(&answer),
        #[cfg(feature = "serve")]
        Some(Command::Demo { web: true, .. }) => commands::demo_on_the_web(),
        Some(Command::Demo { json, .. }) => commands::demo(json),
        Some(Command::Init { place }) => commands::init(&place),
        Some(Command::Config { place }) => commands::config(&place),
        Some(Command::Completions { shell }) => commands::completions(shell),
        Some(Command::Man { folder }) => commands::man(folder.as_deref()),
        Some(Command::Help { words }) => commands::help(&words),
        Some(Command::Recover { options }) => commands::recover(&options),
        Some(Command::Authoring(command)) => authoring::run(command),
        Some(Command::Upkeep(command)) => upkeep::run(&command),
        Some(Command::Cluster { words }) => commands::cluster(&words),
        Some(Command::Plan { bundle, start }) => commands::plan(&bundle, start),
        Some(Command::Host { id, identity, bundle, place }) => {
            commands::host(&id, &identity, &bundle, &place)
        }
        Some(Command::Keeper { folder }) => commands::keep(&folder),
        Some(Command::Acp { greet: true, command }) => commands::greet(&command),
        Some(Command::Acp { command, .. }) => commands::acp(command),
    }
}

/// Ids of runs, sessions and drafts are random. A system whose generator works now does not fail later, so that nothing
/// ends in the middle of a change.
fn has_randomness() -> Result<(), Failure> {
    let works = getrandom::fill(&mut [0; 16]);
    works.map_err(|error| Failure::of_work(format!("this system gives no random numbers: {error}")))
}

/// `raymond`
fn help() -> Result<ExitCode, Failure> {
    out::data(&Arguments::command().render_help().to_string())?;
    Ok(ExitCode::SUCCESS)
}

/// A misspelled setting would silently have no effect.
fn warn_of_unknown_variables() {
    for text in config::unknown_variables(env::vars_os().map(|(name, _)| name)) {
        out::people().line(&warning(&text));
    }
}

/// Prints the output of clap: help, the version, or what is wrong with the command line. It quotes words, which
/// may be file names, so they are escaped before clap parses them again.
fn told(error: clap::Error) -> Result<ExitCode, Failure> {
    let is_wrong = error.use_stderr();
    let mut typed = env::args_os().skip(1);
    if is_wrong && let Some(failure) = mistyped::command(&error, typed.next(), typed.next()) {
        return Err(failure);
    }
    let words: Vec<_> = env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let shown: Vec<_> = words.iter().map(|word| out::one_line(word)).collect();
    let error = if is_wrong && shown != words {
        match Arguments::try_parse_from(shown) {
            Err(error) => error,
            // Valid after escaping, but not as typed: it contains bytes that are not text.
            Ok(_) => return Err(Failure::usage(out::one_line(&error.to_string()))),
        }
    } else {
        error
    };
    if is_wrong {
        return Err(mistyped::options(&error.render().to_string(), &words[1.min(words.len())..]));
    }
    // If this fails, nothing can be done about it.
    let _ = error.print();
    Ok(ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1)))
}
