//! `raymond __keeper`, which Raymond calls itself.

use std::{path::Path, process::ExitCode};

use crate::failure::Failure;

/// `raymond __keeper FOLDER`
pub(in crate::cli) fn keep(folder: &Path) -> Result<ExitCode, Failure> {
    raymond_engine::keeper::serve(folder).map_err(|error| Failure::io("run the keeper", &error))?;
    Ok(ExitCode::SUCCESS)
}
