//! Reads the outcome of turns back from their step directories.

use std::io;

use raymond_flow::{
    id::StepId,
    machine::{Spent, Turn},
    turn::Outcome,
};

use crate::{
    agent::{Agents, CodingAgent, TurnEnd, TurnOutput},
    exec::step::{HowEnded, StepFolder, StepState},
    store::layout::RunFiles,
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
        HowEnded::Signal(_)
        | HowEnded::TimedOut(_)
        | HowEnded::NotUnderstood
        | HowEnded::Interrupted => None,
    };
    turn_end(&folder, record.stdout_bytes, exit_code, agent).map(|end| Some(end.outcome))
}

/// The coding agent's reading of the turn in `folder`, whose reaper died before it could write
/// how the turn ended. A complete answer has been paid for and counts. Anything else is lost, except
/// for the cost that the output shows.
///
/// The prompt and the claim of a turn are durable before it starts, so a directory without a prompt, whose claim nobody can
/// read, is not that of a turn: a model may have put an answer there.
pub(crate) fn lost_turn_end(folder: &StepFolder, agent: &dyn CodingAgent) -> io::Result<TurnEnd> {
    if StepFolder::is_script(folder.path()) {
        let (outcome, spent) = (Outcome::Lost, Spent::default());
        return Ok(TurnEnd { outcome, spent, total: None });
    }
    let end = turn_end(folder, folder.gather_stdout()?, None, agent)?;
    let outcome = match end.outcome {
        reply @ (Outcome::Reply { .. } | Outcome::Asks { .. }) => reply,
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
    let (before, told) = (folder.before()?, folder.told());
    agent.outcome(&TurnOutput {
        stdin: &stdin,
        stdout: &stdout,
        stdout_bytes,
        stderr: &stderr,
        exit_code,
        is_first: folder.is_first(),
        before: before.as_deref(),
        told: &told,
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "in tests a panic is the message")]
mod tests {
    use std::fs;

    use raymond_flow::{
        id::{RunId, SessionId},
        machine::SessionPlan,
    };

    use super::*;
    use crate::{
        exec::step::{Claim, ExitRecord},
        store::layout::StateDir,
        testing::{Talkative, step_id, turn, turn_step},
    };

    const ANSWER: &str = "{\"result\":\"x\"}";

    /// The outcome of a turn that printed `stdout` and ended like this, or whose reaper was killed.
    fn outcome_of(how: Option<HowEnded>, stdout: &str) -> Option<Outcome> {
        let root = tempfile::tempdir().unwrap();
        let files = StateDir::new(root.path()).run(&RunId::new("r").unwrap());
        fs::create_dir_all(&files.steps).unwrap();
        let turn = turn(SessionPlan::Fresh { id: SessionId::new("s") });
        let folder = StepFolder::new(&files.steps, &step_id(1));
        folder.create_turn(&turn_step(turn.clone()), "", None).unwrap();
        fs::write(folder.stdout(), stdout).unwrap();
        fs::write(folder.stderr(), "").unwrap();
        let claim = Claim::take(&folder.path().join("exit"), "", false).unwrap();
        if let Some(how) = how {
            let stdout_bytes = stdout.len() as u64;
            claim.end(&ExitRecord { how, duration_ms: 1, stdout_bytes }, false).unwrap();
        }
        drop(claim);
        let agents = Agents::new(vec![Box::new(Talkative)]);
        let read = outcome(&files, &step_id(1), &turn, &agents).unwrap();
        let no_agents = Agents::new(Vec::new());
        assert_eq!(outcome(&files, &step_id(1), &turn, &no_agents).unwrap(), None);
        read
    }

    #[test]
    fn answer_is_read_back_however_its_process_ended() {
        let reply = Some(Outcome::Reply { text: "x".to_owned() });
        for how in [
            Some(HowEnded::Code(0)),
            Some(HowEnded::Code(1)),
            Some(HowEnded::Signal(9)),
            Some(HowEnded::TimedOut(1)),
            Some(HowEnded::Interrupted),
            None,
        ] {
            assert_eq!(outcome_of(how.clone(), ANSWER), reply, "{how:?}");
        }
        for how in [HowEnded::Forbidden, HowEnded::NotRun(String::new())] {
            assert_eq!(outcome_of(Some(how.clone()), ANSWER), None, "{how:?}");
        }
    }

    #[test]
    fn lost_turn_without_a_whole_answer_is_lost() {
        for stdout in ["", "{\"resu", "{\"error\":\"no\"}"] {
            assert_eq!(outcome_of(None, stdout), Some(Outcome::Lost), "{stdout}");
        }
    }

    #[test]
    fn step_that_runs_or_never_was_has_no_outcome() {
        let root = tempfile::tempdir().unwrap();
        let files = StateDir::new(root.path()).run(&RunId::new("r").unwrap());
        fs::create_dir_all(&files.steps).unwrap();
        let turn = turn(SessionPlan::Fresh { id: SessionId::new("s") });
        let agents = Agents::new(vec![Box::new(Talkative)]);
        let read = || outcome(&files, &step_id(1), &turn, &agents).unwrap();
        assert_eq!(read(), None);
        let folder = StepFolder::new(&files.steps, &step_id(1));
        folder.create().unwrap();
        let _claim = Claim::take(&folder.path().join("exit"), "", false).unwrap();
        assert_eq!(read(), None);
    }
}
