//! Whatever goes wrong, as a person is told: what, where, and what to do next.

use std::{env, error::Error, io, path::Path, process::ExitCode};

use raymond_engine::{
    EngineError,
    journal::JournalError,
    lock::LockError,
    scope::{PackError, ScopeError},
    trust::{TRUST_VARIABLE, TrustError},
};
use raymond_flow::id::RunIdError;

use crate::out;

/// Something to tell a person, and the exit code that says it to a program.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    hint: Option<String>,
    code: u8,
}

/// The run failed, or could not be run.
const FAILED: u8 = 1;
/// What was typed makes no sense.
const USAGE: u8 = 2;

impl Failure {
    /// The file system said no.
    pub(crate) fn io(what: &str, error: &io::Error) -> Self {
        Self { message: format!("cannot {what}: {error}"), hint: None, code: FAILED }
    }

    /// What was typed makes no sense.
    pub(crate) fn usage(message: String) -> Self {
        Self { message, hint: None, code: USAGE }
    }

    /// The same with what to do next.
    #[must_use]
    pub(crate) fn hint(self, hint: &str) -> Self {
        Self { hint: Some(hint.to_owned()), ..self }
    }

    /// Shows it and gives the exit code.
    pub(crate) fn show(&self) -> ExitCode {
        let mut people = out::people();
        people.line(&format!("error: {}", self.message));
        if let Some(hint) = &self.hint {
            people.line("");
            people.line(&format!("hint: {hint}"));
        }
        ExitCode::from(self.code)
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

/// An error and everything that led to it, on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        let reason = source.to_string();
        // Some messages already contain their reason.
        if !text.contains(&reason) {
            text.push_str(": ");
            text.push_str(&reason);
        }
        next = source.source();
    }
    text
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// What to do about a journal that is refused.
fn journal_hint(error: &JournalError) -> Option<String> {
    match error {
        JournalError::Io { .. } => None,
        JournalError::Damaged { offset: 0, .. } | JournalError::OutOfOrder { offset: 0, .. } => {
            Some("restore the file from a backup: nothing is before the damage".to_owned())
        }
        JournalError::Damaged { path, offset } | JournalError::OutOfOrder { path, offset } => {
            let path = quoted(path);
            Some(format!(
                "restore the file from a backup, or go on from what is before the damage:\n      \
                 cp {path} {path}.damaged && truncate -s {offset} {path}"
            ))
        }
        JournalError::Crlf { path, .. } => Some(format!(
            "convert it back, and keep it out of version control:\n      sed -i 's/\\r$//' {}",
            quoted(path)
        )),
        JournalError::Newer { .. } => {
            Some("use the version of raymond that wrote it, or a newer one".to_owned())
        }
    }
}

impl From<TrustError> for Failure {
    fn from(error: TrustError) -> Self {
        let path = quoted(error.path());
        let trust = format!("if you trust it: export {TRUST_VARIABLE}={path}");
        let hint = match &error {
            TrustError::Io { .. } => None,
            TrustError::Writable { .. } => Some(format!(
                "if nobody else has changed what is in it: chmod go-w {path}\n      {trust}"
            )),
            TrustError::Foreign { owner, .. } => {
                let is_sudo = env::var("SUDO_UID").is_ok_and(|user| user == owner.to_string());
                let own = if is_sudo {
                    "run the same command without sudo"
                } else {
                    "use a state folder of your own: mkdir .raymond in your project, or --state-dir DIR"
                };
                Some(format!("{own}\n      {trust}"))
            }
        };
        Self { message: chain(&error), hint, code: USAGE }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let error = match error {
            EngineError::Trust(error) => return error.into(),
            error => error,
        };
        let hint = match &error {
            EngineError::NoSuchRun { .. } => Some("`raymond list` shows the runs of this project"),
            EngineError::Exists { .. } => {
                Some("choose another `--id`, or continue it with `raymond run`")
            }
            EngineError::Lock { source: LockError::Owned { .. }, .. } => {
                Some("wait for it to end, or stop it with Ctrl-C where it runs")
            }
            EngineError::NoAgent { .. } => {
                Some("configure it as before (`raymond config`), or choose another with `--agent`")
            }
            EngineError::Journal(JournalError::Io { .. })
            | EngineError::AtWork { .. }
            | EngineError::Io { .. } => Some(
                "nothing that finished is lost: fix the cause, then start the run again, or resume it: `raymond list` shows its id",
            ),
            _ => None,
        };
        let hint = match &error {
            EngineError::Journal(error) => journal_hint(error).or(hint.map(str::to_owned)),
            EngineError::LockLost { id, .. } => Some(format!(
                "nothing that finished is lost; leave the lock file alone, and resume: raymond run {id}"
            )),
            _ => hint.map(str::to_owned),
        };
        let code = match error {
            EngineError::NoSuchRun { .. }
            | EngineError::Exists { .. }
            | EngineError::NoAgent { .. }
            | EngineError::Scope(_) => USAGE,
            _ => FAILED,
        };
        Self { message: chain(&error), hint, code }
    }
}

impl From<ScopeError> for Failure {
    fn from(error: ScopeError) -> Self {
        Self { message: chain(&error), hint: None, code: USAGE }
    }
}

impl From<PackError> for Failure {
    fn from(error: PackError) -> Self {
        Self { message: chain(&error), hint: None, code: USAGE }
    }
}

impl From<RunIdError> for Failure {
    fn from(error: RunIdError) -> Self {
        Self { message: chain(&error), hint: None, code: USAGE }
    }
}
