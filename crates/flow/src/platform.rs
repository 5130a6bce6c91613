//! The families of operating systems, whose rules for names and scripts differ.

use serde::{Deserialize, Serialize};

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
