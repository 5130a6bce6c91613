//! The loop that owns a run: it takes messages one at a time, decides, makes durable, performs.
//!
//! The only place that orders events. Everything here is plain sequential code; waiting is one socket with a
//! timeout.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AgentId, AskId, StepId},
    machine::{Action, Effect, Halt, Input, Run, Status},
};

use crate::{
    agent::ReadyAnswer,
    exec::{
        perform::{Launched, Look, Performer, Unclaimed},
        steps::Flight,
    },
    observe::tails::GLANCE_INTERVAL,
    run::{
        door::{Door, DoorAnswer, Request},
        error::EngineError,
        events::Event,
        inbox::{Inbox, Message},
        ledger::Ledger,
        timers::Timer,
    },
    worktree::{GitDone, NoRoom},
};

/// How often all running steps are checked, in case a message about one was lost.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// How often open questions are looked at, in case the process that answered was killed before it could tell of
/// it. A person waits for that.
const ASKS_INTERVAL: Duration = Duration::from_secs(5);
/// The most messages that share one `fdatasync`. A batch without a limit could delay durability for ever.
const BATCH_MAX: usize = 256;
/// How long reapers may take to end their steps: the grace period, and a busy machine.
const END_PATIENCE: Duration = Duration::from_secs(15);

/// The owner of a run.
pub(crate) struct RunLoop<'o, 'a> {
    ledger: Ledger<'o>,
    performer: Performer<'a>,
    inbox: Inbox,
    door: Door,
    /// When all steps in flight were checked last.
    checked: Instant,
    /// When all open questions were looked at.
    asks_checked: Instant,
    /// Whether `WaitsForPeople` was sent since the last progress.
    waits_for_people: bool,
    /// When the outputs of turns were read last.
    glanced: Option<Instant>,
    /// Agents whose next step can be prepared: preparing only reads, so it needs nothing to be durable.
    prepares: VecDeque<AgentId>,
    /// Effects on files and processes, which need durable records.
    effects: VecDeque<Effect>,
    interrupts: u32,
    /// When the steps in flight were asked to end.
    ending_since: Option<Instant>,
}

impl<'o, 'a> RunLoop<'o, 'a> {
    pub(crate) fn new(
        ledger: Ledger<'o>,
        performer: Performer<'a>,
        inbox: Inbox,
        door: Door,
    ) -> Self {
        Self {
            ledger,
            performer,
            inbox,
            door,
            checked: Instant::now(),
            asks_checked: Instant::now(),
            waits_for_people: false,
            glanced: None,
            prepares: VecDeque::new(),
            effects: VecDeque::new(),
            interrupts: 0,
            ending_since: None,
        }
    }

    /// Runs until the run is over. `effects` are those that it waits for at the beginning.
    pub(crate) fn run(mut self, effects: Vec<Effect>) -> Result<Run, EngineError> {
        self.sort(effects);
        let outcome = self.begin().and_then(|()| self.turn_until_finished());
        // On an error, steps that can outlive the orchestrator keep running.
        if outcome.is_ok() || !self.performer.steps().outlive_us() {
            self.performer.steps().close(&self.inbox);
        }
        self.performer.tell_remarks(self.ledger.split().1);
        let run = self.ledger.close();
        outcome.map(|()| run)
    }

    fn begin(&mut self) -> Result<(), EngineError> {
        if self.ledger.run().halt == Some(Halt::Cancelled) {
            // First find the steps that still run.
            self.work_off()?;
            self.end_steps()?;
        }
        Ok(())
    }

