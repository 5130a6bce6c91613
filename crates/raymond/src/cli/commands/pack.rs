//! `raymond pack`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use raymond_engine::store::scope::is_packed;

use crate::{
    cli::{authoring::Pack, mistyped::no_such_path},
    failure::Failure,
    out, quote,
};

/// `raymond pack DIR`
pub(in crate::cli) fn pack(arguments: &Pack) -> Result<ExitCode, Failure> {
    let given = arguments.folder.as_path();
    if !given.exists() {
        return Err(no_such_path(given));
    }
    if arguments.unpack {
        return unpack(arguments);
    }
    if !given.is_dir() {
        let hint = if is_packed(given) {
            format!("unpack it: raymond pack --unpack {}", quote::path(given))
        } else {
            "name the directory with the state files".to_owned()
        };
        return Err(
            Failure::usage(format!("{} is not a directory", given.display())).with_hint(hint)
        );
    }
    let (bytes, extension) = if arguments.yaml {
        (raymond_engine::store::scope::pack_yaml(given)?.into_bytes(), ".yaml")
    } else {
        (raymond_engine::store::scope::pack(given)?, ".zip")
    };
    let file = match &arguments.output {
        Some(file) => file.clone(),
        None => PathBuf::from(format!("{}{extension}", name_of(given)?)),
    };
    let write = format!("write {}", file.display());
    fs::write(&file, bytes).map_err(|error| Failure::io(&write, &error))?;
    out::path(&file)?;
    Ok(ExitCode::SUCCESS)
}

fn unpack(arguments: &Pack) -> Result<ExitCode, Failure> {
    let archive = arguments.folder.as_path();
    if !is_packed(archive) {
        let message = format!("{} is neither a zip archive nor a YAML file", archive.display());
        return Err(Failure::usage(message).with_hint("pack a directory: raymond pack DIR"));
    }
    let folder = match &arguments.output {
        Some(folder) => folder.clone(),
        None => PathBuf::from(name_of(&archive.with_extension(""))?),
    };
    if folder.exists() {
        let message = format!("{} already exists", folder.display());
        let hint =
            format!("name a new directory: raymond pack --unpack {} -o DIR", quote::path(archive));
        return Err(Failure::usage(message).with_hint(hint));
    }
    raymond_engine::store::scope::unpack(archive, &folder)?;
    out::path(&folder)?;
    Ok(ExitCode::SUCCESS)
}

/// The last part of a path, which may be `.`.
fn name_of(path: &Path) -> Result<String, Failure> {
    let real = if path.exists() {
        fs::canonicalize(path).map_err(|error| Failure::io("find the directory", &error))?
    } else {
        path.to_owned()
    };
    Ok(real.file_name().unwrap_or("workflow".as_ref()).to_string_lossy().into_owned())
}
