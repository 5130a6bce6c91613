//! Reads the outcome of a step from its directory, and what it means.

use std::io;

use raymond_flow::{
    id::StepId,
    machine::{Action, FailureClass, Halt, Input, Run, Spent, Step, Turn, TurnFailure},
    money::Usd,
    text::excerpt,
    turn::{Exit, Outcome, conclude},
};

use super::Performer;
use crate::{
    agent::{CodingAgent, ReadyAnswer, TurnEnd, TurnOutput, warm::Leaving},
    exec::{
        programs,
        step::{ExitRecord, HowEnded, StepFolder, StepState, scan_output},
    },
    observe::answers::{lost_turn_end, turn_end},
    run::{
        error::{EngineError, at_work},
        events::{Event, Observer, StepEnd},
    },
    sys,
};

/// A disk with less free space counts as full even if no reserve is configured.
const FULL_BYTES: u64 = 64 * 1024;

impl Performer<'_> {
    /// The input for the machine from a step that has ended, and the halt that follows from it, if any.
    pub(super) fn conclude(
        &self,
        run: &Run,
        (id, step): (&StepId, &Step),
        standing: &StepState,
        (outcome, spent): (Outcome, Spent),
        observer: &mut dyn Observer,
    ) -> Result<(Option<Halt>, Input), EngineError> {
        let halt = self.spoiled_by_full_disk(&outcome);
        let outcome = if halt.is_some() { Outcome::NoRoom } else { outcome };
        let duration_ms = spent.duration_ms;
        let world = &self.means.world;
        let _ = world.take_failure();
        let input = conclude(run, id, outcome, spent, world);
        if let Some(error) = world.take_failure() {
            // Its outcome stays in its directory, and is judged when the workflow can be read.
            return Err(at_work("list the files of the workflow", error));
        }
        tell_end(observer, (id, step), &self.folder(id), step_end(standing), duration_ms);
        if halt.is_some() {
            let disk = self.means.files.folder.display();
            let text = format!(
                "step {id} failed while the disk of {disk} was full; \
                 it is started again when the run goes on"
            );
            observer.see(&Event::Trouble(text).now());
        }
        Ok((halt, input))
    }

    /// The input for the machine from a step that could not be started because the disk is full.
    pub(crate) fn not_started(&self, run: &Run, id: &StepId, observer: &mut dyn Observer) -> Input {
        if let Some((_, step)) = run.running_step(id) {
            let disk = self.means.files.folder.display();
            let text = format!("step {id} was not started, because the disk of {disk} is full");
            observer.see(&Event::Trouble(text).now());
            tell_end(observer, (id, step), &self.folder(id), StepEnd::NotStarted, 0);
        }
        conclude(run, id, Outcome::NotStarted, Spent::default(), &self.means.world)
    }

    /// The halt, if a step failed and there is too little space for its output. The failure then says
    /// nothing about the step: with more space, it may succeed.
    fn spoiled_by_full_disk(&self, outcome: &Outcome) -> Option<Halt> {
        let has_failed = match outcome {
            Outcome::Script { exit, tag } => *exit != Exit::Code(0) || tag.is_err(),
            Outcome::Failed(TurnFailure { class, .. }) => {
                matches!(class, FailureClass::Killed | FailureClass::Other)
            }
            _ => false,
        };
        let free_bytes =
            has_failed.then(|| sys::free_bytes(&self.means.files.folder).ok()).flatten()?;
        let reserve = self.means.disk_reserve_bytes.max(FULL_BYTES);
        (free_bytes < reserve).then_some(Halt::DiskLow { free_bytes })
    }

    /// The outcome of a step that is no longer running, and its cost.
    pub(super) fn read_outcome(
        &mut self,
        (id, step): (&StepId, &Step),
        state: &StepState,
        observer: &mut dyn Observer,
    ) -> io::Result<(Outcome, Spent)> {
        let folder = &self.folder(id);
        if *state == StepState::Lost {
            self.end_survivors(id, folder, observer)?;
        }
        let StepState::Ended(record) = state else {
            let Action::Turn(turn) = &step.action else {
                return Ok((Outcome::Lost, Spent::default()));
            };
            let (outcome, spent) = self.lost_turn(turn, folder)?;
            self.heed_limit(turn, &outcome);
            self.tell_other_model(turn, &spent, observer);
            // The end of a damaged output is missing, so a tag in it is not the answer.
            let is_whole = *state == StepState::Lost;
            return Ok((if is_whole { outcome } else { Outcome::Lost }, spent));
        };
        let duration_ms = record.duration_ms;
        let (outcome, spent) = match &step.action {
            Action::Script { .. } => script_outcome(folder, record)?,
            Action::Turn(turn) => {
                let (outcome, spent) = self.turn_outcome(id, turn, folder, record)?;
                self.warn_of_no_cost(turn, &spent, (folder, record), observer);
                self.heed_limit(turn, &outcome);
                self.tell_other_model(turn, &spent, observer);
                (outcome, spent)
            }
        };
        Ok((outcome, Spent { duration_ms, ..spent }))
    }

    /// Warns once of each model that was not available and was replaced.
    fn tell_other_model(&mut self, turn: &Turn, spent: &Spent, observer: &mut dyn Observer) {
        if let Some(text) = self.means.agents.other_model(turn, spent)
            && self.warned.insert(text.clone())
        {
            observer.see(&Event::Trouble(format!("the model {text}")).now());
        }
    }

    /// Kills the processes that a lost step has left: none may run beside the next attempt, or change the
    /// output that is about to be read.
    fn end_survivors(
        &mut self,
        id: &StepId,
        folder: &StepFolder,
        observer: &mut dyn Observer,
    ) -> io::Result<()> {
        let ended = self.means.steps.sweep(folder)?;
        if ended > 0 {
            let processes =
                if ended == 1 { "1 process".to_owned() } else { format!("{ended} processes") };
            let text = format!("step {id}: ended {processes} that had outlived it");
            observer.see(&Event::Trouble(text).now());
        }
        Ok(())
    }

    fn turn_outcome(
        &mut self,
        id: &StepId,
        turn: &Turn,
        folder: &StepFolder,
        record: &ExitRecord,
    ) -> io::Result<(Outcome, Spent)> {
        let failed =
            |class, message| (Outcome::Failed(TurnFailure { class, message }), Spent::default());
        let exit_code = match &record.how {
            HowEnded::Code(code) => Some(*code),
            HowEnded::Signal(_)
            | HowEnded::Interrupted
            | HowEnded::TimedOut(_)
            | HowEnded::NotUnderstood => None,
            HowEnded::NotRun(why) => return Ok(failed(FailureClass::NotInstalled, why.clone())),
            HowEnded::NotRunNow(why) => {
                return Ok(failed(FailureClass::Transient { retry_after_ms: None }, why.clone()));
            }
            HowEnded::Forbidden => return Ok((Outcome::NotStarted, Spent::default())),
        };
        let agent = match self.means.agents.for_turn(turn) {
            Ok(agent) => agent,
            // A paid answer waits for a coding agent that can parse it.
            Err(failure) => return Err(io::Error::other(failure)),
        };
        let TurnEnd { outcome, mut spent, total } =
            turn_end(folder, record.stdout_bytes, exit_code, agent)?;
        // Output from before the child was killed is paid for: an answer counts, and so does the cost.
        let outcome = match (&record.how, outcome) {
            (HowEnded::Code(0), reply @ Outcome::Reply { .. }) => {
                if let Some(process) = self.flights.get_mut(id).and_then(|flight| flight.process) {
                    self.warm.turn_ended(process, spent.cost_usd, total);
                }
                reply
            }
            (_, reply @ Outcome::Reply { .. }) => reply,
            (HowEnded::Interrupted, _) => Outcome::Interrupted,
            (HowEnded::TimedOut(seconds), _) => {
                let mut message = format!("it printed nothing for {seconds} seconds");
                let known = agent.versions();
                if let Some(version) = spent.version.as_ref()
                    && known.is_some_and(|known| known.are_exceeded_by(version))
                {
                    let hint = "is newer than those that Raymond is tested with; see what differs: `raymond doctor`";
                    message = format!("{message}; {version} {hint}");
                }
                Outcome::Failed(TurnFailure { class: FailureClass::TimedOut, message })
            }
            (HowEnded::NotUnderstood, _)
            | (_, Outcome::Failed(TurnFailure { class: FailureClass::NotUnderstood, .. })) => {
                Outcome::Failed(not_understood(agent))
            }
            (_, outcome) => outcome,
        };
        let unpaid = std::mem::take(&mut self.unpaid);
        spent.cost_usd += unpaid.cost_usd;
        spent.tokens += unpaid.tokens;
        Ok((outcome, spent))
    }

    /// Says once of a coding agent that the run's budget does not hold for it.
    fn warn_of_no_cost(
        &mut self,
        turn: &Turn,
        spent: &Spent,
        (folder, record): (&StepFolder, &ExitRecord),
        observer: &mut dyn Observer,
    ) {
        let may_lack =
            turn.budget_usd.is_some() && spent.doubt.is_none() && spent.cost_usd == Usd::ZERO;
        let Some(agent) = may_lack.then(|| self.means.agents.for_turn(turn).ok()).flatten() else {
            return;
        };
        if agent.lacks_cost(&folder.stdout(), record.stdout_bytes)
            && self.without_cost.insert(agent.name().to_owned())
        {
            let text = format!(
                "coding agent `{}` reports no cost, so the budget does not limit what it spends",
                agent.name()
            );
            observer.see(&Event::Trouble(text).now());
        }
    }

    /// The outcome of a turn whose reaper was killed: the answer may be complete.
    fn lost_turn(&self, turn: &Turn, folder: &StepFolder) -> io::Result<(Outcome, Spent)> {
        // A paid answer waits for a coding agent that can parse it.
        let agent = self.means.agents.for_turn(turn).map_err(io::Error::other)?;
        match lost_turn_end(folder, agent) {
            Ok(TurnEnd { outcome, spent, .. }) => Ok((outcome, spent)),
            // The reaper was killed before it created the files, or they were removed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok((Outcome::Lost, Spent::default()))
            }
            Err(error) => Err(error),
        }
    }

    /// What a process that is gone has spent since the end of its last turn.
    pub(crate) fn spent_unasked(&self, leaving: &Leaving) -> Option<Spent> {
        let agent = self.means.agents.for_turn(&leaving.turn).ok()?;
        let folder = self.folder(&leaving.first);
        let stdout = folder.stdout();
        let output = TurnOutput {
            stdin: &folder.prompt(),
            stdout: &stdout,
            stdout_bytes: std::fs::metadata(&stdout).ok()?.len(),
            stderr: &folder.stderr(),
            exit_code: None,
            is_first: false,
            before: Some(&leaving.total),
            told: &[],
        };
        agent.outcome(&output).ok().map(|end| end.spent)
    }

    /// The input for the machine from a step that could not be started.
    pub(crate) fn failed(&self, run: &Run, id: &StepId, failure: TurnFailure) -> Input {
        conclude(run, id, Outcome::Failed(failure), Spent::default(), &self.means.world)
    }

    /// The input for the machine from an answer that needed no program.
    pub(crate) fn answered(
        &self,
        run: &Run,
        id: &StepId,
        answer: ReadyAnswer,
        observer: &mut dyn Observer,
    ) -> Input {
        let ReadyAnswer { after, end } = answer;
        let duration_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        if let Some((_, step)) = run.running_step(id) {
            tell_end(observer, (id, step), &self.folder(id), StepEnd::Answered, duration_ms);
        }
        conclude(run, id, end.outcome, Spent { duration_ms, ..end.spent }, &self.means.world)
    }
}

