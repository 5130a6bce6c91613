//! Runs git: without prompts, with a time limit, with output of a limited size.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use thiserror::Error;

use crate::exec::{processes::Tree, programs};

/// How long a question may take: one that looks at all files of a large checkout with a cold cache.
const QUERY_PATIENCE: Duration = Duration::from_mins(1);
/// How long a change may take: checking out a large repository over a slow disk, with the user's own hooks.
const WORK_PATIENCE: Duration = Duration::from_mins(15);
/// The most output that is read: a list of files, or a diff that people look at.
const OUTPUT_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// The most of an error message that is shown.
const ERROR_BYTES_MAX: u64 = 2_000;
/// How long a command is repeated that met another git process in the middle of a change. Such changes take milliseconds.
const CROSSING_PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before it is repeated, at first and at most.
const CROSSING_INTERVALS: (Duration, Duration) =
    (Duration::from_millis(5), Duration::from_millis(200));
/// How often a running git is looked at, at first and at most.
const LOOK_INTERVALS: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));
/// Before what a record says: nothing after it is an option.
pub(super) const NO_OPTION: &str = "--end-of-options";
/// Variables that would lead git to another repository: a hook of git that starts Raymond has them.
const MISLEADING: [&str; 8] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_NAMESPACE",
    "GIT_PREFIX",
];

/// Why git did not do what it was asked for.
#[derive(Debug, Error)]
pub enum GitError {
    /// There is no such program.
    #[error("git is not installed")]
    NotInstalled,
    /// It could not be started, or its output not read.
    #[error("`git {command}` could not be run in {}: {source}", .directory.display())]
    NotRun {
        /// The first word after `git`.
        command: String,
        /// Where.
        directory: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It took too long and was killed.
    #[error("`git {command}` did not end within {seconds} seconds and was killed")]
    TimedOut {
        /// The first word after `git`.
        command: String,
        /// The limit.
        seconds: u64,
    },
    /// The run is ending, so it was killed.
    #[error("`git {command}` was interrupted")]
    Interrupted {
        /// The first word after `git`.
        command: String,
    },
    /// It was not asked, because what is recorded cannot be true.
    #[error("the record of the worktree {} cannot be one of Raymond's own: nothing was done to it", .path.display())]
    NotOurs {
        /// Where the worktree should be.
        path: PathBuf,
    },
    /// It was not asked, because a link leads from where the worktree was made to another place.
    #[error("{} is a link to {}: nothing was done with the worktree there", .path.display(), .to.display())]
    Link {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        to: PathBuf,
    },
    /// It was not asked, because a step has changed where `.git` in the worktree leads: settings there could start programs.
    #[error("`.git` in the worktree {} does not lead to its repository: nothing was done there", .path.display())]
    Redirected {
        /// The worktree.
        path: PathBuf,
    },
    /// It says no.
    #[error("`git {command}` failed: {said}")]
    Refused {
        /// The first word after `git`.
        command: String,
        /// Its exit code; `None` if a signal ended it.
        code: Option<i32>,
        /// What it said.
        said: String,
    },
}

impl GitError {
    /// Whether a signal ended it.
    pub(super) fn is_killed(&self) -> bool {
        matches!(self, Self::Refused { code: None, .. })
    }

    /// Whether git met another git process in the middle of a change. Commands that look at all worktrees of a repository fail
    /// while another process adds or removes one: they read files of it that are not written yet, or no longer there.
    fn is_crossing(&self) -> bool {
        let Self::Refused { said, .. } = self else { return false };
        let is_half_made = said.contains("worktrees/")
            && (said.contains("/commondir") || said.contains("/locked' for writing"));
        is_half_made || said.contains(".lock': File exists")
    }
}

/// Git in one directory.
#[derive(Clone, Copy)]
pub(super) struct Git<'a> {
    directory: &'a Path,
    patience: Duration,
    claim: Option<&'a File>,
    stop: Option<&'a AtomicBool>,
}

impl<'a> Git<'a> {
    /// For questions about `directory`.
    pub(super) fn at(directory: &'a Path) -> Self {
        Self { directory, patience: QUERY_PATIENCE, claim: None, stop: None }
    }

    /// For changes, which may take longer.
    pub(super) fn patient(self) -> Self {
        Self { patience: WORK_PATIENCE, ..self }
    }

    /// Its processes keep the lock of this file, also if this process is killed.
    pub(super) fn holding(self, claim: &'a File) -> Self {
        Self { claim: Some(claim), ..self }
    }

