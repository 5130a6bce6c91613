//! The failure of a command: what failed, and what to do next.

use std::fmt::Display;

use crate::store::StoreError;

/// What failed, and what to do next.
#[derive(Debug)]
pub struct Failure {
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None }
    }

    /// `None` changes nothing.
    pub(crate) fn with_hint(self, hint: impl Into<Option<String>>) -> Self {
        Self { hint: hint.into().or(self.hint), ..self }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error: {}", self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

/// The failure of what could not be done.
pub(crate) fn failed<E: Display>(what: &str) -> impl FnOnce(E) -> Failure {
    move |error| Failure::new(format!("cannot {what}: {error}"))
}

/// The failure of something that the store is needed for.
pub(crate) fn store_failed(what: &str) -> impl FnOnce(StoreError) -> Failure {
    move |error| {
        let hint = error.hint().map(str::to_owned);
        Failure { message: format!("cannot {what}: {error}"), hint }
    }
}
