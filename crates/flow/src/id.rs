//! Ids of runs, agents, sessions, state files and steps.
//!
//! Each has its own type, so that they cannot be confused. They are cheap to clone, because every
//! record and effect carries some.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

use crate::text::excerpt;

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
            /// Wraps `name` without checking it.
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
    /// One run of a workflow. Its files are named after it, so it is a valid file name on every platform.
    RunId
}

name_type! {
    /// One agent of a run: `main`, or `{parent}_{abbreviation}{counter}` for a forked one.
    /// Never given twice within a run.
    AgentId
}
opaque_name!(AgentId);

name_type! {
    /// A session of a coding agent. Opaque: the coding agent defines its format.
    SessionId
}
opaque_name!(SessionId);

/// The longest id of a session that a coding agent may report: it becomes a part of a file's name.
pub const SESSION_ID_BYTES_MAX: usize = 200;

/// A reported id that cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "`{}` cannot be the id of a session: it must have 1 to {SESSION_ID_BYTES_MAX} ASCII letters, digits, `-`, `_` \
     and `.`, and begin with a letter or digit",
    excerpt(id)
)]
pub struct SessionIdError {
    /// The id as reported.
    pub id: String,
}

impl SessionId {
    /// Checks an id that a coding agent chose. It becomes an argument, a variable and a part of a file's name.
    pub fn reported(id: &str) -> Result<Self, SessionIdError> {
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let begins_well = id.starts_with(|c: char| c.is_ascii_alphanumeric());
        if begins_well && id.len() <= SESSION_ID_BYTES_MAX && id.chars().all(is_part) {
            Ok(Self::new(id))
        } else {
            Err(SessionIdError { id: id.to_owned() })
        }
    }
}

name_type! {
    /// The file of a state that resolution has found, with its extension: `REVIEW.md`, or `review/PLAN.md`
    /// for a state of a subworkflow.
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

    /// The folder of the scope in which the names of this state are looked up, with a slash at its end:
    /// `review/`. Empty at the top of the scope.
    pub fn folder(&self) -> &str {
        self.0.strip_suffix(self.file_name()).unwrap_or_default()
    }

    /// Its file name in that folder.
    pub fn file_name(&self) -> &str {
        self.0.rsplit_once('/').map_or(&*self.0, |(_, name)| name)
    }
}

/// Why a text cannot be the id of a run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RunIdError {
    /// The id is empty.
    #[error("a run id cannot be empty")]
    Empty,
    /// The names of its files would be too long.
    #[error("a run id has at most {max} characters, this one has {length}")]
    TooLong {
        /// Its length in characters.
        length: usize,
        /// The limit.
        max: usize,
    },
    /// It starts with a dash, like an option.
    #[error("a run id cannot begin with a dash: commands would take it for an option")]
    Dash,
    /// A character that is not safe in file names.
    #[error("a run id has only letters, digits, `-` and `_`, not {character:?}")]
    Character {
        /// The first character that is not allowed.
        character: char,
    },
    /// A device name of Windows, which cannot be a file name.
    #[error("`{name}` is a reserved device name on Windows")]
    Reserved {
        /// The name as given.
        name: String,
    },
}

/// The longest id for which a file `ID.journal` can exist: file systems allow 255 bytes.
pub const RUN_ID_BYTES_MAX: usize = 255 - ".journal".len();

/// The longest id of a new run. Names derived from it, such as that of the debug directory
/// (`ID_20260131_120000`), are at most 32 bytes longer.
pub const NEW_RUN_ID_BYTES_MAX: usize = 255 - 32;

impl RunId {
    /// Checks that `id` can name a run's files on every platform.
    pub fn new(id: &str) -> Result<Self, RunIdError> {
        if id.is_empty() {
            return Err(RunIdError::Empty);
        }
        if id.len() > RUN_ID_BYTES_MAX {
            return Err(RunIdError::TooLong { length: id.len(), max: RUN_ID_BYTES_MAX });
        }
        if id.starts_with('-') {
            return Err(RunIdError::Dash);
        }
        if let Some(character) = id.chars().find(|&c| !is_id_char(c)) {
            return Err(RunIdError::Character { character });
        }
        if is_windows_device(id) {
            return Err(RunIdError::Reserved { name: id.to_owned() });
        }
        Ok(Self(Arc::from(id)))
    }

    /// Checks that a new run may have this id, and names derived from it.
    pub fn for_new_run(id: &str) -> Result<Self, RunIdError> {
        if id.len() > NEW_RUN_ID_BYTES_MAX {
            return Err(RunIdError::TooLong { length: id.len(), max: NEW_RUN_ID_BYTES_MAX });
        }
        Self::new(id)
    }

