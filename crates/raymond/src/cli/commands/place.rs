//! Finds the state directory.

use std::{env, path::Path};

use raymond_engine::store::layout::StateDir;

use crate::{cli::args::Place, failure::Failure, quote};

/// The state directory. One that belongs to another user is rejected before any file in it is read.
pub(super) fn state_dir(place: &Place) -> Result<StateDir, Failure> {
    let state_dir = match &place.data_dir {
        Some(folder) => {
            let folder = std::path::absolute(folder);
            StateDir::new(
                folder.map_err(|error| Failure::io("find the directory of --data-dir", &error))?,
            )
        }
        None => StateDir::of_project(Path::new(&current_folder()?)),
    };
    if state_dir.root().exists() && !state_dir.root().is_dir() {
        let message = format!("{} is not a directory", state_dir.root().display());
        return Err(Failure::usage(message)
            .with_hint("runs and settings need a directory of their own: --data-dir DIR"));
    }
    state_dir.check()?;
    Ok(state_dir)
}

/// The options that are needed to find the runs in this place, as typed.
pub(super) fn typed(place: &Place) -> String {
    place
        .data_dir
        .as_ref()
        .map_or_else(String::new, |folder| format!(" --data-dir {}", quote::path(folder)))
}

pub(super) fn current_folder() -> Result<String, Failure> {
    let folder = env::current_dir().map_err(|error| {
        Failure::io("find the current directory", &error)
            .with_hint("it was removed or cannot be read: cd to another directory")
    })?;
    folder.into_os_string().into_string().map_err(|folder| {
        Failure::usage(format!(
            "the current directory {} is not valid UTF-8",
            folder.to_string_lossy()
        ))
    })
}
