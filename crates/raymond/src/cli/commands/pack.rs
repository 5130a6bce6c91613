//! `raymond pack`.

use std::{fs, path::Path, process::ExitCode};

use crate::{
    cli::{authoring::Pack, mistyped::no_such_path},
    failure::Failure,
    out,
};

/// `raymond pack DIR`
pub(in crate::cli) fn pack(arguments: &Pack) -> Result<ExitCode, Failure> {
    let folder = arguments.folder.as_path();
    if !folder.is_dir() {
        return Err(if folder.exists() {
            Failure::usage(format!("{} is not a directory", folder.display()))
                .with_hint("name the directory with the state files".to_owned())
        } else {
            no_such_path(folder)
        });
    }
    let bytes = raymond_engine::scope::pack(folder)?;
    let file = if let Some(file) = &arguments.output {
        file.clone()
    } else {
        let absolute =
            fs::canonicalize(folder).map_err(|error| Failure::io("find the directory", &error))?;
        let mut name = absolute.file_name().unwrap_or("workflow".as_ref()).to_owned();
        name.push(".zip");
        Path::new(&name).to_owned()
    };
    let write = format!("write {}", file.display());
    fs::write(&file, bytes).map_err(|error| Failure::io(&write, &error))?;
    out::path(&file)?;
    Ok(ExitCode::SUCCESS)
}
