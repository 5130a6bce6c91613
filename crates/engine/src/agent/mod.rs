//! Coding agents: programs that carry out a prompt.
//!
//! One turn is a prompt, a stream of events and an outcome. A coding agent provides the command of a turn and
//! parses its output; it starts nothing itself, so that the started process survives the orchestrator. Each is
//! one file or directory, and changes nothing else.

mod acp;
mod allowance;
mod checkup;
mod claude;
mod codex;
mod config;
pub mod handshake;
mod limit;
mod lines;
pub mod marks;
mod pi;
mod program;
mod scripted;
mod transcript;
#[cfg(test)]
mod variants;
pub(crate) mod warm;
mod wording;

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    id::{AgentId, SessionId},
    machine::{FailureClass, Message, Spent, Step, Turn, TurnFailure, TurnSettings},
    turn::Outcome,
};
use serde::{Deserialize, Serialize};

use crate::agent::marks::TurnMarks;

pub use crate::exec::step::LiveMessage;
pub use acp::AcpTurn;
pub use checkup::{Checkup, CheckupAnswer, Diagnosis, Versions};
pub use claude::{ClaudeAgent, ClaudeConfig};
pub use config::{AgentConfig, AgentKind, NATIVES};
pub use program::{CostPromise, Prices, ProgramAgent, ProgramConfig};
pub use scripted::{Given, Script, ScriptedAgent, ScriptedReply};
pub use transcript::{
    CHANGE_BYTES_MAX, CHANGES_MAX, Change, DETAIL_BYTES_MAX, Edit, Entry, Stream, ToolDetail,
    ToolOutcome, TranscriptReader, cut,
};

/// A program that carries out prompts.
pub trait CodingAgent {
    /// Its name in frontmatter.
    fn name(&self) -> &str;

    /// What it can do. Checked before each turn.
    fn capabilities(&self) -> Capabilities;

    /// The command for one turn, or why there is none.
    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure>;

    /// The outcome of a turn that has ended.
    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd>;

    /// Whether the [`total`](TurnEnd::total) of a turn is that of its session, not that of its process. A branch
    /// begins with the total of the session that it starts from.
    fn counts_by_session(&self) -> bool {
        false
    }

    /// The answer, if no program has to be started for it: then [`command`](Self::command) is not called.
    fn answer(&self, _request: &TurnRequest<'_>) -> Option<ReadyAnswer> {
        None
    }

    /// The program and its arguments, before those of a turn; empty if there is none.
    fn program(&self) -> Vec<String> {
        Vec::new()
    }

    /// The account whose usage limit its turns count towards: one word that can be the name of a file. Turns of the same
    /// account, of whichever run, wait together. `None` if that is not known.
    fn account(&self, _settings: &TurnSettings) -> Option<String> {
        None
    }

    /// The full name of the model that a turn with these settings asks for, if the coding agent reports the model that it
    /// uses by that name.
    fn asked_model<'a>(&'a self, _settings: &'a TurnSettings) -> Option<&'a str> {
        None
    }

    /// The id by which `session` can be branched as it was after the turn that printed the first `bytes` of `stdout`.
    /// `None` if it can be branched only as it is.
    fn bookmark(&self, _session: &SessionId, _stdout: &Path, _bytes: u64) -> Option<SessionId> {
        None
    }

    /// The parts of `session`, which was begun in the directory `cwd`: where they are on this machine, or belong if they
    /// come from another one. `None` if its sessions stay where they were begun.
    fn session_parts(&self, _session: &SessionId, _cwd: &str) -> Option<Vec<SessionPart>> {
        None
    }

    /// The text of a prompt, from what was written to standard input.
    fn prompt_text(&self, stdin: &str) -> String {
        stdin.to_owned()
    }

    /// How the message `id` with this text is given to a running turn whose standard input is open; `None` if its program
    /// takes no messages during a turn.
    fn message(&self, _id: &str, _text: &str) -> Option<LiveMessage> {
        None
    }

    /// A reader of the output of the turn that was given the file `stdin`. `is_first` says whether that is the
    /// first turn of its process.
    fn transcript(&self, _stdin: &Path, _is_first: bool) -> Box<dyn TranscriptReader> {
        Box::new(program::PlainReader)
    }

