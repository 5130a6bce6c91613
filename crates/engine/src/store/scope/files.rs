//! A workflow's files in memory, for commands that inspect a workflow without running it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use raymond_flow::{
    graph::Graph,
    id::StateName,
    lint::Finding,
    scope::workflow_folders,
    source::{Platform, StateKind, StateKindError},
    world::{MemoryWorld, WorldError},
};

use super::{
    ScopeError,
    archive::{self, FILE_BYTES_MAX, TOTAL_BYTES_MAX, Yaml},
    source::{is_packed, list_folder},
};
use crate::trust::regular;

/// The files of a directory or an archive, even if the workflow cannot be started.
#[derive(Clone, Debug)]
pub struct WorkflowFiles {
    /// The directory or the archive, as the user named it.
    pub path: PathBuf,
    /// The state file that the user named, if it was one: the run starts there.
    pub entry: Option<StateName>,
    /// Names and contents, also those of subworkflows. The contents of files that are not a state on any platform are left empty.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The YAML, if the workflow is written in one.
    yaml: Option<Yaml>,
}

impl WorkflowFiles {
    /// Reads a directory, the directory of a state file, or a zip archive.
    pub fn read(path: &Path) -> Result<Self, ScopeError> {
        let io = |source| ScopeError::Io { path: path.to_owned(), source };
        if fs::metadata(path).map_err(io)?.is_dir() {
            return Ok(Self {
                path: path.to_owned(),
                entry: None,
                files: read_folder(path)?,
                yaml: None,
            });
        }
        if is_packed(path) {
            let wrong = |source| ScopeError::Archive { path: path.to_owned(), source };
            let (files, yaml) = archive::read_with_yaml(path).map_err(wrong)?;
            return Ok(Self { path: path.to_owned(), entry: None, files, yaml });
        }
        // A run starts the file that the link points to, so inspect that file.
        let is_link = fs::symlink_metadata(path).map_err(io)?.is_symlink();
        let real = if is_link { fs::canonicalize(path).map_err(io)? } else { path.to_owned() };
        let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !is_state(&name) {
            return Err(StateKindError::Unsupported { name }.into());
        }
        let folder = match real.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let entry = Some(StateName::new(name));
        Ok(Self { path: folder.to_owned(), entry, files: read_folder(folder)?, yaml: None })
    }

    /// Moves findings about the files of a one-file workflow to their places in the YAML, and returns its text.
    pub fn place(&self, found: &mut [Finding]) -> Option<&str> {
        let yaml = self.yaml.as_ref()?;
        for finding in found {
            yaml.read.place(finding, &yaml.name, &yaml.text);
        }
        Some(&yaml.text)
    }

    /// Its states and the transitions that they declare, on `platform`.
    pub fn graph(&self, platform: Platform) -> Result<Graph, WorldError> {
        let mut world = MemoryWorld::new([]);
        world.platform = platform;
        world.files.clone_from(&self.files);
        Graph::of(&world, self.entry.as_ref().map(StateName::as_str))
    }
}

fn read_folder(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, ScopeError> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| ScopeError::Io { path, source }
    };
    let mut files = BTreeMap::new();
    let mut left = TOTAL_BYTES_MAX;
    let list = |inner: &str| list_folder(&folder.join(inner)).map_err(io(&folder.join(inner)));
    for (inner, listing) in workflow_folders(list)? {
        for name in listing.names().map(|name| format!("{inner}{name}")) {
            let mut bytes = Vec::new();
            if is_state(&name) {
                let path = folder.join(&name);
                bytes = regular::read_in(folder, &name, FILE_BYTES_MAX).map_err(io(&path))?;
                left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
                    ScopeError::TooLarge { path: folder.to_owned(), limit: TOTAL_BYTES_MAX }
                })?;
            }
            files.insert(name, bytes);
        }
    }
    Ok(files)
}

pub(super) fn is_state(name: &str) -> bool {
    [Platform::Unix, Platform::Windows].iter().any(|p| StateKind::of(name, *p).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_from_a_directory_without_an_entry_state() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("A.bat"), "text").unwrap();
        fs::write(folder.path().join("large.bin"), "data").unwrap();
        let read = WorkflowFiles::read(folder.path()).unwrap();
        assert_eq!(read.entry, None);
        assert_eq!(read.files["A.bat"], b"text");
        assert_eq!(read.files["large.bin"], b"", "what is no state is only listed");
    }

    #[test]
    fn files_are_read_from_the_directory_of_a_state() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("A.md"), "a").unwrap();
        fs::write(folder.path().join("B.sh"), "b").unwrap();
        let read = WorkflowFiles::read(&folder.path().join("B.sh")).unwrap();
        assert_eq!(read.entry, Some(StateName::new("B.sh")));
        assert_eq!(read.path, folder.path());
        assert_eq!(read.files.len(), 2);
    }

    #[test]
    fn files_are_not_read_from_a_path_that_is_not_a_workflow() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notes.txt");
        fs::write(&file, "x").unwrap();
        assert!(matches!(WorkflowFiles::read(&file), Err(ScopeError::Kind(_))));
        let gone = folder.path().join("gone");
        assert!(matches!(WorkflowFiles::read(&gone), Err(ScopeError::Io { .. })));
    }
}