    fn turn_until_finished(&mut self) -> Result<(), EngineError> {
        loop {
            self.work_off()?;
            self.performer.tell_remarks(self.ledger.split().1);
            // Every decision is durable before the loop waits, even one without effects.
            self.sync()?;
            if self.ledger.run().status == Status::Cancelled {
                let (run, observer) = self.ledger.split();
                self.performer.withdraw_questions(run, observer);
            }
            if self.ledger.run().status != Status::Running || self.performer.is_stuck() {
                return Ok(());
            }
            let is_halted = self.ledger.run().halt.is_some();
            self.input(Input::Idle)?;
            if self.ledger.run().halt.is_some() != is_halted {
                continue;
            }
            self.tell_if_people_are_needed();
            if let Some(message) = self.wait() {
                self.handle(message)?;
            }
            self.check()?;
            self.check_asks()?;
            self.glance();
            for _ in 1..BATCH_MAX {
                match self.inbox.next_waiting() {
                    Some(message) => self.handle(message)?,
                    None => break,
                }
            }
            while let Some(done) = self.performer.git().next_done() {
                self.git_done(done)?;
            }
            while let Some(timer) = self.performer.timers().pop_due() {
                match timer {
                    Timer::Wake(agent) => self.input(Input::Woke { agent })?,
                    Timer::Ask(id) => self.look_at_ask(&id)?,
                    Timer::UsageLimit if self.performer.is_limit_over() => {
                        self.input(Input::UsageLimitLifted)?;
                    }
                    // It is looked at again.
                    Timer::UsageLimit => {}
                    Timer::Answer(id, answer) => self.answer(&id, *answer)?,
                }
            }
        }
    }