    /// The checks that find out whether it can be used.
    fn checkups(&self) -> Vec<Checkup> {
        Vec::new()
    }

    /// The versions that Raymond is tested with.
    fn versions(&self) -> Option<Versions> {
        None
    }

    /// The same coding agent in the directory `home`, with the model at `url`, so that a [`handshake`] uses
    /// no file and no account of the user's. `None` if it cannot be pointed there.
    fn apart(&self, _home: &Path, _url: &str) -> Option<Apart> {
        None
    }

    /// Whether the answer in this output comes without its cost, which nothing promises. To be asked if a turn cost nothing.
    fn lacks_cost(&self, _stdout: &Path, _bytes: u64) -> bool {
        false
    }

    /// What one line of its output says about the running turn, if that is of interest to the user.
    fn activity(&self, _line: &[u8]) -> Option<Activity> {
        None
    }
}

/// A turn to carry out.
#[derive(Debug)]
pub struct TurnRequest<'a> {
    /// The agent of the run.
    pub agent: &'a AgentId,
    /// The step.
    pub step: &'a Step,
    /// Its turn.
    pub turn: &'a Turn,
    /// The working directory.
    pub cwd: &'a Path,
    /// The prompt.
    pub prompt: &'a str,
    /// The message to send instead if the session already contains the prompt.
    pub continuation: &'a str,
    /// The messages that the session should contain in that case. Those that it does not contain belong to that message.
    pub earlier: &'a [Message],
    /// The private directory of the agent, if the prompt names it: it may be outside of the working directory.
    pub folder: Option<&'a Path>,
    /// The state directory, whose files a coding agent that can be told so leaves alone.
    pub state_dir: &'a Path,
    /// The directory of the workflow, whose scripts run, too.
    pub scope: &'a Path,
    /// Whether the previous turn of its session named a model.
    pub follows_a_model: bool,
}

/// The command that carries out a turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnCommand {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Variables to set.
    pub environment: Vec<(String, String)>,
    /// Variables that the program must not inherit.
    pub without: Vec<String>,
    /// The standard input.
    pub stdin: String,
    /// The lines by which it tells how far it is.
    pub marks: TurnMarks,
    /// If the process can be given another turn after this one: what must be equal in that turn, besides session and
    /// directory.
    pub reuse: Option<Vec<String>>,
    /// For [`TurnOutput::before`] of this turn if it is the first of its process, in the coding agent's own format.
    pub before: Option<String>,
}

/// The output of a turn.
#[derive(Debug)]
pub struct TurnOutput<'a> {
    /// The file with its standard input.
    pub stdin: &'a Path,
    /// The file with its standard output.
    pub stdout: &'a Path,
    /// How much of that file belongs to the turn: a kept process continues to write to it.
    pub stdout_bytes: u64,
    /// The file with its standard error.
    pub stderr: &'a Path,
    /// Its exit code; `None` if a signal killed it.
    pub exit_code: Option<i32>,
    /// Whether it is the first turn of its process.
    pub is_first: bool,
    /// The [`total`](TurnEnd::total) after the previous turn of the same process. For the first turn of a process, what its
    /// [command](TurnCommand::before) says, or the total after the previous turn of the same session if the coding agent
    /// [counts by session](CodingAgent::counts_by_session).
    pub before: Option<&'a str>,
    /// The ids of the messages that it could be given while it ran.
    pub told: &'a [String],
}

/// The result of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The answer, or the failure.
    pub outcome: Outcome,
    /// Its cost.
    pub spent: Spent,
    /// The cost of the process or session so far, in the coding agent's own format, for its next turn.
    pub total: Option<String>,
}

/// An answer that needs no program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyAnswer {
    /// The delay before it is given.
    pub after: Duration,
    /// The outcome.
    pub end: TurnEnd,
}

/// A coding agent with a home and a model of its own.
pub struct Apart {
    /// The coding agent.
    pub agent: Box<dyn CodingAgent>,
    /// Variables to set, besides the home.
    pub environment: Vec<(String, String)>,
    /// Files that it needs there, with their texts.
    pub files: Vec<(PathBuf, String)>,
}

