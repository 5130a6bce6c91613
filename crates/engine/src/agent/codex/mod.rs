//! Codex, by `codex exec --json`.
//!
//! | file | what it owns |
//! |---|---|
//! | `checkup` | whether it is installed and logged in |
//! | `command` | the command line of a turn, its sandbox and its prompt |
//! | `output` | the events that Codex prints, and the outcome of a turn |
//! | `failure` | the classes of Codex's errors |
//! | `reader` | the events as a transcript that does not depend on Codex |
//! | `rollout` | what a session on disk already contains |
//!
//! Codex chooses the ids of its sessions, which it calls threads. A fork refers to the files of its parent, so nothing
//! here ever removes a session.

mod checkup;
mod command;
mod failure;
mod output;
mod reader;
mod rollout;

use std::{
    io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    coding_agent::Capabilities,
    machine::{TurnFailure, TurnSettings},
};

use super::{
    APART_MODEL, Activity, AgentConfig, AgentKind, Apart, Checkup, CodingAgent, TranscriptReader,
    TurnCommand, TurnEnd, TurnOutput, TurnRequest, Versions,
};

/// Codex among the coding agents that Raymond knows.
pub(super) const KIND: AgentKind = AgentKind {
    name: "codex",
    keys: &["program", "arguments", "model", "prices", "kind"],
    make: |config| Box::new(CodexAgent::new(config)),
};

/// Variables that take precedence over its login.
const KEYS: [&str; 3] = ["CODEX_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL"];

/// The coding agent `codex`.
#[derive(Clone, Debug)]
pub(super) struct CodexAgent {
    config: AgentConfig,
    program: String,
    /// Where Codex keeps its settings and sessions.
    home: PathBuf,
}

impl CodexAgent {
    fn new(config: AgentConfig) -> Self {
        let program = config.program.clone().unwrap_or_else(|| KIND.name.to_owned());
        let home = AgentConfig::directory("CODEX_HOME", ".codex");
        Self { config, program, home }
    }
}

impl CodingAgent for CodexAgent {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            names_sessions: true,
            can_branch: true,
            reports_cost: self.config.prices.is_some(),
            can_continue: true,
            limits_tools: false,
            has_permissions: true,
            can_limit: false,
            has_options: false,
        }
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        command::command(self, request)
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        let mut end = output::outcome(output, self.config.prices.as_ref())?;
        end.spent.version =
            AgentConfig::version(KIND.name, &self.program, checkup::VERSIONS.package);
        Ok(end)
    }

    fn counts_by_session(&self) -> bool {
        true
    }

    fn program(&self) -> Vec<String> {
        vec![self.program.clone()]
    }

    fn account(&self, _settings: &TurnSettings) -> Option<String> {
        Some(self.config.account(KIND.name, &self.home, &KEYS, ""))
    }

    fn transcript(&self, _stdin: &Path, _is_first: bool) -> Box<dyn TranscriptReader> {
        Box::new(reader::CodexReader)
    }

    fn checkups(&self) -> Vec<Checkup> {
        checkup::checkups(&self.program)
    }

    fn versions(&self) -> Option<Versions> {
        Some(checkup::VERSIONS)
    }

    fn apart(&self, home: &Path, url: &str) -> Option<Apart> {
        let config = self.config.apart(APART_MODEL);
        let agent = Self { config, program: self.program.clone(), home: home.join(".codex") };
        // Without both switches every turn waits five seconds for the network at its end.
        let settings = format!(
            "model_provider = 'doctor'\nanalytics.enabled = false\nfeatures.plugins = false\n\
             [model_providers.doctor]\nname = 'doctor'\nbase_url = '{url}/v1'\nenv_key = 'DOCTOR_KEY'\n\
             wire_api = 'responses'\n"
        );
        let environment = [
            ("CODEX_HOME".to_owned(), agent.home.to_string_lossy().into_owned()),
            ("DOCTOR_KEY".to_owned(), "dummy".to_owned()),
        ];
        let files = vec![(agent.home.join("config.toml"), settings)];
        Some(Apart { agent: Box::new(agent), environment: environment.to_vec(), files })
    }

    fn activity(&self, line: &[u8]) -> Option<Activity> {
        reader::activity(line)
    }
}
