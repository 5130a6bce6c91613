//! Names that must never be mixed up: runs, agents, sessions, state files and steps.
//!
//! Each is a type of its own. They are cheap to clone, because every record and effect
//! carries some.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &*self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }
    };
}

macro_rules! opaque_name {
    ($name:ident) => {
        impl $name {
            /// Takes `name` as it is.
            pub fn new(name: impl AsRef<str>) -> Self {
                Self(Arc::from(name.as_ref()))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer).map(Self::new)
            }
        }
    };
}

name_type! {
    /// One run of a workflow: the name of its files, so it obeys the rules of file names everywhere.
    RunId
}

name_type! {
    /// One agent of a run: `main`, or `{parent}_{abbreviation}{counter}` for a forked one.
    /// Never given twice within a run.
    AgentId
}
opaque_name!(AgentId);

name_type! {
    /// A conversation of a coding agent. Opaque: whatever the agent program calls it.
    SessionId
}
opaque_name!(SessionId);

name_type! {
    /// The file name of a state that resolution has found, with its extension: `REVIEW.md`.
    StateName
}
opaque_name!(StateName);

impl AgentId {
    /// The agent that every run starts with.
    pub fn main() -> Self {
        Self::new("main")
    }
}

impl StateName {
    /// The name without its extension, as a prompt might write it: `REVIEW`.
    pub fn stem(&self) -> &str {
        self.0.rsplit_once('.').map_or(&*self.0, |(stem, _)| stem)
    }
}

/// Why a text cannot be the id of a run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RunIdError {
    /// Nothing at all.
    #[error("a run id cannot be empty")]
    Empty,
    /// Longer than a file name may be.
    #[error("a run id has at most {RUN_ID_BYTES_MAX} characters, this one has {length}")]
    TooLong {
        /// How long it was.
        length: usize,
    },
    /// A character that is not safe in file names.
    #[error("a run id has only letters, digits, `-` and `_`, not {character:?}")]
    Character {
        /// The first one that is not allowed.
        character: char,
    },
    /// A device name of Windows, which cannot be a file.
    #[error("`{name}` is a reserved device name on Windows")]
    Reserved {
        /// The name as given.
        name: String,
    },
}

/// What file systems allow for one name.
pub const RUN_ID_BYTES_MAX: usize = 255;

impl RunId {
    /// Checks that `id` can name a run's files on every platform.
    pub fn new(id: &str) -> Result<Self, RunIdError> {
        if id.is_empty() {
            return Err(RunIdError::Empty);
        }
        if id.len() > RUN_ID_BYTES_MAX {
            return Err(RunIdError::TooLong { length: id.len() });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if let Some(character) = id.chars().find(|&c| !allowed(c)) {
            return Err(RunIdError::Character { character });
        }
        if is_windows_device(id) {
            return Err(RunIdError::Reserved { name: id.to_owned() });
        }
        Ok(Self(Arc::from(id)))
    }
}

impl<'de> Deserialize<'de> for RunId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

fn is_windows_device(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    if matches!(upper.as_str(), "CON" | "PRN" | "AUX" | "NUL") {
        return true;
    }
    let numbered = upper.strip_prefix("COM").or_else(|| upper.strip_prefix("LPT"));
    matches!(numbered.map(str::as_bytes), Some([b'1'..=b'9']))
}

/// One start of one child process: the `number`th that `agent` asked for.
///
/// Counting per agent makes the id a function of the agent's own history. When the tail of a
/// journal is lost, replaying the rest asks for the same step under the same id again, so the
/// folder in which its outcome already lies is found by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepId {
    /// Whose step it is.
    pub agent: AgentId,
    /// Which one, from 1.
    pub number: u32,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_id_takes_letters_digits_dashes_and_underscores() {
        for id in ["issue-195-a1b2c3d4", "A_b", "0", "com10", "console"] {
            assert_eq!(RunId::new(id).unwrap().as_str(), id);
        }
        assert!(RunId::new(&"x".repeat(255)).is_ok());
    }

    #[test]
    fn run_id_refuses_what_cannot_be_a_file_name() {
        assert_eq!(RunId::new(""), Err(RunIdError::Empty));
        assert_eq!(RunId::new(&"x".repeat(256)), Err(RunIdError::TooLong { length: 256 }));
        for (id, character) in [("a/b", '/'), ("..", '.'), ("a b", ' '), ("ä", 'ä'), ("a\0", '\0')]
        {
            assert_eq!(RunId::new(id), Err(RunIdError::Character { character }));
        }
    }

    #[test]
    fn run_id_refuses_reserved_windows_names_in_any_case() {
        for name in ["CON", "nul", "Aux", "prn", "COM1", "lpt9"] {
            assert_eq!(RunId::new(name), Err(RunIdError::Reserved { name: name.to_owned() }));
        }
    }

    #[test]
    fn run_id_is_checked_when_it_is_read_back() {
        assert!(serde_json::from_str::<RunId>("\"../evil\"").is_err());
    }
}
