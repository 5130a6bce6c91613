//! What turns of a run have answered, read back from their folders.

use std::io;

use raymond_flow::{id::StepId, machine::Turn, turn::Outcome};

use crate::{
    agent::{Agents, CodingAgent, TurnEnd, TurnOutput},
    layout::RunFiles,
    step::{ExitRecord, HowEnded, StepFolder, StepState},
};

/// What came of a turn; `None` if it has left nothing.
pub fn outcome(
    files: &RunFiles,
    id: &StepId,
    turn: &Turn,
    agents: &Agents,
) -> io::Result<Option<Outcome>> {
    let folder = StepFolder::new(&files.steps, id);
    let StepState::Ended(record) = folder.state()? else {
        return Ok(None);
    };
    let exit_code = match record.how {
        HowEnded::Code(code) => Some(code),
        HowEnded::Forbidden | HowEnded::NotRun(_) | HowEnded::NotRunNow(_) => return Ok(None),
        HowEnded::Signal(_) | HowEnded::TimedOut(_) | HowEnded::Interrupted => None,
    };
    let Ok(agent) = agents.for_turn(turn) else {
        return Ok(None);
    };
    turn_end(&folder, &record, exit_code, agent).map(|end| Some(end.outcome))
}

/// What a coding agent says came of the turn in `folder`.
pub(crate) fn turn_end(
    folder: &StepFolder,
    record: &ExitRecord,
    exit_code: Option<i32>,
    agent: &dyn CodingAgent,
) -> io::Result<TurnEnd> {
    let (stdin, stdout, stderr) = (folder.prompt(), folder.stdout(), folder.stderr());
    let before = folder.before()?;
    agent.outcome(&TurnOutput {
        stdin: &stdin,
        stdout: &stdout,
        stdout_bytes: record.stdout_bytes,
        stderr: &stderr,
        exit_code,
        before: before.as_deref(),
    })
}
