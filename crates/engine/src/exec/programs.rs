//! Finds programs on the search path, and asks them about themselves.

use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::mpsc,
    time::Duration,
};

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

/// What a program prints that is started with one argument, such as `--help`. Not for long: `None` if it says nothing.
pub(crate) fn says(program: &str, argument: &str) -> Option<String> {
    // Longer than Claude Code takes on a busy machine.
    const PATIENCE: Duration = Duration::from_secs(20);
    // More than a help text has.
    const BYTES_MAX: u64 = 1 << 20;
    let mut command = Command::new(find(program)?);
    command.arg(argument).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let stdout = child.stdout.take()?;
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut said = Vec::new();
        let _ = stdout.take(BYTES_MAX).read_to_end(&mut said);
        let _ = sender.send(String::from_utf8_lossy(&said).into_owned());
    });
    let said = receiver.recv_timeout(PATIENCE).ok();
    // It has printed everything, or hangs.
    let _ = child.kill();
    let _ = child.wait();
    said.filter(|said| !said.trim().is_empty())
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
        assert_eq!(says("echo", "hello").as_deref(), Some("hello\n"));
        assert_eq!(says("no-such-program-at-all", "x"), None);
        let shell = shell().unwrap();
        assert!(matches!(&shell[..], [bash] if bash.ends_with("/bash")), "{shell:?}");
    }
}