    /// It is killed when `stop` becomes true.
    pub(super) fn until(self, stop: &'a AtomicBool) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// What git prints, without the last line break.
    pub(super) fn text(&self, arguments: &[&str]) -> Result<String, GitError> {
        let output = self.bytes(arguments)?;
        Ok(String::from_utf8_lossy(&output).trim_end_matches(['\n', '\r']).to_owned())
    }

    /// Whether git says yes (0) or no (1).
    pub(super) fn says_yes(&self, arguments: &[&str]) -> Result<bool, GitError> {
        match self.bytes(arguments) {
            Ok(_) => Ok(true),
            Err(GitError::Refused { code: Some(1), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What git prints, at most [`OUTPUT_BYTES_MAX`].
    pub(super) fn bytes(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        self.repeated(|| self.once(arguments))
    }

    /// Does `act` again while it meets other git processes in the middle of a change.
    pub(super) fn repeated<T>(
        &self,
        mut act: impl FnMut() -> Result<T, GitError>,
    ) -> Result<T, GitError> {
        let begun = Instant::now();
        let mut interval = CROSSING_INTERVALS.0;
        loop {
            let done = act();
            let is_stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            let is_crossing = done.as_ref().is_err_and(GitError::is_crossing);
            if !is_crossing || is_stopped || begun.elapsed() >= CROSSING_PATIENCE {
                return done;
            }
            std::thread::sleep(interval);
            interval = (interval * 2).min(CROSSING_INTERVALS.1);
        }
    }

    /// What git prints, the first time.
    pub(super) fn once(&self, arguments: &[&str]) -> Result<Vec<u8>, GitError> {
        let program = programs::find("git").ok_or(GitError::NotInstalled)?;
        let mut words = arguments.iter();
        let is_option = |word: &&&str| word.starts_with('-') || word.contains('=');
        let command = words.find(|word| !is_option(word)).copied().unwrap_or_default().to_owned();
        let not_run = |source| GitError::NotRun {
            command: command.clone(),
            directory: self.directory.to_owned(),
            source,
        };
        // Files and no pipes: a hook may leave a process behind that keeps them open.
        let mut output = tempfile::tempfile().map_err(not_run)?;
        let mut errors = tempfile::tempfile().map_err(not_run)?;
        let mut child = self.command(&program, arguments, &output, &errors).map_err(not_run)?;
        let (mut child, tree) = Tree::spawn(&mut child).map_err(not_run)?;
        let begun = Instant::now();
        let mut interval = LOOK_INTERVALS.0;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(not_run)? {
                break status;
            }
            let is_stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
            if is_stopped || begun.elapsed() >= self.patience {
                tree.end(false);
                let _ = child.wait();
                let seconds = self.patience.as_secs();
                return Err(if is_stopped {
                    GitError::Interrupted { command }
                } else {
                    GitError::TimedOut { command, seconds }
                });
            }
            std::thread::sleep(interval);
            interval = (interval * 2).min(LOOK_INTERVALS.1);
        };
        if status.success() {
            return beginning(&mut output, OUTPUT_BYTES_MAX).map_err(not_run);
        }
        let said = beginning(&mut errors, ERROR_BYTES_MAX).map_err(not_run)?;
        let said = String::from_utf8_lossy(&said);
        let said = said.trim().trim_start_matches("fatal: ").trim_start_matches("error: ");
        let said =
            if said.is_empty() && status.code().is_none() { "a signal killed it" } else { said };
        Err(GitError::Refused { command, code: status.code(), said: said.to_owned() })
    }

    fn command(
        &self,
        program: &Path,
        arguments: &[&str],
        output: &File,
        errors: &File,
    ) -> io::Result<Command> {
        let mut command = Command::new(program);
        // A program that a repository names for this is not needed, and a step can have named it.
        command.args(["-c", "core.fsmonitor=false"]);
        command.args(arguments).current_dir(self.directory);
        for name in MISLEADING {
            command.env_remove(name);
        }
        // Nobody is there to answer a prompt, and messages are compared.
        command.env("GIT_TERMINAL_PROMPT", "0").env("GIT_EDITOR", "true").env("LC_ALL", "C");
        // A question must not lock the index, which an agent may be using.
        if self.patience == QUERY_PATIENCE {
            command.env("GIT_OPTIONAL_LOCKS", "0");
        }
        match self.claim {
            Some(claim) => command.stdin(claim.try_clone()?),
            None => command.stdin(Stdio::null()),
        };
        command.stdout(output.try_clone()?).stderr(errors.try_clone()?);
        Ok(command)
    }
}

fn beginning(file: &mut File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The directory with the data that all worktrees of a repository share.
pub(super) fn common_dir(directory: &Path) -> Result<PathBuf, GitError> {
    let git = Git::at(directory);
    Ok(git.text(&["rev-parse", "--path-format=absolute", "--git-common-dir"])?.into())
}
