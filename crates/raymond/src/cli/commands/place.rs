//! Where runs lie.

use std::{env, path::Path};

use raymond_engine::layout::StateDir;

use crate::{
    cli::args::Place,
    failure::{Failure, quoted},
};

/// The state folder, which is the user's own: everybody else's is refused before anything in it is
/// believed.
pub(super) fn state_dir(place: &Place) -> Result<StateDir, Failure> {
    let state_dir = match &place.data_dir {
        Some(folder) => {
            let folder = std::path::absolute(folder);
            StateDir::new(
                folder.map_err(|error| Failure::io("find the folder of --data-dir", &error))?,
            )
        }
        None => StateDir::of_project(Path::new(&current_folder()?)),
    };
    if state_dir.root().exists() && !state_dir.root().is_dir() {
        let message = format!("{} is not a folder", state_dir.root().display());
        return Err(Failure::usage(message)
            .with_hint("runs and settings need a folder of their own: --data-dir DIR".to_owned()));
    }
    state_dir.check()?;
    Ok(state_dir)
}

/// The options without which the runs of this place are not found, as they are typed.
pub(super) fn typed(place: &Place) -> String {
    place
        .data_dir
        .as_ref()
        .map_or_else(String::new, |folder| format!(" --data-dir {}", quoted(folder)))
}

pub(super) fn current_folder() -> Result<String, Failure> {
    let folder =
        env::current_dir().map_err(|error| Failure::io("find the current folder", &error))?;
    folder.into_os_string().into_string().map_err(|folder| {
        Failure::usage(format!("the current folder {} is not valid text", folder.to_string_lossy()))
    })
}
