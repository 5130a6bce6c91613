//! Claude Code.
//!
//! | file | what it owns |
//! |---|---|
//! | `checkup` | whether it is installed and logged in |
//! | `command` | the command line, the environment and the prompt of a turn |
//! | `reader` | the events as a transcript that does not depend on Claude Code |
//! | `event` | one event that Claude prints, and the cost that it tells |
//! | `output` | the outcome of a turn, from its events |
//! | `failure` | the classes of Claude's errors |
//! | `unpaid` | what a turn has spent that ended without a result |
//! | `prices` | what models cost where Claude does not say it |
//! | `transcript` | where a session is on disk, and what it already contains |
//! | `questions` | what Claude asks with its own tool |
//! | `options` | what else a state asks for, as options of Claude |
//! | `permissions` | what a state may ask for, and what the user's settings allow |
//! | `settings` | which model Claude uses when a turn asks for none |

mod checkup;
mod command;
mod event;
mod failure;
mod options;
mod output;
mod permissions;
mod permits;
mod prices;
mod questions;
mod reader;
mod settings;
mod transcript;
mod unpaid;

use std::{
    collections::BTreeMap,
    env, io,
    num::NonZeroU32,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use raymond_flow::{
    coding_agent::Capabilities,
    id::SessionId,
    machine::{TurnFailure, TurnSettings},
};

use super::{
    Activity, AgentConfig, AgentKind, Apart, Checkup, CodingAgent, SessionPart, TranscriptReader,
    TurnCommand, TurnEnd, TurnOutput, TurnRequest, Versions, account,
};
use crate::exec::step::LiveMessage;

/// How Claude Code is used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    /// The models to use while the one of a turn is not available, for states that name none.
    pub fallback_model: Vec<String>,
    /// How often a turn may ask the model, for states that do not say it.
    pub max_turns: Option<u32>,
    /// What is added to the system prompt in states that do not say it.
    pub system: Option<String>,
    /// The MCP servers that a state may name, as Claude reads them.
    pub mcp: BTreeMap<String, serde_json::Value>,
    /// The directories that a state may add, and all below them; absolute.
    pub add_dirs: Vec<PathBuf>,
    /// Directories of the user that no turn may edit: the key and the settings of Raymond.
    pub closed_dirs: Vec<PathBuf>,
    /// Whether what Claude asks with its own tool is put to a person.
    pub questions: bool,
    /// The model of turns that name none.
    pub model: Option<String>,
    /// The value of `ANTHROPIC_MODEL`, if it is set.
    pub environment_model: Option<String>,
    /// The account that it uses, as [`account`](crate::agent::account) names it.
    pub account: Option<String>,
}

/// Claude Code among the coding agents that Raymond knows.
pub(super) const KIND: AgentKind = AgentKind {
    name: "claude",
    keys: &[
        "program",
        "arguments",
        "model",
        "tools",
        "questions",
        "fallback_model",
        "max_turns",
        "system",
        "mcp",
        "add_dirs",
        "kind",
    ],
    make: |config| Box::new(ClaudeAgent::new(config.into())),
};

/// The variables that choose the account.
const CREDENTIALS: [&str; 4] =
    ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN"];

impl From<AgentConfig> for ClaudeConfig {
    fn from(config: AgentConfig) -> Self {
        let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
        let config_dir = AgentConfig::directory("CLAUDE_CONFIG_DIR", ".claude");
        // A login is kept in its directory; a key or another address takes precedence.
        let credentials = CREDENTIALS.map(|name| text(name).unwrap_or_default());
        let home = config_dir.to_string_lossy();
        let parts = std::iter::once(&*home).chain(credentials.iter().map(String::as_str));
        Self {
            account: Some(account(KIND.name, parts)),
            name: config.name,
            program: config.program.unwrap_or_else(|| KIND.name.to_owned()),
            arguments: config.arguments,
            tools: config.tools,
            fallback_model: config.fallback_model,
            max_turns: config.max_turns.map(NonZeroU32::get),
            system: config.system,
            mcp: config.mcp.into_iter().map(|(name, server)| (name, server.into())).collect(),
            add_dirs: config.add_dirs,
            closed_dirs: config.closed_dirs,
            questions: config.questions,
            model: config.model,
            environment_model: text("ANTHROPIC_MODEL"),
            config_dir,
        }
    }
}

/// The coding agent `claude`.
#[derive(Clone, Debug)]
pub struct ClaudeAgent {
    config: ClaudeConfig,
    /// Whether it keeps the first system prompt of a session, unless it is told not to.
    keeps_system: OnceLock<bool>,
}

impl ClaudeAgent {
    /// Claude Code with these settings.
    pub fn new(config: ClaudeConfig) -> Self {
        Self { config, keeps_system: OnceLock::new() }
    }
}

/// The variables with which Claude Code uses the model at `url`, and nothing else of the network.
pub(super) fn apart_environment(home: &Path, url: &str) -> Vec<(String, String)> {
    let pairs = [
        ("ANTHROPIC_BASE_URL", url.to_owned()),
        ("ANTHROPIC_API_KEY", "dummy".to_owned()),
        ("CLAUDE_CODE_TMPDIR", home.to_string_lossy().into_owned()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
        ("DISABLE_TELEMETRY", "1".to_owned()),
        ("DISABLE_AUTOUPDATER", "1".to_owned()),
    ];
    pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl CodingAgent for ClaudeAgent {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        let mut command = command::command(&self.config, request)?;
        let system = &request.turn.settings.options.system;
        if (system.is_some() || self.config.system.is_some())
            && *self.keeps_system.get_or_init(|| options::keeps_system(&self.config.program))
        {
            command.program.extend(options::FORGET_SYSTEM.map(str::to_owned));
        }
        Ok(command)
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        output::outcome(output, &self.config.config_dir)
    }

    fn message(&self, id: &str, text: &str) -> Option<LiveMessage> {
        command::live_message(id, text)
    }

    fn program(&self) -> Vec<String> {
        vec![self.config.program.clone()]
    }

    fn account(&self, _settings: &TurnSettings) -> Option<String> {
        self.config.account.clone()
    }

    fn asked_model<'a>(&'a self, settings: &'a TurnSettings) -> Option<&'a str> {
        let asked = settings.model.as_deref().or(self.config.model.as_deref());
        asked.filter(|name| name.starts_with("claude-"))
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

    fn versions(&self) -> Option<Versions> {
        Some(checkup::VERSIONS)
    }

    fn apart(&self, home: &Path, url: &str) -> Option<Apart> {
        let config = ClaudeConfig {
            arguments: Vec::new(),
            config_dir: home.join(".claude"),
            model: Some("sonnet".to_owned()),
            environment_model: None,
            ..self.config.clone()
        };
        Some(Apart {
            agent: Box::new(Self::new(config)),
            environment: apart_environment(home, url),
            files: Vec::new(),
        })
    }

    fn activity(&self, line: &[u8]) -> Option<Activity> {
        output::activity(line)
    }
}
