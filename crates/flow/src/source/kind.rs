//! The kind of a file by its extension, and which scripts a platform can run.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The family of operating systems that a workflow runs on. It is always a parameter, so that the
/// rules of both can be tested on one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// Linux, macOS and similar systems: scripts are `.sh`, run by bash.
    Unix,
    /// Windows: scripts are `.bat`, run by `cmd.exe`.
    Windows,
}

impl Platform {
    /// The platform this program was built for.
    pub const HERE: Self = if cfg!(windows) { Self::Windows } else { Self::Unix };

    /// The extension of scripts on this platform.
    pub fn script_extension(self) -> &'static str {
        match self {
            Self::Unix => ".sh",
            Self::Windows => ".bat",
        }
    }

    /// The other family.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Unix => Self::Windows,
            Self::Windows => Self::Unix,
        }
    }
}

impl std::fmt::Display for Platform {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unix => "Unix",
            Self::Windows => "Windows",
        })
    }
}

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
