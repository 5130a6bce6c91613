//! Reads the outcome of turns back from their step directories.

use std::io;

use raymond_flow::{id::StepId, machine::Turn, turn::Outcome};

use crate::{
    agent::{Agents, CodingAgent, TurnEnd, TurnOutput},
    layout::RunFiles,
    step::{HowEnded, StepFolder, StepState},
};

/// The outcome of a turn; `None` if its directory has none.
pub fn outcome(
    files: &RunFiles,
    id: &StepId,
    turn: &Turn,
    agents: &Agents,
) -> io::Result<Option<Outcome>> {
    let folder = StepFolder::new(&files.steps, id);
    let Ok(agent) = agents.for_turn(turn) else {
        return Ok(None);
    };
    let record = match folder.state()? {
        StepState::Ended(record) => record,
        StepState::Lost => return lost_turn_end(&folder, agent).map(|end| Some(end.outcome)),
        StepState::Damaged
        | StepState::Foreign { .. }
        | StepState::Unclaimed
        | StepState::Running(_) => return Ok(None),
    };
    let exit_code = match record.how {
        HowEnded::Code(code) => Some(code),
        HowEnded::Forbidden | HowEnded::NotRun(_) | HowEnded::NotRunNow(_) => return Ok(None),
        HowEnded::Signal(_) | HowEnded::TimedOut(_) | HowEnded::Interrupted => None,
    };
    turn_end(&folder, record.stdout_bytes, exit_code, agent).map(|end| Some(end.outcome))
}

/// The coding agent's reading of the turn in `folder`, whose reaper died before it could write
/// how the turn ended. A complete answer has been paid for and counts. Anything else is lost, except
/// for the cost that the output shows.
pub(crate) fn lost_turn_end(folder: &StepFolder, agent: &dyn CodingAgent) -> io::Result<TurnEnd> {
    let end = turn_end(folder, folder.gather_stdout()?, None, agent)?;
    let outcome = match end.outcome {
        reply @ Outcome::Reply { .. } => reply,
        _ => Outcome::Lost,
    };
    Ok(TurnEnd { outcome, ..end })
}

/// The coding agent's reading of the turn in `folder`, which printed `stdout_bytes` bytes.
pub(crate) fn turn_end(
    folder: &StepFolder,
    stdout_bytes: u64,
    exit_code: Option<i32>,
    agent: &dyn CodingAgent,
) -> io::Result<TurnEnd> {
    let (stdin, stdout, stderr) = (folder.prompt(), folder.stdout(), folder.stderr());
    let before = folder.before()?;
    agent.outcome(&TurnOutput {
        stdin: &stdin,
        stdout: &stdout,
        stdout_bytes,
        stderr: &stderr,
        exit_code,
        before: before.as_deref(),
    })
}
