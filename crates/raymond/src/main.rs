//! `raymond`: the command line. [`cli`] parses it, [`report`] shows the progress of a run, [`failure`] explains
//! errors, and [`out`] prints everything. Text for users consists of [`mod@line`]s.

mod advice;
mod asker;
mod cli;
mod config;
mod failure;
mod line;
mod notify;
mod out;
mod quote;
mod report;
mod testing;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.show(),
    }
}
