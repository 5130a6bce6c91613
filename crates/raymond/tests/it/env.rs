//! A private project for one test: real program, real processes, real files.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use tempfile::TempDir;

#[cfg(not(windows))]
use crate::printed;

/// What runs the steps: `threads` on Linux instead of a keeper. The program reads it, too.
const RUNNER: &str = "RAYMOND_TEST_RUNNER";

/// A fresh project directory with a workflow.
pub(crate) struct Project {
    folder: TempDir,
}

impl Project {
    /// A project whose workflow `flow` has these state files.
    pub(crate) fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let folder = tempfile::Builder::new().prefix("raymond-test-").tempdir().unwrap();
        fs::create_dir_all(folder.path().join("flow")).unwrap();
        // The umask of the user who runs the tests may let others write to it.
        #[cfg_attr(windows, expect(unused_mut, reason = "there are no modes on Windows"))]
        let mut state_dir = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut state_dir, 0o755);
        state_dir.create(folder.path().join(".raymond")).unwrap();
        let project = Self { folder };
        for (name, text) in files {
            project.write(&format!("flow/{name}"), text);
        }
        project
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.file(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// The lines of a file that steps append to.
    pub(crate) fn lines(&self, name: &str) -> Vec<String> {
        self.read(name).lines().map(str::to_owned).collect()
    }

    /// How often each step appended its name to `log`.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in self.lines("log") {
            *counts.entry(line).or_default() += 1;
        }
        counts
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raymond"));
        command.args(arguments).current_dir(self.path());
        // The user who runs the tests has settings, and some variables are for the tests themselves.
        for (name, _) in std::env::vars_os() {
            if name.as_encoded_bytes().starts_with(b"RAYMOND_") && name != RUNNER {
                command.env_remove(name);
            }
        }
        command.envs(self.user()).stdin(Stdio::null());
        command
    }

    /// The same without the settings: coding agents look for theirs there, too.
    pub(crate) fn key(&self) -> impl Iterator<Item = (&'static str, PathBuf)> {
        self.user().into_iter().skip(1)
    }

    /// The variables that say where the user of this test has settings and a key, and that those of the project are the user's own.
    pub(crate) fn user(&self) -> [(&'static str, PathBuf); 3] {
        let config = self.file(".raymond/config.toml");
        [
            ("XDG_CONFIG_HOME", self.file(".config")),
            ("XDG_STATE_HOME", self.file(".state")),
            ("RAYMOND_TRUST", config),
        ]
    }

    /// The same with a umask, which an outer shell sets.
    #[cfg(unix)]
    pub(crate) fn command_with_umask(&self, umask: &str, arguments: &[&str]) -> Command {
        let inner = self.command(arguments);
        let mut command = Command::new("bash");
        command.args(["-c", "umask $0; exec \"$@\"", umask]);
        command.arg(inner.get_program()).args(inner.get_args()).current_dir(self.path());
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs `raymond` to its end.
    pub(crate) fn raymond(&self, arguments: &[&str]) -> Ran {
        Ran::of(&self.command(arguments).output().unwrap())
    }

    /// Starts `raymond` and does not wait for it.
    pub(crate) fn spawn(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// The processes that belong to this project.
    #[cfg(unix)]
    pub(crate) fn processes(&self) -> Vec<String> {
        let own = self.path().to_string_lossy().into_owned();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let read = |name: &str| {
                let bytes = fs::read(entry.path().join(name)).unwrap_or_default();
                String::from_utf8_lossy(&bytes).replace('\0', " ")
            };
            let cwd = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            let command = read("cmdline");
            let is_ours = command.contains(&own) || cwd.starts_with(self.path());
            if pid != std::process::id() && is_ours {
                found.push(format!("{pid} {command}"));
            }
        }
        found
    }

    /// The ids of those of them whose command line contains `text`, the oldest first.
    #[cfg(unix)]
    pub(crate) fn pids(&self, text: &str) -> Vec<u32> {
        let found = self.processes().into_iter().filter(|line| line.contains(text));
        let mut pids: Vec<_> =
            found.filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    /// Waits until no process of this project is left.
    #[cfg(unix)]
    pub(crate) fn wait_until_quiet(&self) {
        wait_until("no process is left", Duration::from_mins(1), || self.processes().is_empty());
    }
}

/// A run in the background may wait for an answer for ever, also when its test has failed.
#[cfg(unix)]
impl Drop for Project {
    fn drop(&mut self) {
        for process in self.processes() {
            let pid = process.split(' ').next().and_then(|pid| pid.parse().ok());
            if let Some(pid) = pid {
                kill(pid, libc::SIGKILL);
            }
        }
    }
}

/// Polls for a condition that sends no signal: the file or the death of another process.
pub(crate) fn wait_until(what: &str, patience: Duration, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + patience;
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The reaper of a step of run `r`.
#[cfg(unix)]
pub(crate) fn reaper_of(project: &Project, step: &str) -> u32 {
    let exit = project.read(&format!(".raymond/workflows/r/steps/{step}/exit"));
    let line: serde_json::Value = serde_json::from_str(exit.lines().next().unwrap()).unwrap();
    line["reaper"].as_u64().unwrap().try_into().unwrap()
}

/// The settings of the coding agent `program`, which is this program with these arguments.
#[cfg(unix)]
pub(crate) fn agent_table(words: &str) -> String {
    let mut words = words.split_whitespace();
    let program = words.next().unwrap();
    let arguments: Vec<_> = words.collect();
    format!("[agents.program]\nprogram = {program:?}\narguments = {arguments:?}\n")
}

/// A command with a coding agent.
#[cfg(unix)]
pub(crate) trait WithAgent {
    /// A program that carries out the prompts of states that name no coding agent: `program` in the user's settings.
    fn agent(&mut self, words: impl AsRef<str>) -> &mut Self;
}

#[cfg(unix)]
impl WithAgent for Command {
    fn agent(&mut self, words: impl AsRef<str>) -> &mut Self {
        let folder = self.get_envs().find_map(|(name, value)| {
            (name == "XDG_CONFIG_HOME").then(|| Path::new(value.unwrap()).join("raymond"))
        });
        let (folder, table) = (folder.unwrap(), agent_table(words.as_ref()));
        let path = folder.join("config.toml");
        // Another command may be reading it.
        if fs::read_to_string(&path).ok().as_ref() != Some(&table) {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, table).unwrap();
        }
        self.env("RAYMOND_AGENT", "program")
    }
}

/// The outcome of a call of `raymond`.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    #[track_caller]
    pub(crate) fn of(output: &Output) -> Self {
        let ran = Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        // What a test does not look at can be pasted all the same. The shells of Windows have rules of their own.
        #[cfg(not(windows))]
        for text in [&ran.stdout, &ran.stderr] {
            printed::check(text);
        }
        ran
    }

    #[track_caller]
    pub(crate) fn completed(self, result: &str) -> Self {
        assert_eq!((self.code, self.stdout.trim_end()), (0, result), "{}", self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn failed(self, code: i32, message: &str) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        assert!(self.stderr.contains(message), "expected {message:?} in:\n{}", self.stderr);
        self
    }
}

/// Kills a process with SIGKILL.
#[cfg(unix)]
#[expect(unsafe_code, reason = "a system call without memory")]
pub(crate) fn kill(pid: u32, signal: i32) {
    // SAFETY: no memory is involved.
    unsafe {
        libc::kill(pid.cast_signed(), signal);
    }
}

/// Another user, who exists on every system.
#[cfg(unix)]
pub(crate) const NOBODY: u32 = 65534;

/// Runs a function as another user. Only root can; other users skip it.
#[cfg(unix)]
#[expect(unsafe_code, reason = "system calls without memory")]
pub(crate) fn as_nobody<T: Send>(act: impl FnOnce() -> T + Send) -> Option<T> {
    // SAFETY: no memory is involved.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let act = || {
        let change = |call: libc::c_long, arguments: [u32; 3]| {
            let [first, second, third] = arguments;
            // SAFETY: no memory is involved. Unlike the functions of the C library, the bare calls
            // change this thread only.
            let result = unsafe { libc::syscall(call, first, second, third) };
            assert_eq!(result, 0, "{}", std::io::Error::last_os_error());
        };
        change(libc::SYS_setgroups, [0, 0, 0]);
        change(libc::SYS_setresgid, [NOBODY; 3]);
        change(libc::SYS_setresuid, [NOBODY; 3]);
        act()
    };
    Some(std::thread::scope(|scope| scope.spawn(act).join().unwrap()))
}
