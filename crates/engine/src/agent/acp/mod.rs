//! Any coding agent that speaks the Agent Client Protocol.
//!
//! | file | what it owns |
//! |---|---|
//! | `client` | one turn: opens the session, sends the prompt, prints the events of the protocol for programs |
//! | `cost` | what the turn cost |
//! | `gemini` | what Gemini CLI needs besides |
//! | `peer` | the coding agent's process, and JSON-RPC with it |
//! | `report` | what the turn has printed and used |
//!
//! The process of a turn is `raymond __acp PROGRAM ARGUMENTS`, started by the reaper like any other: it is the client, and
//! starts the coding agent. To the rest of the engine it is a program that names its sessions.

mod client;
mod cost;
mod gemini;
mod peer;
mod report;

use std::{io, path::Path};

use raymond_flow::{
    coding_agent::Capabilities,
    machine::{TurnFailure, TurnSettings},
};

pub use client::AcpTurn;

use super::{
    APART_MODEL, Activity, AgentConfig, AgentKind, Apart, Checkup, CheckupAnswer, CodingAgent,
    CostPromise, Diagnosis, ProgramAgent, ProgramConfig, TranscriptReader, TurnCommand, TurnEnd,
    TurnOutput, TurnRequest, account, allowance::Tools, checkup::first_words, claude,
    program::PlainReader,
};

/// What a turn may do without asking, in the kinds of tools that the protocol has.
const TOOLS: Tools = Tools { reading: &["read", "search", "think"], editing: &["edit"] };

/// The variable with the kinds of tools that the client allows; `*` is all.
const ALLOWED: &str = "RAYMOND_ACP_ALLOWED";
/// The variable with the mode that the client sets.
const MODE: &str = "RAYMOND_ACP_MODE";
/// The variable that is set if a person is asked about tools that are not allowed.
const QUESTIONS: &str = "RAYMOND_ACP_QUESTIONS";
/// The variable with the message to send instead if the session already has the prompt.
const CONTINUATION: &str = "RAYMOND_ACP_CONTINUATION";

/// The option of the client that only asks the coding agent who it is.
const GREET: &str = "--greet";

/// Coding agents that speak the protocol.
pub(super) const KIND: AgentKind = AgentKind {
    name: "acp",
    keys: &["acp", "model", "mode", "tools", "prices", "reports_cost", "can_branch", "questions"],
    make: |config| Box::new(AcpAgent::new(config)),
};

/// A coding agent that speaks the protocol.
#[derive(Clone, Debug)]
struct AcpAgent {
    config: AgentConfig,
    /// The client, as a program.
    client: ProgramAgent,
}

impl AcpAgent {
    /// The coding agent with these settings.
    fn new(config: AgentConfig) -> Self {
        let own = ProgramConfig::from(&config);
        let capabilities = Capabilities {
            names_sessions: true,
            // What a turn cost is reported by some.
            reports_cost: config.reports_cost.unwrap_or(false),
            limits_tools: true,
            has_permissions: true,
            ..own.capabilities
        };
        let program = [&*config.client, &*config.acp].concat();
        let promises_cost = match own.promises_cost {
            CostPromise::Turns => CostPromise::Answers,
            promise => promise,
        };
        let client = ProgramConfig { program, capabilities, promises_cost, ..own };
        Self { config, client: ProgramAgent::new(client) }
    }
}

impl CodingAgent for AcpAgent {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn capabilities(&self) -> Capabilities {
        self.client.capabilities()
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        let settings = &request.turn.settings;
        let mut tools = TOOLS.allowed(settings, self.name(), &self.config.tools)?;
        if let Some(tools) = &mut tools {
            tools.extend(settings.granted.iter().cloned());
        }
        let mut command = self.client.command(request)?;
        let allowed = tools.map_or_else(|| "*".to_owned(), |tools| tools.join(","));
        command.environment.push((ALLOWED.to_owned(), allowed));
        let continuation = request.turn.recovers.then(|| request.continuation.to_owned());
        let questions = self.config.questions.then(|| "1".to_owned());
        let mode = self.config.mode.clone();
        for (name, value) in [(MODE, mode), (CONTINUATION, continuation), (QUESTIONS, questions)] {
            match value {
                Some(value) => command.environment.push((name.to_owned(), value)),
                None => command.without.push(name.to_owned()),
            }
        }
        // The client finds out whether the session has it.
        request.prompt.clone_into(&mut command.stdin);
        Ok(command)
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        self.client.outcome(output)
    }

    fn lacks_cost(&self, stdout: &Path, bytes: u64) -> bool {
        self.client.lacks_cost(stdout, bytes)
    }

    fn counts_by_session(&self) -> bool {
        true
    }

    fn program(&self) -> Vec<String> {
        self.config.acp.clone()
    }

    fn account(&self, _settings: &TurnSettings) -> Option<String> {
        Some(account(self.name(), self.config.acp.iter().map(String::as_str)))
    }

    fn checkups(&self) -> Vec<Checkup> {
        let client = self.config.client.iter().cloned().chain([GREET.to_owned()]);
        let command = client.chain(self.program()).collect();
        vec![Checkup { what: "handshake", command, judge: greeted }]
    }

    fn apart(&self, home: &Path, url: &str) -> Option<Apart> {
        let program = Path::new(self.config.acp.first()?).file_stem()?;
        let environment = match program.to_str()? {
            "goose" => goose_apart(url),
            "claude-agent-acp" => claude_apart(home, url),
            _ => return None,
        };
        let mut config = self.config.clone();
        config.model = None;
        Some(Apart { agent: Box::new(Self::new(config)), environment, files: Vec::new() })
    }

    fn transcript(&self, _stdin: &Path, _is_first: bool) -> Box<dyn TranscriptReader> {
        Box::new(PlainReader)
    }

    fn activity(&self, line: &[u8]) -> Option<Activity> {
        self.client.activity(line)
    }
}

/// The variables with which goose uses the model at `url`.
fn goose_apart(url: &str) -> Vec<(String, String)> {
    let pairs = [
        ("GOOSE_PROVIDER", "openai"),
        ("GOOSE_MODEL", APART_MODEL),
        ("GOOSE_DISABLE_KEYRING", "1"),
        ("GOOSE_TELEMETRY_ENABLED", "false"),
        ("OPENAI_HOST", url),
        ("OPENAI_API_KEY", "dummy"),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

/// The same for Claude Code behind ACP: the variables of Claude Code, and which one it starts.
fn claude_apart(home: &Path, url: &str) -> Vec<(String, String)> {
    const EXECUTABLE: &str = "CLAUDE_CODE_EXECUTABLE";
    let own = std::env::var(EXECUTABLE).ok().map(|program| (EXECUTABLE.to_owned(), program));
    claude::apart_environment(home, url).into_iter().chain(own).collect()
}

fn greeted(answer: &CheckupAnswer) -> Diagnosis {
    let found = first_words(answer).to_owned();
    if answer.exit_code == Some(0) {
        return Diagnosis::Good(found);
    }
    let advice = "check its command: `acp` in the settings of this coding agent".to_owned();
    Diagnosis::Bad { found, advice }
}
