//! Where programs lie.

use std::path::{Path, PathBuf};

/// The file that `name` means: itself if it is a path, else the first of that name on the search
/// path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(Path::new(name).to_owned()).filter(|file| file.is_file());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
