//! Whatever goes wrong, as a person is told: what, where, and what to do next.

use std::{error::Error, io, process::ExitCode};

use raymond_engine::{
    EngineError,
    lock::LockError,
    scope::{PackError, ScopeError},
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

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
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
            EngineError::Journal(_) | EngineError::AtWork { .. } | EngineError::Io { .. } => {
                Some("nothing that finished is lost: mend the cause, then `raymond run ID` goes on")
            }
            _ => None,
        };
        let code = match error {
            EngineError::NoSuchRun { .. }
            | EngineError::Exists { .. }
            | EngineError::NoAgent { .. }
            | EngineError::Scope(_) => USAGE,
            _ => FAILED,
        };
        Self { message: chain(&error), hint: hint.map(str::to_owned), code }
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
