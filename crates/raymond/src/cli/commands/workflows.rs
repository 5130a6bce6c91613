//! Which workflows the paths of a command name.

use std::path::{Path, PathBuf};

use raymond_engine::store::scope::{ScopeError, ScopeSource, is_packed};

use crate::failure::Failure;

/// The workflows that the paths name, in order. A directory that is no workflow stands for those directly in it.
pub(super) fn named(paths: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in paths {
        let inner = if has_no_entry(path) { inside(path)? } else { Vec::new() };
        if inner.is_empty() {
            found.push(path.clone());
        }
        found.extend(inner);
    }
    Ok(found)
}

fn has_no_entry(path: &Path) -> bool {
    path.is_dir() && matches!(ScopeSource::open(path), Err(ScopeError::Entry { .. }))
}

fn inside(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let io = |error| Failure::io(&format!("list {}", folder.display()), &error);
    let mut found = Vec::new();
    for entry in folder.read_dir().map_err(io)? {
        let path = entry.map_err(io)?.path();
        // An archive may be anything: it is a workflow if it has an entry state.
        let may_be = path.is_dir() || is_packed(&path);
        if may_be && ScopeSource::open(&path).is_ok() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "<result>x</result>").unwrap();
        }
        folder
    }

    fn names(folder: &tempfile::TempDir) -> Vec<String> {
        let found = named(&[folder.path().to_owned()]).unwrap();
        let name = |path: &PathBuf| path.strip_prefix(folder.path()).unwrap().display().to_string();
        found.iter().map(name).collect()
    }

    #[test]
    fn directory_without_an_entry_state_stands_for_the_workflows_in_it() {
        let files = ["b/START.md", "a/1_START.sh", "notes/README.md", "data.yaml", "x.txt"];
        assert_eq!(names(&folder(&files)), ["a", "b"]);
    }

    #[test]
    fn workflow_stands_for_itself_also_with_subworkflows() {
        assert_eq!(names(&folder(&["START.md", "review/START.md"])), [""]);
    }

    #[test]
    fn directory_without_any_workflow_stays_as_it_is_so_that_its_error_is_shown() {
        assert_eq!(names(&folder(&["STRAT.md"])), [""]);
    }
}
