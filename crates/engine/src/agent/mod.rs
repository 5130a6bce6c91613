//! Coding agents: programs that carry out a prompt.
//!
//! One turn is one child process: text in on its standard input, output in a file, and at the end
//! an outcome read back from that file. A coding agent says which command that is and what its
//! output means; it starts nothing itself. Each lives in a file or folder of its own and touches
//! nothing else.

mod program;

use std::{io, path::Path};

use raymond_flow::{
    machine::{Failure, Spent, Step, Turn},
    money::Usd,
    turn::Outcome,
};

pub use program::ProgramAgent;

/// A program that carries out prompts.
pub trait CodingAgent {
    /// What frontmatter calls it.
    fn name(&self) -> &'static str;

    /// The command for one turn, or why there can be none.
    fn command(&self, request: &TurnRequest<'_>) -> Result<TurnCommand, Failure>;

    /// What came of a turn that exited.
    fn outcome(&self, output: &TurnOutput<'_>) -> io::Result<TurnEnd>;
}

/// A turn to be taken.
#[derive(Debug)]
pub struct TurnRequest<'a> {
    /// The step.
    pub step: &'a Step,
    /// Its turn.
    pub turn: &'a Turn,
    /// What to say.
    pub prompt: &'a str,
    /// What to say in its place if the session already has the prompt.
    pub continuation: &'a str,
    /// What may be spent; `None` is no limit.
    pub budget_left_usd: Option<Usd>,
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
}

/// What a turn left.
#[derive(Debug)]
pub struct TurnOutput<'a> {
    /// What it printed.
    pub stdout: &'a Path,
    /// What it complained about.
    pub stderr: &'a Path,
    /// Its exit code; `None` if a signal ended it.
    pub exit_code: Option<i32>,
}

/// What came of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnEnd {
    /// The answer, or the failure.
    pub outcome: Outcome,
    /// What it cost.
    pub spent: Spent,
}
