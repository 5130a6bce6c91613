//! What came of a step, read from its folder, and what that means.

use std::io;

use raymond_flow::{
    id::StepId,
    machine::{Action, Failure, FailureClass, Input, Run, Spent, Turn},
    turn::{Exit, Outcome, conclude},
};

use crate::{
    agent::{ReadyAnswer, TurnEnd, TurnOutput},
    answers::turn_end,
    events::{Event, Observer},
    open::EngineError,
    perform::{KEEPERS_LOST_MAX, Occasion, Performer},
    run_loop::at_work,
    step::{ExitRecord, HowEnded, StepFolder, StepState, scan_output},
    warm::Leaving,
};

impl Performer<'_> {
    /// What the outcome of a step means; `None` while it has none.
    pub(crate) fn outcome(
        &mut self,
        run: &Run,
        id: &StepId,
        occasion: Occasion,
        observer: &mut dyn Observer,
    ) -> Result<Option<Input>, EngineError> {
        let Some((_, step)) = run.running_step(id) else {
            return Ok(None);
        };
        let look = |error| at_work("look at a step", error);
        let folder = self.folder(id);
        let mut state = folder.state().map_err(look)?;
        if state == StepState::Unclaimed
            && occasion != Occasion::Launched
            && !folder.forbid().map_err(look)?
        {
            // Claimed between the two looks.
            state = folder.state().map_err(look)?;
        }
        let (outcome, spent) = match (state, occasion) {
            (StepState::Running(_), _) | (StepState::Unclaimed, Occasion::Launched) => {
                return Ok(None);
            }
            (StepState::Unclaimed, Occasion::Reopened) => (Outcome::NotStarted, Spent::default()),
            (StepState::Unclaimed, Occasion::KeeperGone)
                if self.keepers_lost <= KEEPERS_LOST_MAX =>
            {
                (Outcome::NotStarted, Spent::default())
            }
            // Asked for and not started: trying for ever would not help.
            (StepState::Lost | StepState::Unclaimed, _) => (Outcome::Lost, Spent::default()),
            (StepState::Ended(record), _) => {
                let exit_code = match record.how {
                    HowEnded::Code(code) => Some(code),
                    _ => None,
                };
                let (path, duration_ms) = (folder.path().to_owned(), record.duration_ms);
                observer.see(&Event::StepEnded { id, step, folder: path, exit_code, duration_ms });
                let read = match &step.action {
                    Action::Script { .. } => script_outcome(&folder, &record),
                    Action::Turn(turn) => self.turn_outcome(id, turn, &folder, &record),
                };
                let (outcome, mut spent) = read.map_err(|e| at_work("read an outcome", e))?;
                spent.duration_ms = duration_ms;
                (outcome, spent)
            }
        };
        self.tails.forget(id);
        // One that did not come to a good end is not asked again.
        self.warm.drop_step(id);
        let _ = self.world.take_failure();
        let input = conclude(run, id, outcome, spent, &self.world);
        match self.world.take_failure() {
            // Its outcome stays where it is, and is judged when the workflow can be read.
            Some(error) => Err(at_work("list the files of the workflow", error)),
            None => Ok(Some(input)),
        }
    }

    fn turn_outcome(
        &mut self,
        id: &StepId,
        turn: &Turn,
        folder: &StepFolder,
        record: &ExitRecord,
    ) -> io::Result<(Outcome, Spent)> {
        let failed =
            |class, message| (Outcome::Failed(Failure { class, message }), Spent::default());
        let exit_code = match &record.how {
            HowEnded::Code(code) => Some(*code),
            HowEnded::Signal(_) | HowEnded::Interrupted | HowEnded::TimedOut(_) => None,
            HowEnded::NotRun(why) => return Ok(failed(FailureClass::NotInstalled, why.clone())),
            HowEnded::NotRunNow(why) => return Ok(failed(FailureClass::Transient, why.clone())),
            HowEnded::Forbidden => return Ok((Outcome::NotStarted, Spent::default())),
        };
        let agent = match self.agents.for_turn(turn) {
            Ok(agent) => agent,
            // An answer that is paid for waits for somebody who understands it.
            Err(failure) => return Err(io::Error::other(failure)),
        };
        let TurnEnd { outcome, mut spent, total } = turn_end(folder, record, exit_code, agent)?;
        if matches!(outcome, Outcome::Reply { .. }) {
            self.limit_waits = 0;
        }
        // What was said before it was ended is paid for: an answer counts, and so does the cost.
        let outcome = match (&record.how, outcome) {
            (HowEnded::Code(0), reply @ Outcome::Reply { .. }) => {
                self.warm.turn_ended(id, spent.cost_usd, total);
                reply
            }
            (_, reply @ Outcome::Reply { .. }) => reply,
            (HowEnded::Interrupted, _) => Outcome::Interrupted,
            (HowEnded::TimedOut(seconds), _) => {
                let message = format!("it printed nothing for {seconds} seconds");
                Outcome::Failed(Failure { class: FailureClass::TimedOut, message })
            }
            (_, outcome) => outcome,
        };
        let unpaid = std::mem::take(&mut self.unpaid);
        spent.cost_usd += unpaid.cost_usd;
        spent.tokens += unpaid.tokens;
        Ok((outcome, spent))
    }

    /// What a process that is gone has spent since its last turn ended.
    pub(crate) fn spent_unasked(&self, leaving: &Leaving) -> Option<Spent> {
        let agent = self.agents.for_turn(&leaving.turn).ok()?;
        let folder = self.folder(&leaving.first);
        let stdout = folder.stdout();
        let output = TurnOutput {
            stdin: &folder.prompt(),
            stdout: &stdout,
            stdout_bytes: std::fs::metadata(&stdout).ok()?.len(),
            stderr: &folder.stderr(),
            exit_code: None,
            before: Some(&leaving.total),
        };
        agent.outcome(&output).ok().map(|end| end.spent)
    }

    /// What it means that there was nothing to start.
    pub(crate) fn failed(&self, run: &Run, id: &StepId, failure: Failure) -> Input {
        conclude(run, id, Outcome::Failed(failure), Spent::default(), &self.world)
    }

    /// What an answer means that was there without a program.
    pub(crate) fn answered(&self, run: &Run, id: &StepId, answer: ReadyAnswer) -> Input {
        let ReadyAnswer { after, end } = answer;
        let duration_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        conclude(run, id, end.outcome, Spent { duration_ms, ..end.spent }, &self.world)
    }
}

fn script_outcome(folder: &StepFolder, record: &ExitRecord) -> io::Result<(Outcome, Spent)> {
    let exit = match &record.how {
        HowEnded::Code(code) => Exit::Code(*code),
        HowEnded::Signal(signal) => Exit::Signal(*signal),
        HowEnded::TimedOut(seconds) => Exit::TimedOut { seconds: *seconds },
        HowEnded::Interrupted => return Ok((Outcome::Interrupted, Spent::default())),
        HowEnded::Forbidden => return Ok((Outcome::NotStarted, Spent::default())),
        HowEnded::NotRun(message) | HowEnded::NotRunNow(message) => {
            let failure = Failure { class: FailureClass::NotInstalled, message: message.clone() };
            return Ok((Outcome::Failed(failure), Spent::default()));
        }
    };
    let tag = scan_output(&folder.stdout())?;
    Ok((Outcome::Script { exit, tag }, Spent::default()))
}