/// The failure of a turn of which no line was understood.
fn not_understood(agent: &dyn CodingAgent) -> TurnFailure {
    let program = agent.program().into_iter().next().unwrap_or_default();
    let version = programs::says(&program, "--version").unwrap_or_default();
    let known = agent.versions().map(|known| format!("; one that is known: {}", known.install()));
    let message = format!(
        "`{program}` ({}) printed nothing that Raymond understands: this version speaks differently{}",
        excerpt(version.trim()),
        known.unwrap_or_default()
    );
    TurnFailure { class: FailureClass::NotUnderstood, message }
}

/// How a step ended, from its state.
fn step_end(state: &StepState) -> StepEnd {
    match state {
        StepState::Ended(ExitRecord { how: HowEnded::Code(code), .. }) => StepEnd::Code(*code),
        StepState::Ended(ExitRecord { how: HowEnded::Forbidden, .. }) | StepState::Unclaimed => {
            StepEnd::NotStarted
        }
        StepState::Ended(_) => StepEnd::NoCode,
        StepState::Lost
        | StepState::Damaged
        | StepState::Running(_)
        | StepState::Foreign { .. } => StepEnd::Lost,
    }
}

fn tell_end(
    observer: &mut dyn Observer,
    (id, step): (&StepId, &Step),
    folder: &StepFolder,
    end: StepEnd,
    duration_ms: u64,
) {
    let (id, step, folder) = (id.clone(), Box::new(step.clone()), folder.path().to_owned());
    observer.see(&Event::StepEnded { id, step, folder, end, duration_ms }.now());
}

fn script_outcome(folder: &StepFolder, record: &ExitRecord) -> io::Result<(Outcome, Spent)> {
    let failed = |class, message: &String| {
        let failure = TurnFailure { class, message: message.clone() };
        (Outcome::Failed(failure), Spent::default())
    };
    let exit = match &record.how {
        HowEnded::Code(code) => Exit::Code(*code),
        HowEnded::Signal(signal) => Exit::Signal(*signal),
        HowEnded::TimedOut(seconds) => Exit::TimedOut { seconds: *seconds },
        HowEnded::Interrupted | HowEnded::NotUnderstood => {
            return Ok((Outcome::Interrupted, Spent::default()));
        }
        HowEnded::Forbidden => return Ok((Outcome::NotStarted, Spent::default())),
        HowEnded::NotRun(message) => return Ok(failed(FailureClass::NotInstalled, message)),
        HowEnded::NotRunNow(message) => {
            return Ok(failed(FailureClass::Transient { retry_after_ms: None }, message));
        }
    };
    let tag = scan_output(&folder.stdout(), record.stdout_bytes)?;
    Ok((Outcome::Script { exit, tag }, Spent::default()))
}