    /// Prepares the next steps, then performs the effects, until neither is left.
    fn work_off(&mut self) -> Result<(), EngineError> {
        loop {
            if !self.prepares.is_empty()
                && let Some(free_bytes) = self.performer.low_disk()
            {
                // Before the next intent, so that no outcome finds the disk full.
                self.prepares.clear();
                self.input(Input::Halt(Halt::DiskLow { free_bytes }))?;
            }
            while let Some(agent) = self.prepares.pop_front() {
                let (run, observer) = self.ledger.split();
                let input = self.performer.prepare(run, &agent, observer)?;
                self.input(input)?;
            }
            if self.effects.is_empty() {
                return Ok(());
            }
            // No effect is performed before the records that ask for it are durable.
            self.sync()?;
            for effect in std::mem::take(&mut self.effects) {
                self.perform(effect)?;
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> Result<(), EngineError> {
        match effect {
            Effect::Prepare { agent } => self.prepares.push_back(agent),
            Effect::Launch { id, step, cwd, launch } => {
                let request = (&id, &*step, cwd, launch);
                let (run, observer) = self.ledger.split();
                match self.performer.launch(request, observer)? {
                    Launched::Started => {}
                    // It may have ended already, and then no message will come.
                    Launched::Found => self.look_at(&id, Unclaimed::Wait)?,
                    Launched::Answered(answer) if answer.after.is_zero() => {
                        self.answer(&id, *answer)?;
                    }
                    Launched::Answered(answer) => self.performer.answer_later(id, answer),
                    Launched::Failed(failure) => {
                        let input = self.performer.failed(run, &id, failure);
                        self.input(input)?;
                    }
                    Launched::NoRoom(halt) => {
                        let input = self.performer.not_started(run, &id, observer);
                        self.input(Input::Halt(halt))?;
                        self.input(input)?;
                    }
                }
            }
            Effect::Reattach { id, step } => {
                self.performer.reattach(&id, &step, self.ledger.split().1);
                self.look_at(&id, Unclaimed::Forbid)?;
            }
            Effect::Ask { id, state, question, cwd } => {
                let observer = self.ledger.split().1;
                match self.performer.publish((&id, &state), &question, &cwd, observer)? {
                    Some(halt) => self.input(Input::Halt(halt))?,
                    // It may have been answered before this orchestrator was there.
                    None => self.look_at_ask(&id)?,
                }
            }
            Effect::Tell { step, message } => {
                self.performer.tell(self.ledger.run(), &step, &message);
            }
            Effect::MakeWorktree { agent, plan } => self.performer.git().make(agent, plan),
            Effect::SaveWorktree { agent, worktree } => self.performer.git().save(agent, worktree),
            Effect::Wait { agent, delay_ms } => self.performer.wait(agent, delay_ms),
            Effect::WaitForUsageLimit { resets_at } => {
                self.performer.wait_for_usage_limit(resets_at);
            }
        }
        Ok(())
    }

    /// Handles what became of a worktree that git should make or save.
    fn git_done(&mut self, done: GitDone) -> Result<(), EngineError> {
        match done {
            GitDone::Over(input) => self.input(*input),
            GitDone::NoRoom(NoRoom { disk, free_bytes }) => {
                let disk = disk.display();
                self.ledger.trouble(format!(
                    "git had not enough space for a worktree on the disk of {disk}, where {free_bytes} bytes are free"
                ));
                self.input(Input::Halt(Halt::DiskLow { free_bytes }))
            }
        }
    }

    /// Handles an answer that needed no program.
    fn answer(&mut self, id: &StepId, answer: ReadyAnswer) -> Result<(), EngineError> {
        let (run, observer) = self.ledger.split();
        let input = self.performer.answered(run, id, answer, observer);
        self.input(input)
    }

    /// Handles the outcome of a step, if it has one.
    fn look_at(&mut self, id: &StepId, unclaimed: Unclaimed) -> Result<(), EngineError> {
        self.look(id, unclaimed).map(drop)
    }

    /// Handles the outcome of a step, if it has one; otherwise returns the state of the step.
    fn look(&mut self, id: &StepId, unclaimed: Unclaimed) -> Result<Option<Look>, EngineError> {
        let (run, observer) = self.ledger.split();
        match self.performer.look(run, id, unclaimed, observer)? {
            Some(Look::Over { halt, input }) => {
                // First the halt, so that no new step starts because of the outcome.
                if let Some(halt) = halt {
                    self.input(Input::Halt(halt))?;
                }
                let step = self.ledger.run().running_step(id).map(|(_, step)| &step.action);
                let is_script = matches!(step, Some(Action::Script { .. }));
                self.input(*input)?;
                if is_script {
                    self.performer.script_ended(id);
                }
                self.performer.drop_forgotten(self.ledger.run(), &id.agent);
                Ok(None)
            }
            Some(Look::NoRoom(halt)) => {
                self.input(Input::Halt(halt))?;
                Ok(None)
            }
            look => Ok(look),
        }
    }

    /// Takes the answer to a question if it has one.
    fn look_at_ask(&mut self, id: &AskId) -> Result<(), EngineError> {
        match self.performer.answer_to(self.ledger.run(), id)? {
            Some(input) => self.input(input),
            None => Ok(()),
        }
    }

    /// Looks at all open questions now and then, in case word of an answer was lost.
    fn check_asks(&mut self) -> Result<(), EngineError> {
        if self.asks_checked.elapsed() < ASKS_INTERVAL {
            return Ok(());
        }
        self.asks_checked = Instant::now();
        let open = self.performer.open_questions();
        open.iter().try_for_each(|id| self.look_at_ask(id))
    }

    /// Tells the observer once that only people can advance the run.
    fn tell_if_people_are_needed(&mut self) {
        let run = self.ledger.run();
        let waits = run.waits_for_people() && run.halt.is_none();
        if waits && !self.waits_for_people {
            self.ledger.tell(Event::WaitsForPeople);
        }
        self.waits_for_people = waits;
    }

    /// Checks every step in flight for which `is_meant` holds.
    fn look_at_all(
        &mut self,
        unclaimed: Unclaimed,
        is_meant: impl Fn(&Flight) -> bool,
    ) -> Result<(), EngineError> {
        let ids = self.performer.flights().ids(is_meant);
        ids.iter().try_for_each(|id| self.look_at(id, unclaimed))
    }

    /// Messages about a step can be lost: if this process was stopped, or if both the reaper and the keeper
    /// were killed. So all steps are checked from time to time.
    fn check(&mut self) -> Result<(), EngineError> {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return Ok(());
        }
        self.checked = Instant::now();
        self.performer.steps().check();
        let is_late = self.ending_since.is_some_and(|since| since.elapsed() >= END_PATIENCE);
        let mut is_overdue = false;
        for id in self.performer.flights().ids(|_| true) {
            match self.look(&id, Unclaimed::Wait)? {
                Some(Look::Runs(reaper)) if is_late => self.performer.end(&id, reaper, true),
                Some(Look::Waits) => is_overdue |= self.performer.is_overdue(&id),
                _ => {}
            }
        }
        if is_overdue {
            self.performer.steps().reconnect();
            return self.handle(Message::ReaperGone);
        }
        Ok(())
    }

    /// Shows observers what running turns do.
    fn glance(&mut self) {
        let is_due = self.glanced.is_none_or(|glanced| glanced.elapsed() >= GLANCE_INTERVAL);
        if !is_due || !self.ledger.wants_activity() {
            return;
        }
        self.glanced = Some(Instant::now());
        let (run, observer) = self.ledger.split();
        for id in self.performer.flights().ids(|_| true) {
            self.performer.glance(run, &id, observer);
        }
    }

    fn handle(&mut self, message: Message) -> Result<(), EngineError> {
        match message {
            Message::Step(name) => match self.performer.told(&name) {
                Some(id) => self.look_at(&id, Unclaimed::Lost),
                None => Ok(()),
            },
            Message::KeeperGone(connection) => {
                // Reapers continue without their keeper, but a request may be lost with it.
                self.performer.steps().connection_is_over(connection);
                let unclaimed = self.performer.helper_is_lost();
                self.look_at_all(unclaimed, |flight| flight.connection == connection)
            }
            Message::ReaperGone => {
                let unclaimed = self.performer.helper_is_lost();
                self.look_at_all(unclaimed, |_| true)
            }
            Message::ProcessGone(process) => match self.performer.process_is_gone(process) {
                Some(id) => self.look_at(&id, Unclaimed::Forbid),
                None => Ok(()),
            },
            Message::Interrupt => {
                self.interrupts += 1;
                self.input(Input::Halt(Halt::Interrupted))?;
                if self.interrupts > 1 { self.end_steps() } else { Ok(()) }
            }
            Message::Door => self.answer_door(),
            // What has ended is taken below, also if this message is lost.
            Message::Git => Ok(()),
        }
    }

    /// Carries out the requests of other processes, and confirms each when it is durable.
    fn answer_door(&mut self) -> Result<(), EngineError> {
        let requests = self.door.requests();
        for request in &requests {
            match &request.what {
                Request::Stop { now } => {
                    self.input(Input::Halt(Halt::Interrupted))?;
                    if *now {
                        self.end_steps()?;
                    }
                }
                Request::Cancel => {
                    self.input(Input::Halt(Halt::Cancelled))?;
                    self.end_steps()?;
                }
                Request::Answered { ask } => {
                    if let Some(id) = AskId::parse(ask) {
                        self.look_at_ask(&id)?;
                    }
                }
                Request::Tell { agent, message } => {
                    let (agent, message) = (agent.clone(), message.clone());
                    self.input(Input::Told { agent, message })?;
                }
                Request::Limit(change) => {
                    let limits = change.apply(self.ledger.run().limits.clone());
                    self.input(Input::ChangeLimits { limits })?;
                }
            }
        }
        if requests.is_empty() {
            return Ok(());
        }
        self.sync()?;
        let running_steps = self.performer.flights().ids(|_| true).len();
        let answer = DoorAnswer { status: self.ledger.run().status, running_steps };
        for request in &requests {
            self.door.confirm(request, &answer);
        }
        Ok(())
    }

    /// Ends all running steps. Steps that were requested but not claimed are forbidden, so that every step that
    /// is left has a reaper that can be asked to end it.
    fn end_steps(&mut self) -> Result<(), EngineError> {
        self.ending_since.get_or_insert_with(Instant::now);
        for id in self.performer.flights().ids(|_| true) {
            if let Some(Look::Runs(reaper)) = self.look(&id, Unclaimed::Forbid)? {
                self.performer.end(&id, reaper, false);
            }
        }
        Ok(())
    }

    fn input(&mut self, input: Input) -> Result<(), EngineError> {
        let effects = self.ledger.input(input)?;
        self.sort(effects);
        Ok(())
    }

    fn sort(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Prepare { agent } => self.prepares.push_back(agent),
                other => self.effects.push_back(other),
            }
        }
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        self.ledger.sync()?;
        self.performer.ends_are_durable();
        Ok(())
    }

    /// Waits for a message or a timer, and updates the state file meanwhile.
    fn wait(&mut self) -> Option<Message> {
        self.ledger.refresh();
        let is_busy = !self.performer.flights().is_empty();
        let limits = [
            self.performer.timers().patience(),
            (is_busy || self.performer.git().is_busy()).then_some(CHECK_INTERVAL),
            self.performer.has_open_questions().then_some(ASKS_INTERVAL),
            (is_busy && self.ledger.wants_activity()).then_some(GLANCE_INTERVAL),
            self.ledger.patience(),
        ];
        self.inbox.next(limits.into_iter().flatten().min())
    }
}

#[cfg(test)]
mod tests;
