//! The loop that owns a run: takes messages one at a time, decides, makes durable, performs.
//!
//! The only place that puts events in order. Everything here is plain sequential code; the waiting
//! is one socket with a timeout.

use std::{
    collections::{HashMap, VecDeque},
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AgentId, StepId},
    machine::{Action, Effect, Halt, Input, Run, Status},
};

use crate::{
    agent::ReadyAnswer,
    error::EngineError,
    inbox::{Inbox, Message},
    keeper,
    ledger::Ledger,
    perform::{Launched, Occasion, Performer},
    tails::GLANCE_INTERVAL,
    timers::Timer,
};

/// How often all steps are looked at, in case word of one was lost.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// How many messages share one `fdatasync` at most: what waits is worked off, but not for ever.
const BATCH_MAX: usize = 256;
/// How long nobody may take a step that was asked for. A burst of some thousand needs a few seconds.
const TAKE_PATIENCE: Duration = Duration::from_secs(15);
/// How long reapers may take to end their steps: grace, and a machine that is busy.
const END_PATIENCE: Duration = Duration::from_secs(15);
/// How long the keeper may take to go: grace and sweep of its last steps.
const KEEPER_PATIENCE: Duration = Duration::from_secs(15);

/// The owner of a run.
pub(crate) struct RunLoop<'o, 'a> {
    ledger: Ledger<'o>,
    performer: Performer<'a>,
    inbox: Inbox,
    /// Steps under way, by the names of their folders.
    running: HashMap<String, Asked>,
    /// When all of them were looked at.
    checked: Instant,
    /// Agents whose next step can be prepared: reading needs nothing to be durable.
    prepares: VecDeque<AgentId>,
    /// Effects that touch the world.
    effects: VecDeque<Effect>,
    interrupts: u32,
    /// When the steps under way were asked to end.
    ending_since: Option<Instant>,
}

/// A step that was asked for.
struct Asked {
    id: StepId,
    /// By which connection to a keeper.
    connection: u32,
    since: Instant,
}

impl<'o, 'a> RunLoop<'o, 'a> {
    pub(crate) fn new(ledger: Ledger<'o>, performer: Performer<'a>, inbox: Inbox) -> Self {
        Self {
            ledger,
            performer,
            inbox,
            running: HashMap::new(),
            checked: Instant::now(),
            prepares: VecDeque::new(),
            effects: VecDeque::new(),
            interrupts: 0,
            ending_since: None,
        }
    }

    /// Runs until the run is over. `effects` are those that it waits for at the beginning.
    pub(crate) fn run(mut self, effects: Vec<Effect>) -> Result<Run, EngineError> {
        self.sort(effects);
        let outcome = self.turn_until_finished();
        // Steps go on without us if they can.
        if outcome.is_ok() || !keeper::IS_APART {
            self.dismiss_keeper();
        }
        let run = self.ledger.close();
        outcome.map(|()| run)
    }

    fn turn_until_finished(&mut self) -> Result<(), EngineError> {
        loop {
            self.work_off()?;
            for remark in std::mem::take(&mut self.performer.remarks) {
                self.ledger.trouble(remark);
            }
            // Whatever was decided is durable before we sleep, even if nothing follows from it.
            self.sync()?;
            if self.ledger.run().status != Status::Running {
                return Ok(());
            }
            if let Some(message) = self.wait() {
                self.handle(message)?;
            }
            self.check()?;
            self.glance();
            for _ in 1..BATCH_MAX {
                match self.inbox.next_waiting() {
                    Some(message) => self.handle(message)?,
                    None => break,
                }
            }
            while let Some(timer) = self.performer.timers.pop_due() {
                match timer {
                    Timer::Wake(agent) => self.input(Input::Woke { agent })?,
                    Timer::UsageLimit => self.input(Input::UsageLimitLifted)?,
                    Timer::Answer(id, answer) => self.answer(&id, *answer)?,
                }
            }
        }
    }

