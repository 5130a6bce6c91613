//! `raymond`: the command line. What was typed is read in [`cli`], what happens is shown by
//! [`report`], and whatever goes wrong is explained in [`failure`].

mod cli;
mod config;
mod failure;
mod report;
mod testing;

use std::process::ExitCode;

fn main() -> ExitCode {
    match cli::run() {
        Ok(code) => code,
        Err(failure) => failure.show(),
    }
}
