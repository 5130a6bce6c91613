//! pi, by `pi --mode json`.
//!
//! | file | what it owns |
//! |---|---|
//! | `command` | the command line of a turn, its tools and its prompt |
//! | `output` | the events that pi prints, and the outcome of a turn |
//! | `reader` | the events as a transcript that does not depend on pi |
//! | `session` | what a session on disk already contains |
//!
//! Raymond chooses the ids of its sessions. pi asks nobody and has no sandbox: what a turn may do is which tools it has.

mod command;
mod output;
mod reader;
mod session;

use std::{
    io,
    path::{Path, PathBuf},
};

use raymond_flow::{
    coding_agent::Capabilities,
    machine::{TurnFailure, TurnSettings},
};
use serde_json::json;

use super::{
    APART_MODEL, Activity, AgentConfig, AgentKind, Apart, Checkup, CheckupAnswer, CodingAgent,
    Diagnosis, TranscriptReader, TurnCommand, TurnEnd, TurnOutput, TurnRequest, Versions,
};

/// pi among the coding agents that Raymond knows.
pub(super) const KIND: AgentKind = AgentKind {
    name: "pi",
    keys: &["program", "arguments", "model", "prices", "kind", "tools"],
    make: |config| Box::new(PiAgent::new(config)),
};

/// It needs node 22.19.
const VERSIONS: Versions =
    Versions { package: "@earendil-works/pi-coding-agent", oldest: [0, 87, 1], tested: [1, 5, 2] };

/// Variables that take precedence over its logins. A model names its provider: `openai/gpt-5.2`.
const KEYS: [&str; 3] = ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY"];

/// The coding agent `pi`.
#[derive(Clone, Debug)]
pub(super) struct PiAgent {
    config: AgentConfig,
    program: String,
    /// Where pi keeps its sessions.
    sessions: PathBuf,
}

impl PiAgent {
    fn new(config: AgentConfig) -> Self {
        let program = config.program.clone().unwrap_or_else(|| KIND.name.to_owned());
        let home = AgentConfig::directory("PI_CODING_AGENT_DIR", ".pi/agent");
        Self { config, program, sessions: home.join("sessions") }
    }
}

impl CodingAgent for PiAgent {
    fn name(&self) -> &str {
        &self.config.name
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { can_limit: false, has_options: false, ..Capabilities::FULL }
    }

    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        command::command(self, request)
    }

    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        let mut end = output::outcome(output, self.config.prices.as_ref())?;
        end.spent.version = AgentConfig::version(KIND.name, &self.program, VERSIONS.package);
        Ok(end)
    }

    fn program(&self) -> Vec<String> {
        vec![self.program.clone()]
    }

    fn account(&self, settings: &TurnSettings) -> Option<String> {
        let model = settings.model.as_ref().or(self.config.model.as_ref());
        let provider = model.and_then(|model| model.split_once('/')).map(|(provider, _)| provider);
        let provider = provider.unwrap_or_default();
        Some(self.config.account(KIND.name, &self.sessions, &KEYS, provider))
    }

    fn transcript(&self, _stdin: &Path, _is_first: bool) -> Box<dyn TranscriptReader> {
        Box::new(reader::PiReader::default())
    }

    fn checkups(&self) -> Vec<Checkup> {
        let command = vec![self.program.clone(), "--version".to_owned()];
        vec![Checkup { what: "version", command, judge: version }]
    }

    fn versions(&self) -> Option<Versions> {
        Some(VERSIONS)
    }

    fn apart(&self, home: &Path, url: &str) -> Option<Apart> {
        let home = home.join(".pi/agent");
        let config = self.config.apart(&format!("doctor/{APART_MODEL}"));
        let (program, sessions) = (self.program.clone(), home.join("sessions"));
        // The prices of `AgentConfig::apart`: pi reports the cost itself.
        let model = json!({ "id": APART_MODEL, "cost": { "input": 1, "output": 10, "cacheRead": 1, "cacheWrite": 0 } });
        let provider = json!({
            "baseUrl": format!("{url}/v1"),
            "api": "openai-completions",
            "apiKey": "dummy",
            "models": [model],
        });
        let models = json!({ "providers": { "doctor": provider } }).to_string();
        let environment = [
            ("PI_CODING_AGENT_DIR", home.to_string_lossy().into_owned()),
            ("PI_OFFLINE", "1".to_owned()),
            ("PI_TELEMETRY", "0".to_owned()),
        ];
        Some(Apart {
            agent: Box::new(Self { config, program, sessions }),
            environment: environment.map(|(name, value)| (name.to_owned(), value)).to_vec(),
            files: vec![(home.join("models.json"), models)],
        })
    }

    fn activity(&self, line: &[u8]) -> Option<Activity> {
        reader::activity(line)
    }
}

fn version(answer: &CheckupAnswer) -> Diagnosis {
    VERSIONS.judge(answer)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use raymond_flow::{id::SessionId, machine::SessionPlan};

    use super::*;
    use crate::testing::turn;

    #[test]
    fn account_is_that_of_the_provider_whichever_table_uses_it() {
        let account = |name: &str, own: &str, model: Option<&str>, argument: Option<&str>| {
            let mut settings = turn(SessionPlan::Fresh { id: SessionId::new("s") }).settings;
            settings.model = model.map(str::to_owned);
            let config = AgentConfig {
                name: name.to_owned(),
                model: Some(own.to_owned()),
                arguments: argument.map(str::to_owned).into_iter().collect(),
                ..AgentConfig::default()
            };
            PiAgent::new(config).account(&settings).unwrap()
        };
        let usual = account("pi", "openai/a", None, None);
        assert_eq!(usual, account("quick", "openai/b", None, None));
        assert_ne!(usual, account("pi", "openai/a", Some("google/b"), None));
        assert_ne!(usual, account("pi", "openai/a", None, Some("--provider=other")));
    }
}