impl std::fmt::Debug for Apart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Apart").field("agent", &self.agent.name()).finish_non_exhaustive()
    }
}

/// The model that a coding agent is asked for when it is apart. It has no price in tables of theirs, so ours count.
const APART_MODEL: &str = "gpt-5.2";

/// A file or a directory in which a coding agent keeps a part of a session. It need not exist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPart {
    /// Its name, the same on every machine.
    pub name: String,
    /// Where it is on this machine.
    pub path: PathBuf,
}

/// What a coding agent is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It writes a message.
    Says(String),
    /// It uses a tool.
    Uses {
        /// The name of the tool.
        tool: String,
        /// What it is used on, in a few words.
        what: String,
    },
    /// It waits, for this reason.
    Waits(String),
}

/// The coding agents that a run can use.
pub struct Agents {
    all: Vec<Box<dyn CodingAgent>>,
    /// Whether the first one carries out every turn, whichever a state names.
    is_only: bool,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all.iter().map(|agent| agent.name())).finish()
    }
}

impl Agents {
    /// These coding agents, the first for states that name none.
    pub fn new(all: Vec<Box<dyn CodingAgent>>) -> Self {
        Self { all, is_only: false }
    }

    /// Only this one, whichever a state names: for tests of workflows.
    pub fn only(agent: Box<dyn CodingAgent>) -> Self {
        Self { all: vec![agent], is_only: true }
    }

    /// Their names and capabilities, for the machine.
    pub fn known(&self) -> CodingAgents {
        let default = self.all.first().map_or(Capabilities::FULL, |agent| agent.capabilities());
        if self.is_only {
            return CodingAgents::only(default);
        }
        let named = self.all.iter().map(|agent| (agent.name().to_owned(), agent.capabilities()));
        CodingAgents::new(default, named.collect())
    }

    /// The name of the coding agent for states that name none.
    pub fn default_name(&self) -> Option<&str> {
        self.all.first().map(|agent| agent.name())
    }

    /// All coding agents, the one for states that name none first.
    pub fn iter(&self) -> impl Iterator<Item = &dyn CodingAgent> {
        self.all.iter().map(|agent| &**agent)
    }

    /// Whether there is a coding agent with this name.
    pub fn has(&self, name: &str) -> bool {
        self.is_only || self.all.iter().any(|agent| agent.name() == name)
    }

    /// What is said of a turn that was not carried out by the model that it asks for.
    pub fn other_model(&self, turn: &Turn, spent: &Spent) -> Option<String> {
        let asked = self.for_turn(turn).ok()?.asked_model(&turn.settings)?;
        let used = spent.model.as_deref()?;
        // One of them may have a date or the size of its context at its end.
        let is_same = used.starts_with(asked.split('[').next()?)
            || asked.starts_with(used.split('[').next()?);
        (!is_same).then(|| format!("`{asked}` was asked for, and `{used}` was used"))
    }

    /// The coding agent for a turn.
    pub(crate) fn for_turn(&self, turn: &Turn) -> Result<&dyn CodingAgent, TurnFailure> {
        let wanted = turn.settings.agent.as_deref().filter(|_| !self.is_only);
        let found = self.all.iter().find(|agent| wanted.is_none_or(|name| name == agent.name()));
        let Some(agent) = found else {
            let known: Vec<_> = self.all.iter().map(|agent| agent.name()).collect();
            return Err(misconfigured(format!(
                "there is no coding agent `{}`; known: {}",
                wanted.unwrap_or_default(),
                known.join(", ")
            )));
        };
        Ok(&**agent)
    }
}

/// The name of an account: the coding agent, and a checksum of everything that tells its accounts apart. Some of that is
/// secret, so only the checksum is kept.
pub fn account<'t>(agent: &str, parts: impl IntoIterator<Item = &'t str>) -> String {
    let mut hash = crc32fast::Hasher::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update(&[0]);
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = agent.chars().take(40).map(plain).collect();
    format!("{name}-{:08x}", hash.finalize())
}

fn misconfigured(message: String) -> TurnFailure {
    TurnFailure { class: FailureClass::Misconfigured, message }
}
