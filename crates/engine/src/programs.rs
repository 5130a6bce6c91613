//! Finds programs on the search path.

use std::path::{Path, PathBuf};

use raymond_flow::source::Platform;

/// The extensions of programs, in the order in which they are tried. On Windows, the one without
/// an extension comes last: beside a program it is often a script for another shell.
const EXTENSIONS: &[&str] = if cfg!(windows) { &["exe", "cmd", "bat", ""] } else { &[""] };

/// The file that `name` refers to: `name` itself if it is a path, else the first match in `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
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

/// The command to which the path of a script is appended; `None` if the shell is not installed. Empty
/// on Windows: the standard library starts batch files with `cmd.exe` and quotes arguments for it.
pub(crate) fn shell() -> Option<Vec<String>> {
    match Platform::HERE {
        Platform::Unix => Some(vec![find("bash")?.to_string_lossy().into_owned()]),
        Platform::Windows => Some(Vec::new()),
    }
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use super::*;

    #[test]
    fn program_is_found_in_the_search_path_or_where_its_path_says() {
        let sh = find("sh").unwrap();
        assert!(sh.is_absolute() && sh.ends_with("sh"), "{sh:?}");
        assert_eq!(find("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find("/bin"), None, "a directory is none");
        assert_eq!(find("/no/such/program"), None);
        assert_eq!(find("no-such-program-at-all"), None);
        // A path is not searched for.
        assert_eq!(find("./sh"), None);
        let shell = shell().unwrap();
        assert!(matches!(&shell[..], [bash] if bash.ends_with("/bash")), "{shell:?}");
    }
}