    /// Prepares whatever can be, then performs whatever touches the world, until nothing is left.
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
            // Nothing touches the world before the records that ask for it are durable.
            self.sync()?;
            for effect in std::mem::take(&mut self.effects) {
                self.perform(effect)?;
            }
        }
    }

    fn perform(&mut self, effect: Effect) -> Result<(), EngineError> {
        match effect {
            Effect::Prepare { agent } => self.prepares.push_back(agent),
            Effect::Launch { id, step, cwd, launch, budget_left_usd } => {
                let request = (&id, &*step, cwd, launch, budget_left_usd);
                match self.performer.launch(request, self.ledger.split().1)? {
                    Launched::Started(name) => self.note_running(name, id),
                    Launched::Found(name) => {
                        // It may be over by now, and then nobody will tell us.
                        self.note_running(name.clone(), id);
                        self.look_at(&name, Occasion::Launched)?;
                    }
                    Launched::Answered(answer) if answer.after.is_zero() => {
                        self.answer(&id, *answer)?;
                    }
                    Launched::Answered(answer) => self.performer.answer_later(id, answer),
                    Launched::Failed(failure) => {
                        let input = self.performer.failed(self.ledger.run(), &id, failure);
                        self.input(input)?;
                    }
                }
            }
            Effect::Reattach { id, step } => {
                let name = self.performer.reattach(&id, &step, self.ledger.split().1);
                self.note_running(name.clone(), id);
                self.look_at(&name, Occasion::Reopened)?;
            }
            Effect::Wait { agent, delay_ms } => self.performer.wait(agent, delay_ms),
            Effect::WaitForUsageLimit { resets_at } => {
                self.performer.wait_for_usage_limit(resets_at);
            }
        }
        Ok(())
    }

    /// Takes an answer that was there without a program.
    fn answer(&mut self, id: &StepId, answer: ReadyAnswer) -> Result<(), EngineError> {
        let (run, observer) = self.ledger.split();
        let input = self.performer.answered(run, id, answer, observer);
        self.input(input)
    }

    /// Takes the outcome of a step if it has one.
    fn look_at(&mut self, name: &str, occasion: Occasion) -> Result<(), EngineError> {
        let Some(asked) = self.running.get(name) else {
            return Ok(());
        };
        let (run, observer) = self.ledger.split();
        let outcome = self.performer.outcome(run, &asked.id, occasion, observer)?;
        let Some((halt, input)) = outcome else {
            return Ok(());
        };
        let id = asked.id.clone();
        self.running.remove(name);
        self.performer.step_is_over(name, occasion);
        if occasion == Occasion::Told {
            self.performer.keeper_works();
        }
        // First, so that nothing new is started because of the outcome.
        if let Some(halt) = halt {
            self.input(Input::Halt(halt))?;
        }
        let step = self.ledger.run().running_step(&id).map(|(_, step)| &step.action);
        let is_script = matches!(step, Some(Action::Script { .. }));
        self.input(input)?;
        if is_script {
            self.performer.retention.ended(self.performer.folder(&id).path().to_owned());
        }
        self.performer.warm.drop_forgotten(self.ledger.run(), &id.agent);
        Ok(())
    }

    fn note_running(&mut self, name: String, id: StepId) {
        let connection = self.performer.connection;
        self.running.insert(name, Asked { id, connection, since: Instant::now() });
    }

    /// Looks at every step that `concerns` holds for.
    fn look_at_all(
        &mut self,
        occasion: Occasion,
        concerns: impl Fn(u32) -> bool,
    ) -> Result<(), EngineError> {
        let concerned = self.running.iter().filter(|(_, asked)| concerns(asked.connection));
        let names: Vec<_> = concerned.map(|(name, _)| name.clone()).collect();
        names.iter().try_for_each(|name| self.look_at(name, occasion))
    }

    /// Word of a step can be lost: when this process stood still, or when both its reaper and the
    /// keeper were killed. So all of them are looked at now and then.
    fn check(&mut self) -> Result<(), EngineError> {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return Ok(());
        }
        self.checked = Instant::now();
        self.performer.wake_stopped();
        if self.ending_since.is_some_and(|since| since.elapsed() >= END_PATIENCE) {
            for asked in self.running.values() {
                self.performer.kill_reaper(&asked.id);
            }
        }
        self.look_at_all(Occasion::Launched, |_| true)?;
        let is_overdue = |asked: &Asked| {
            asked.since.elapsed() >= TAKE_PATIENCE && self.performer.is_unclaimed(&asked.id)
        };
        if self.running.values().any(is_overdue) {
            // Whoever took it is gone without a word, or stands still and keeps others from it:
            // to greet the keeper again makes it send for somebody new.
            self.performer.keeper = None;
            return self.handle(Message::ReaperGone);
        }
        Ok(())
    }

    /// Lets the observer see what turns do while they do it.
    fn glance(&mut self) {
        if self.ledger.wants_activity() && self.performer.tails.is_due() {
            let (run, observer) = self.ledger.split();
            for asked in self.running.values() {
                self.performer.glance(run, &asked.id, observer);
            }
        }
    }

    fn handle(&mut self, message: Message) -> Result<(), EngineError> {
        match message {
            Message::Step(name) => self.look_at(&name, Occasion::Told),
            Message::KeeperGone(connection) => {
                // Reapers go on without it, but a request may have died with it.
                self.performer.keeper_is_gone(connection);
                self.look_at_all(Occasion::KeeperGone, |asked_for| asked_for == connection)
            }
            Message::ReaperGone => {
                self.performer.reaper_is_gone();
                self.look_at_all(Occasion::KeeperGone, |_| true)
            }
            Message::LineGone(line) => match self.performer.line_is_gone(line) {
                Some(name) => self.look_at(&name, Occasion::KeeperGone),
                None => Ok(()),
            },
            Message::Interrupt => {
                self.interrupts += 1;
                self.input(Input::Halt(Halt::Interrupted))?;
                if self.interrupts > 1 { self.end_steps() } else { Ok(()) }
            }
            Message::Cancel => {
                self.input(Input::Halt(Halt::Cancelled))?;
                self.end_steps()
            }
        }
    }

    /// Ends whatever runs.
    fn end_steps(&mut self) -> Result<(), EngineError> {
        // What was asked for and has not begun must not begin any more; only then is it certain that
        // everything that is left has a reaper to be told.
        self.look_at_all(Occasion::Reopened, |_| true)?;
        self.ending_since.get_or_insert_with(Instant::now);
        for asked in self.running.values() {
            self.performer.end(&asked.id);
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
        self.performer.retention.durable();
        Ok(())
    }

    /// Waits for a message or a timer, and keeps the state file fresh meanwhile.
    fn wait(&mut self) -> Option<Message> {
        self.ledger.refresh();
        let is_busy = !self.running.is_empty();
        let limits = [
            self.performer.timers.patience(),
            is_busy.then_some(CHECK_INTERVAL),
            (is_busy && self.ledger.wants_activity()).then_some(GLANCE_INTERVAL),
            self.ledger.patience(),
        ];
        self.inbox.next(limits.into_iter().flatten().min())
    }

    fn dismiss_keeper(&mut self) {
        let Some(keeper) = self.performer.dismiss_keeper() else {
            return;
        };
        let deadline = Instant::now() + KEEPER_PATIENCE;
        while Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            // After an interrupt it goes by itself.
            if let Some(Message::KeeperGone(_) | Message::Interrupt) = self.inbox.next(Some(left)) {
                return;
            }
        }
        let killed = keeper.kill(&self.performer.files.folder);
        self.ledger.trouble(match killed {
            Ok(()) => "the keeper did not go and was killed".to_owned(),
            Err(error) => format!("the keeper did not go, and could not be killed: {error}"),
        });
    }
}
