//! Coding agents: programs that carry out a prompt.
//!
//! One turn is a prompt in, a stream of events, an outcome out. A coding agent says which command
//! that is and what its output means; it starts nothing itself, so that what is started survives
//! the orchestrator. Each lives in a file or folder of its own and touches nothing else.

mod checkup;
mod claude;
mod program;
mod scripted;
mod transcript;

use std::{io, path::Path, time::Duration};

use raymond_flow::{
    coding_agent::{Capabilities, CodingAgents},
    id::AgentId,
    machine::{FailureClass, Spent, Step, Turn, TurnFailure},
    turn::Outcome,
};

pub use checkup::{Checkup, CheckupAnswer, Diagnosis};
pub use claude::{ClaudeAgent, ClaudeConfig};
pub use program::{Prices, ProgramAgent, ProgramConfig};
pub use scripted::{Given, Script, ScriptedAgent, ScriptedReply};
pub use transcript::{Entry, Stream, ToolOutcome, TranscriptReader};

/// A program that carries out prompts.
pub trait CodingAgent {
    /// What frontmatter calls it.
    fn name(&self) -> &str;

    /// What it can do. The machine asks before each turn.
    fn capabilities(&self) -> Capabilities;

    /// The command for one turn, or why there can be none.
    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure>;

    /// What came of a turn that is over.
    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd>;

    /// The answer, if no program has to be asked for it: then [`command`](Self::command) is not
    /// called.
    fn answer(&self, _request: &TurnRequest<'_>) -> Option<ReadyAnswer> {
        None
    }

    /// The program and its arguments, before those of a turn; empty if there is none.
    fn program(&self) -> Vec<String> {
        Vec::new()
    }

    /// The words of a prompt, from what the program was given on standard input.
    fn prompt_text(&self, stdin: &str) -> String {
        stdin.to_owned()
    }

    /// A reader of the output of the turn that was given the file `stdin`. `is_first` tells whether that is
    /// the first turn of its process.
    fn transcript(&self, _stdin: &Path, _is_first: bool) -> Box<dyn TranscriptReader> {
        Box::new(program::PlainReader)
    }

    /// What to ask its program to find out whether it can be used.
    fn checkups(&self) -> Vec<Checkup> {
        Vec::new()
    }

    /// What one line of its output tells while the turn runs, if that is of interest to a person.
    fn activity(&self, _line: &[u8]) -> Option<Activity> {
        None
    }
}

/// A turn to be taken.
#[derive(Debug)]
pub struct TurnRequest<'a> {
    /// Whose.
    pub agent: &'a AgentId,
    /// The step.
    pub step: &'a Step,
    /// Its turn.
    pub turn: &'a Turn,
    /// Where it is taken.
    pub cwd: &'a Path,
    /// What to say.
    pub prompt: &'a str,
    /// What to say in its place if the session already has the prompt.
    pub continuation: &'a str,
    /// Whether the turn before it in its session was asked of a certain model.
    pub follows_a_model: bool,
}

/// How a turn is taken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TurnCommand {
    /// The program and its arguments.
    pub program: Vec<String>,
    /// Variables to set.
    pub environment: Vec<(String, String)>,
    /// Variables that must not be inherited.
    pub without: Vec<String>,
    /// What the program reads.
    pub stdin: String,
    /// How the process can be given another turn when it is done with this one, if it can.
    pub reuse: Option<Reuse>,
}

/// A process that can take more than one turn of its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reuse {
    /// What stands in a line that says that the process has taken up this very turn.
    pub turn_mark: String,
    /// What a line begins with that says that a turn is over. It is over for this turn only if
    /// it comes after the turn's own mark: a process may also print what nobody asked for.
    pub done_mark: String,
    /// What must be the same for another turn, besides session and directory.
    pub likeness: Vec<String>,
}

/// What a turn left.
#[derive(Debug)]
pub struct TurnOutput<'a> {
    /// What it read.
    pub stdin: &'a Path,
    /// What it printed.
    pub stdout: &'a Path,
    /// How much of that file is the turn's: a process that was kept goes on writing to it.
    pub stdout_bytes: u64,
    /// What it complained about.
    pub stderr: &'a Path,
    /// Its exit code; `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// The [`total`](TurnEnd::total) of the turn that the same process took before.
    pub before: Option<&'a str>,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The answer, or the failure.
    pub outcome: Outcome,
    /// What it cost.
    pub spent: Spent,
    /// What the process has spent so far, in the coding agent's own words, for the next turn that
    /// it takes.
    pub total: Option<String>,
}

/// An answer that is there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyAnswer {
    /// When it is given.
    pub after: Duration,
    /// What it is.
    pub end: TurnEnd,
}

/// Something that a coding agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It says something.
    Says(String),
    /// It uses a tool.
    Uses {
        /// Which.
        tool: String,
        /// On what, in a few words.
        what: String,
    },
    /// It waits, in its own words.
    Waits(String),
}

/// The coding agents that a run can use.
pub struct Agents {
    all: Vec<Box<dyn CodingAgent>>,
    /// Whether there is only one, whatever a state asks for.
    is_only: bool,
}

impl std::fmt::Debug for Agents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.all.iter().map(|agent| agent.name())).finish()
    }
}

impl Agents {
    /// These, the first for states that name none.
    pub fn new(all: Vec<Box<dyn CodingAgent>>) -> Self {
        Self { all, is_only: false }
    }

    /// Only this one, whatever a state asks for: for rehearsals.
    pub fn only(agent: Box<dyn CodingAgent>) -> Self {
        Self { all: vec![agent], is_only: true }
    }

    /// Which there are and what they can do, for the machine.
    pub fn known(&self) -> CodingAgents {
        let default = self.all.first().map_or(Capabilities::FULL, |agent| agent.capabilities());
        if self.is_only {
            return CodingAgents::only(default);
        }
        let named = self.all.iter().map(|agent| (agent.name().to_owned(), agent.capabilities()));
        CodingAgents::new(default, named.collect())
    }

    /// The name of the one for states that name none.
    pub fn default_name(&self) -> Option<&str> {
        self.all.first().map(|agent| agent.name())
    }

    /// All of them, the one for states that name none first.
    pub fn iter(&self) -> impl Iterator<Item = &dyn CodingAgent> {
        self.all.iter().map(|agent| &**agent)
    }

    /// Whether there is one of this name.
    pub fn has(&self, name: &str) -> bool {
        self.is_only || self.all.iter().any(|agent| agent.name() == name)
    }

    /// The one for a turn.
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

fn misconfigured(message: String) -> TurnFailure {
    TurnFailure { class: FailureClass::Misconfigured, message }
}
