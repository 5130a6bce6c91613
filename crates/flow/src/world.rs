//! Everything that the language reads from outside: read-only queries, answered by the caller.
//!
//! The engine answers them from disk and environment, tests and dry runs from memory. This crate has
//! no other access to files or environment.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Component, Path, PathBuf},
};

use thiserror::Error;

use crate::{
    coding_agent::{Capabilities, CodingAgents},
    payload::{Kept, Payload, Piece},
    scope::Listing,
    source::{Diagnostic, Platform},
};

/// The files and environment of a workflow, at this moment.
pub trait World {
    /// The platform whose rules apply.
    fn platform(&self) -> Platform;

    /// The names of the files and folders in a folder of the workflow's scope. `folder` is empty for the scope
    /// itself, and otherwise ends with a slash.
    fn listing(&self, folder: &str) -> Result<Listing, WorldError>;

    /// The bytes of a file in the scope or, with the path of its folder before it, of a subworkflow.
    fn read(&self, name: &str) -> Result<Vec<u8>, WorldError>;

    /// Moves what is wrong with a file to the place where its author finds it, if the file was written as a part of
    /// another one.
    fn locate(&self, _: &mut Diagnostic) {}

    /// The real path of the directory at the absolute `path`: without `.`, `..` and symbolic
    /// links, so that the path does not grow when an agent changes its directory repeatedly.
    /// `None` if there is no such directory.
    fn directory(&self, path: &str) -> Option<String>;

    /// Whether the environment that children inherit has a variable with this name.
    fn has_variable(&self, name: &str) -> bool;

    /// The path of the file with the value that has this fingerprint, for a prompt that names the file and
    /// not the value. It is written before an agent gets the prompt.
    fn value_file(&self, fingerprint: &str) -> String;

    /// The whole text of a payload, if it is there as it was kept and not too long for a prompt.
    fn text(&self, payload: &Payload) -> Result<String, WorldError>;

    /// The private directory of the agent with this name. It is made before a step of the agent starts.
    fn agent_folder(&self, agent: &str) -> String;

    /// The git checkout that contains the absolute directory `directory`, if a worktree can be made from it. Otherwise says
    /// why not, and what to do about it.
    fn checkout(&self, directory: &str) -> Result<Checkout, String>;

    /// Checks that the file at `path` below the absolute directory `folder` can be shown to a person: a
    /// regular file that is not too large, without links that lead out of `folder`. Says why if not.
    fn attachment(&self, folder: &str, path: &str) -> Result<(), String>;

    /// The time, in milliseconds since 1970.
    fn now_ms(&self) -> u64;

    /// The coding agents that can be asked.
    fn coding_agents(&self) -> &CodingAgents;
}

/// A checkout of a git repository, from which a worktree can be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    /// Its top directory; absolute.
    pub repository: String,
    /// The directory that was asked about, relative to the top; empty for the top itself.
    pub inside: String,
    /// The commit that is checked out.
    pub commit: String,
}

/// A query failed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{what}: {why}")]
pub struct WorldError {
    /// The query that failed, such as `cannot read START.md`.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// A world in memory.
#[derive(Clone, Debug)]
pub struct MemoryWorld {
    /// The platform whose rules apply.
    pub platform: Platform,
    /// The scope: names and contents. The name of a file in a folder begins with its path.
    pub files: BTreeMap<String, Vec<u8>>,
    /// The directories that exist.
    pub directories: BTreeSet<String>,
    /// The absolute paths of the files that can be shown to a person.
    pub attachments: BTreeSet<String>,
    /// The checkouts, by the directories that are asked about.
    pub checkouts: BTreeMap<String, Checkout>,
    /// The time, in milliseconds since 1970.
    pub now_ms: u64,
    /// The names of the variables that exist.
    pub variables: BTreeSet<String>,
    /// The texts that are kept, by their hashes.
    pub kept: BTreeMap<String, String>,
    /// The coding agents; at first one that can do everything and takes every turn.
    pub coding_agents: CodingAgents,
}

impl MemoryWorld {
    /// A Unix world with only these files in its scope.
    pub fn new<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files = files.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect();
        Self {
            platform: Platform::Unix,
            files,
            directories: BTreeSet::new(),
            attachments: BTreeSet::new(),
            checkouts: BTreeMap::new(),
            now_ms: 0,
            variables: BTreeSet::new(),
            kept: BTreeMap::new(),
            coding_agents: CodingAgents::only(Capabilities::FULL),
        }
    }
}

impl MemoryWorld {
    fn kept_text(&self, kept: &Kept) -> Result<String, WorldError> {
        let text = self.kept.get(&kept.sha256).ok_or_else(|| WorldError {
            what: format!("cannot read the result {}", kept.sha256),
            why: "no such text".to_owned(),
        })?;
        Ok(if kept.is_json { serde_json::Value::from(&**text).to_string() } else { text.clone() })
    }
}

impl World for MemoryWorld {
    fn platform(&self) -> Platform {
        self.platform
    }

    fn listing(&self, folder: &str) -> Result<Listing, WorldError> {
        Ok(Listing::of_folder(self.files.keys(), folder))
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, WorldError> {
        self.files.get(name).cloned().ok_or_else(|| WorldError {
            what: format!("cannot read `{name}`"),
            why: "no such file".to_owned(),
        })
    }

    /// There are no symbolic links in memory, so `..` is always the parent.
    fn directory(&self, path: &str) -> Option<String> {
        let mut real = PathBuf::new();
        for component in Path::new(path).components() {
            match component {
                Component::ParentDir => drop(real.pop()),
                Component::CurDir => {}
                Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                    real.push(component);
                }
            }
        }
        let real = real.to_string_lossy().into_owned();
        self.directories.contains(&real).then_some(real)
    }

    fn has_variable(&self, name: &str) -> bool {
        self.variables.contains(name)
    }

    fn value_file(&self, fingerprint: &str) -> String {
        format!("/values/{fingerprint}")
    }

    fn text(&self, payload: &Payload) -> Result<String, WorldError> {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => Ok(text.clone()),
            Piece::Kept(kept) => self.kept_text(kept),
        };
        payload.pieces().iter().map(text).collect()
    }

    fn agent_folder(&self, agent: &str) -> String {
        format!("/agents/{agent}")
    }

    fn checkout(&self, directory: &str) -> Result<Checkout, String> {
        let known = self.checkouts.get(directory).cloned();
        known.ok_or_else(|| format!("{directory} is not in a git repository"))
    }

    fn attachment(&self, folder: &str, path: &str) -> Result<(), String> {
        let is_there = self.attachments.contains(&format!("{folder}/{path}"));
        if is_there { Ok(()) } else { Err("no such file".to_owned()) }
    }

    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn coding_agents(&self) -> &CodingAgents {
        &self.coding_agents
    }
}
