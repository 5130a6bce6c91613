//! `raymond __acp`, the process of a turn of a coding agent that speaks ACP. Raymond calls it itself.

use std::{
    io::{self, Read as _},
    process::ExitCode,
};

use raymond_engine::agent::AcpTurn;

use crate::{failure::Failure, out};

/// The longest prompt that is read: more than any model accepts.
const PROMPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// `raymond __acp PROGRAM ARGUMENTS`
#[expect(clippy::disallowed_methods, reason = "the engine reads it: nothing is made visible")]
pub(in crate::cli) fn acp(command: Vec<String>) -> Result<ExitCode, Failure> {
    let run = || -> io::Result<()> {
        let mut prompt = String::new();
        io::stdin().lock().take(PROMPT_BYTES_MAX).read_to_string(&mut prompt)?;
        AcpTurn::of_environment(command, prompt)?.run(&mut io::stdout().lock())
    };
    run().map_err(|error| Failure::io("carry out a turn", &error))?;
    Ok(ExitCode::SUCCESS)
}

/// `raymond __acp --greet PROGRAM ARGUMENTS`, for `raymond doctor`.
pub(in crate::cli) fn greet(command: &[String]) -> Result<ExitCode, Failure> {
    let (found, code) = match AcpTurn::greet(command) {
        Ok(found) => (found, ExitCode::SUCCESS),
        Err(why) => (why, ExitCode::FAILURE),
    };
    out::text(&format!("{found}\n"))?;
    Ok(code)
}