    /// The id of a new run of the workflow called `name`: the characters of `name` that are allowed in
    /// an id, and `suffix`, which makes it unique.
    pub fn derived(name: &str, suffix: &str) -> Result<Self, RunIdError> {
        let mut prefix = String::new();
        for c in name.chars() {
            match plain_letters(c) {
                Some(letters) => prefix.push_str(letters),
                None if is_id_char(c) => prefix.push(c),
                // Punctuation and spaces separate words. Letters of other scripts are dropped.
                None if c.is_ascii() => prefix.push('-'),
                None => {}
            }
        }
        let mut prefix = prefix.trim_matches('-');
        if prefix.is_empty() {
            prefix = "run";
        }
        let length_max = NEW_RUN_ID_BYTES_MAX.saturating_sub(1 + suffix.len());
        let prefix = prefix.get(..length_max).unwrap_or(prefix);
        Self::for_new_run(&format!("{prefix}-{suffix}"))
    }
}

fn is_id_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '-' || c == '_'
}

/// The ASCII letters for a letter of western European languages.
fn plain_letters(c: char) -> Option<&'static str> {
    Some(match c {
        'À'..='Å' => "A",
        'Æ' => "AE",
        'Ç' => "C",
        'È'..='Ë' => "E",
        'Ì'..='Ï' => "I",
        'Ñ' => "N",
        'Ò'..='Ö' | 'Ø' => "O",
        'Ù'..='Ü' => "U",
        'Ý' => "Y",
        'ß' => "ss",
        'à'..='å' => "a",
        'æ' => "ae",
        'ç' => "c",
        'è'..='ë' => "e",
        'ì'..='ï' => "i",
        'ñ' => "n",
        'ò'..='ö' | 'ø' => "o",
        'ù'..='ü' => "u",
        'ý' | 'ÿ' => "y",
        'Œ' => "OE",
        'œ' => "oe",
        _ => return None,
    })
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

/// One start of one child process: step `number` of `agent`.
///
/// Counting per agent makes the id a function of the agent's own history. If the tail of a
/// journal is lost, replaying the rest leads to the same step with the same id, so the
/// step directory with its outcome is found by its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct StepId {
    /// The agent whose step it is.
    pub agent: AgentId,
    /// The number of the step within the agent, from 1.
    pub number: u32,
}

impl fmt::Display for StepId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.agent, self.number)
    }
}

/// One question of one agent to a person: the agent and a number from its own history.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AskId {
    /// The agent that asks.
    pub agent: AgentId,
    /// The number of the question within the agent, from 1.
    pub number: u32,
}

impl fmt::Display for AskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.agent, self.number)
    }
}

impl AskId {
    /// Reads an id as it is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let (agent, number) = text.rsplit_once('.')?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit());
        let number = number.parse().ok().filter(|_| is_number && !agent.is_empty())?;
        Some(Self { agent: AgentId::new(agent), number })
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
        assert!(RunId::new(&"x".repeat(247)).is_ok());
    }

    #[test]
    fn run_id_refuses_what_cannot_be_a_file_name() {
        assert_eq!(RunId::new(""), Err(RunIdError::Empty));
        let too_long = RunIdError::TooLong { length: 248, max: 247 };
        assert_eq!(RunId::new(&"x".repeat(248)), Err(too_long));
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
    fn run_id_of_a_new_run_leaves_room_for_the_names_of_its_files() {
        assert!(RunId::for_new_run(&"x".repeat(223)).is_ok());
        let too_long = RunIdError::TooLong { length: 224, max: 223 };
        assert_eq!(RunId::for_new_run(&"x".repeat(224)), Err(too_long));
    }

    #[test]
    fn run_id_is_never_taken_for_an_option() {
        assert_eq!(RunId::for_new_run("-x"), Err(RunIdError::Dash));
        assert_eq!(RunId::new("--yes"), Err(RunIdError::Dash));
    }

    #[test]
    fn run_id_is_derived_from_any_name() {
        for (name, expected) in [
            ("tidy", "tidy-1a2b"),
            ("my flow.v2", "my-flow-v2-1a2b"),
            ("Müße", "Musse-1a2b"),
            ("日本語", "run-1a2b"),
            ("日本 flow", "flow-1a2b"),
            ("--help", "help-1a2b"),
            ("", "run-1a2b"),
            ("..", "run-1a2b"),
            ("con", "con-1a2b"),
        ] {
            assert_eq!(RunId::derived(name, "1a2b").unwrap().as_str(), expected, "{name}");
        }
        let long = RunId::derived(&"ß".repeat(300), "1a2b").unwrap();
        assert_eq!(long.as_str().len(), 223);
        assert!(long.as_str().ends_with("s-1a2b"));
    }

    #[test]
    fn run_id_is_checked_when_it_is_read_back() {
        assert!(serde_json::from_str::<RunId>("\"../evil\"").is_err());
    }
}
