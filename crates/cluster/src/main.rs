//! `raymond-cluster`: see the library.

use std::{io::Write as _, process::ExitCode};

use clap::Parser as _;

fn main() -> ExitCode {
    let arguments = raymond_cluster::cli::Arguments::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => return fail(&error.to_string()),
    };
    match runtime.block_on(raymond_cluster::run(arguments, print, talk)) {
        Ok(code) => code,
        Err(failure) => fail(&failure.to_string()),
    }
}

/// Prints a line of data.
fn print(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints a line for people.
fn talk(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn fail(text: &str) -> ExitCode {
    talk(text);
    ExitCode::FAILURE
}
