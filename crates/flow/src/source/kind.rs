//! The kind of a file by its extension, and which scripts a platform can run.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::platform::Platform;

/// The extension of prompts.
pub(crate) const PROMPT_EXTENSION: &str = ".md";

/// How a state is carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StateKind {
    /// A markdown prompt for a coding agent.
    Prompt,
    /// A script that runs directly.
    Script,
}

/// Why a file cannot be a state here.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum StateKindError {
    /// A script of the other platform.
    #[error("`{name}` runs on {needs} only")]
    WrongPlatform {
        /// The file.
        name: String,
        /// Where it would run.
        needs: Platform,
    },
    /// Not an extension of a state.
    #[error("`{name}` is not a state: states end in .md, .sh or .bat")]
    Unsupported {
        /// The file.
        name: String,
    },
}

impl StateKind {
    /// What the file called `name` is on `platform`.
    pub fn of(name: &str, platform: Platform) -> Result<Self, StateKindError> {
        if has_extension(name, PROMPT_EXTENSION) {
            Ok(Self::Prompt)
        } else if has_extension(name, platform.script_extension()) {
            Ok(Self::Script)
        } else if has_extension(name, platform.other().script_extension()) {
            Err(StateKindError::WrongPlatform { name: name.to_owned(), needs: platform.other() })
        } else {
            Err(StateKindError::Unsupported { name: name.to_owned() })
        }
    }
}

/// Extensions are lower case on every platform, so that a workflow means the same on all of them.
fn has_extension(name: &str, extension: &str) -> bool {
    name.strip_suffix(extension).is_some_and(|stem| !stem.is_empty())
}
