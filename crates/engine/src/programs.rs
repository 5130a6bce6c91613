//! Where programs lie.

use std::path::{Path, PathBuf};

use raymond_flow::source::Platform;

/// What makes a file a program, in the order in which it is looked for. On Windows, a file without
/// any is a script for another shell that lies beside the program.
const EXTENSIONS: &[&str] = if cfg!(windows) { &["exe", "cmd", "bat", ""] } else { &[""] };

/// The file that `name` means: itself if it is a path, else the first of that name on the search
/// path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    if Path::new(name).components().count() > 1 {
        return program(Path::new(name));
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).find_map(|folder| program(&folder.join(name)))
}

fn program(path: &Path) -> Option<PathBuf> {
    let mut files = EXTENSIONS.iter().map(|extension| path.with_added_extension(extension));
    files.find(|file| file.is_file())
}

/// What the path of a script is put behind; `None` if that is not installed. On Windows it is
/// nothing: the standard library starts batch files with `cmd.exe`, and knows how to quote for it.
pub(crate) fn shell() -> Option<Vec<String>> {
    match Platform::HERE {
        Platform::Unix => Some(vec![find("bash")?.to_string_lossy().into_owned()]),
        Platform::Windows => Some(Vec::new()),
    }
}
