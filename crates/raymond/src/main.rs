//! `raymond`: the command line. What was typed is read in [`cli`], what happens is shown by
//! [`report`], whatever goes wrong is explained in [`failure`], and everything is printed by [`out`].
//! What people read is made of [`mod@line`]s.

mod advice;
mod agent_settings;
mod asker;
mod cli;
mod config;
mod failure;
mod line;
mod notify;
mod out;
mod report;
mod testing;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.show(),
    }
}
