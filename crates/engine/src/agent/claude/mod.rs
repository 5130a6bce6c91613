//! Claude Code.
//!
//! | file | what it owns |
//! |---|---|
//! | `checkup` | whether it is installed and logged in |
//! | `command` | the command line, the environment and the prompt of a turn |
//! | `conversation` | the events as a transcript that does not depend on Claude Code |
//! | `output` | the events that Claude prints, and what came of a turn |
//! | `failure` | which kind of failure an error of Claude's is |
//! | `limit` | usage limits told in words: the wordings, and the time in them |
//! | `transcript` | what a session on disk knows already |
//! | `settings` | which model Claude uses when a turn asks for none |

mod checkup;
mod command;
mod conversation;
mod failure;
mod limit;
mod output;
mod settings;
mod transcript;

use std::{
    io,
    path::{Path, PathBuf},
};

use raymond_flow::{coding_agent::Capabilities, machine::TurnFailure};

use super::{
    Activity, Checkup, CodingAgent, TranscriptReader, TurnCommand, TurnEnd, TurnOutput, TurnRequest,
};

/// How Claude Code is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaudeConfig {
    /// What states call it.
    pub name: String,
    /// The program.
    pub program: String,
    /// Further arguments for every turn.
    pub arguments: Vec<String>,
    /// Where Claude keeps its settings and transcripts.
    pub config_dir: PathBuf,
    /// The model of turns that ask for none.
    pub model: Option<String>,
    /// The model of `ANTHROPIC_MODEL`, if it is set.
    pub environment_model: Option<String>,
}

/// The coding agent `claude`.
#[derive(Clone, Debug)]
pub struct ClaudeAgent {
    config: ClaudeConfig,
}

impl ClaudeAgent {
    /// Claude Code, used like this.
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
        Ok(command::command(&self.config, request))
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        output::outcome(output)
    }

    fn program(&self) -> Vec<String> {
        vec![self.config.program.clone()]
    }

    fn prompt_text(&self, stdin: &str) -> String {
        conversation::prompt(stdin)
    }

    fn transcript(&self, stdin: &Path, is_first: bool) -> Box<dyn TranscriptReader> {
        Box::new(conversation::reader(stdin, is_first))
    }

    fn checkups(&self) -> Vec<Checkup> {
        checkup::checkups(&self.config.program)
    }

    fn activity(&self, line: &[u8]) -> Option<Activity> {
        output::activity(line)
    }
}
