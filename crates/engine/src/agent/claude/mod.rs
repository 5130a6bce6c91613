//! Claude Code.
//!
//! | file | what it owns |
//! |---|---|
//! | `checkup` | whether it is installed and logged in |
//! | `command` | the command line, the environment and the prompt of a turn |
//! | `reader` | the events as a transcript that does not depend on Claude Code |
//! | `output` | the events that Claude prints, and the outcome of a turn |
//! | `failure` | the classes of Claude's errors |
//! | `transcript` | where a session is on disk, and what it already contains |
//! | `questions` | what Claude asks with its own tool |
//! | `permissions` | what a state may ask for, and what the user's settings allow |
//! | `settings` | which model Claude uses when a turn asks for none |

mod checkup;
mod command;
mod failure;
mod output;
mod permissions;
mod permits;
mod questions;
mod reader;
mod settings;
mod transcript;

use std::{
    io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    coding_agent::Capabilities,
    id::SessionId,
    machine::{TurnFailure, TurnSettings},
};

use super::{
    Activity, Checkup, CodingAgent, SessionPart, TranscriptReader, TurnCommand, TurnEnd,
    TurnOutput, TurnRequest,
};

/// How Claude Code is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaudeConfig {
    /// Its name in frontmatter.
    pub name: String,
    /// The program.
    pub program: String,
    /// Further arguments for every turn.
    pub arguments: Vec<String>,
    /// Where Claude keeps its settings and transcripts.
    pub config_dir: PathBuf,
    /// The tools that a state may ask for, besides those that edit files.
    pub tools: Vec<String>,
    /// Whether what Claude asks with its own tool is put to a person.
    pub questions: bool,
    /// The model of turns that name none.
    pub model: Option<String>,
    /// The value of `ANTHROPIC_MODEL`, if it is set.
    pub environment_model: Option<String>,
    /// The account that it uses, as [`account`](crate::agent::account) names it.
    pub account: Option<String>,
}

/// The coding agent `claude`.
#[derive(Clone, Debug)]
pub struct ClaudeAgent {
    config: ClaudeConfig,
}

impl ClaudeAgent {
    /// Claude Code with these settings.
    pub fn new(config: ClaudeConfig) -> Self {
        Self { config }
    }
}

impl CodingAgent for ClaudeAgent {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        command::command(&self.config, request)
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        output::outcome(output)
    }

    fn program(&self) -> Vec<String> {
        vec![self.config.program.clone()]
    }

    fn account(&self, _settings: &TurnSettings) -> Option<String> {
        self.config.account.clone()
    }

    fn bookmark(&self, session: &SessionId, stdout: &Path, bytes: u64) -> Option<SessionId> {
        output::bookmark(session, stdout, bytes)
    }

    fn session_parts(&self, session: &SessionId, cwd: &str) -> Option<Vec<SessionPart>> {
        Some(transcript::parts(&self.config.config_dir, cwd, session))
    }

    fn prompt_text(&self, stdin: &str) -> String {
        reader::prompt(stdin)
    }

    fn transcript(&self, stdin: &Path, is_first: bool) -> Box<dyn TranscriptReader> {
        Box::new(reader::reader(stdin, is_first))
    }

    fn checkups(&self) -> Vec<Checkup> {
        checkup::checkups(&self.config.program)
    }

    fn activity(&self, line: &[u8]) -> Option<Activity> {
        output::activity(line)
    }
}
