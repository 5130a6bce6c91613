//! The host of a run: carries out single steps for an orchestrator on another machine.
//!
//! A run loop without a ledger. It decides nothing, and all that it remembers is in the directories of the steps, so
//! that its successor finds every step again. Each step comes with the excerpt of the run by which its launch is
//! prepared and its outcome is judged.
//!
//! A step has a deadline, which the worker moves for as long as the orchestrator still counts on this machine. A step
//! whose deadline has passed is ended: another machine may be about to start the same work. So neither a worker that
//! was killed or is frozen nor one that has lost its orchestrator leaves a second child of a step.

mod mapping;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::mpsc::{self, Receiver, Sender, TryRecvError},
    time::{Duration, Instant},
};

use raymond_flow::{
    coding_agent::CodingAgents,
    id::{AgentId, RunId, SessionId, StepId},
    machine::{Input, Run, Started},
};
use serde::{Deserialize, Serialize};

use crate::{
    Engine,
    agent::{ReadyAnswer, SessionPart},
    exec::{
        perform::{Launched, Look, Performer, Unclaimed},
        steps::Flight,
    },
    run::{
        error::{EngineError, io_error},
        events::Observer,
        inbox::{Inbox, Message, Outbox},
        open::{create_folders, lock},
        timers::Timer,
    },
    store::{
        layout::RunFiles,
        lock::{LockError, RunLock},
        scope::DiskWorld,
    },
};

pub use mapping::Mapping;

/// How often all steps and deadlines are checked.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How long reapers may take to end their steps: the grace period, and a busy machine.
const END_PATIENCE: Duration = Duration::from_secs(15);
/// How long a host waits until its predecessor, whose orders have ended, has left the run to it.
const SUCCESSION_PATIENCE: Duration = Duration::from_secs(10);
const SUCCESSION_INTERVAL: Duration = Duration::from_millis(50);

/// The longest order or report as a line of JSON: an excerpt of a run with a payload whose every byte is escaped.
pub const LINE_BYTES_MAX: u64 = 128 * 1024 * 1024;

/// What `raymond start` would start, for an orchestrator on another machine.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The run.
    pub started: Started,
    /// The coding agents that it may use.
    pub coding_agents: CodingAgents,
    /// The state directory of the project.
    pub state_dir: PathBuf,
}

/// What a host can be asked for. A host that is a process of its own reads orders from standard input, one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Start a step, unless it was started before, and report its end.
    Start(Hosted),
    /// Report the end of a step that was started before. One that never was is forbidden and reported as such.
    Find(Hosted),
    /// Move the deadline of a step: the orchestrator still counts on this machine.
    Extend {
        /// The step.
        id: StepId,
        /// How long from now on the step may run.
        patience: Duration,
    },
    /// End a step.
    End(StepId),
    /// Prepare the next step of an agent of this run with the directories of this machine.
    Prepare {
        /// The excerpt of the run.
        run: Box<Run>,
        /// The agent.
        agent: AgentId,
        /// The id of a session that does not exist yet.
        fresh: SessionId,
        /// Where the agent's checkout is.
        mapping: Option<Mapping>,
    },
    /// Say where the sessions of a step are on this machine.
    Locate {
        /// The step.
        id: StepId,
        /// The excerpt of the run in which it is running.
        run: Box<Run>,
        /// Where the agent's checkout is.
        mapping: Option<Mapping>,
    },
}

/// Where a session is on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionPlace {
    /// The session.
    pub session: SessionId,
    /// Its files and directories, as far as they exist.
    pub parts: Vec<SessionPart>,
}

/// A step to be carried out.
#[derive(Debug, Serialize, Deserialize)]
pub struct Hosted {
    /// The step.
    pub id: StepId,
    /// The run, or an excerpt of it, in which the step is running.
    pub run: Box<Run>,
    /// How long from now on the step may run, unless its deadline is moved.
    pub patience: Duration,
    /// Where the agent's checkout is, if it moves from machine to machine.
    pub mapping: Option<Mapping>,
}

/// What a host reports. One that is a process of its own prints reports to standard output, one JSON object a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Report {
    /// The host has the run, and takes orders: the first line of a process.
    Open,
    /// A failure without consequences for the run, in a line of a process.
    Trouble(String),
    /// A step is over.
    Ended {
        /// The step.
        id: StepId,
        /// What the orchestrator must decide about, in this order.
        inputs: Vec<Input>,
    },
    /// The next step of an agent is prepared.
    Prepared(Box<Input>),
    /// The sessions of a step.
    Located {
        /// The step.
        id: StepId,
        /// The session of the step first, then the one that it branches off. None of a coding agent whose sessions
        /// cannot move.
        sessions: Vec<SessionPlace>,
    },
}

/// Gives orders to a host. When the last one is dropped, the host leaves as soon as it has no step.
#[derive(Clone, Debug)]
pub struct OrderSender {
    /// `None` only while it is dropped.
    orders: Option<Sender<Order>>,
    outbox: Outbox,
}

impl OrderSender {
    /// Gives an order. Returns whether there is still a host.
    pub fn send(&self, order: Order) -> bool {
        let is_sent = self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok());
        self.outbox.send(&Message::Door);
        is_sent
    }
}

impl Drop for OrderSender {
    fn drop(&mut self) {
        // First the channel, so that the host finds it closed when it wakes.
        self.orders = None;
        self.outbox.send(&Message::Door);
    }
}

/// Carries out the steps of one run.
pub struct Host<'a> {
    performer: Performer<'a>,
    inbox: Inbox,
    files: RunFiles,
    /// `None` while there are no orders, so that a successor can take over. The host then takes it for each check.
    lock: Option<RunLock>,
    orders: Receiver<Order>,
    steps: BTreeMap<StepId, OwnStep>,
    reports: Vec<Report>,
    checked: Instant,
    is_closed: bool,
}

impl std::fmt::Debug for Host<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Host").field("steps", &self.steps).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct OwnStep {
    run: Run,
    mapping: Option<Mapping>,
    deadline: Instant,
    ending_since: Option<Instant>,
}

impl Engine<'_> {
    /// Opens the host of run `id`, whose workflow is at `scope`. Its predecessor is waited for if it is leaving.
    pub fn host(
        &self,
        id: &RunId,
        identity: &str,
        scope: &Path,
    ) -> Result<(Host<'_>, OrderSender), EngineError> {
        let files = self.state_dir.run(id);
        self.state_dir.check_run(&files)?;
        let root = self.state_dir.root();
        self.state_dir.create().map_err(|source| io_error("create", root, source))?;
        create_folders(&files)?;
        let lock = succeed(id, &files)?;
        let world = DiskWorld::open(scope, &files.scope, self.agents.known())?;
        let inbox = Inbox::open(&files.folder);
        let inbox = inbox.map_err(|source| io_error("listen in", &files.folder, source))?;
        let means = self.means((id, identity), files.clone(), world, inbox.outbox())?;
        let (sender, orders) = mpsc::channel();
        let sender = OrderSender { orders: Some(sender), outbox: inbox.outbox() };
        let host = Host {
            performer: Performer::new(means),
            inbox,
            files,
            lock: Some(lock),
            orders,
            steps: BTreeMap::new(),
            reports: Vec::new(),
            checked: Instant::now(),
            is_closed: false,
        };
        Ok((host, sender))
    }
}

/// The lock of the run, when a predecessor that is leaving has left it.
fn succeed(id: &RunId, files: &RunFiles) -> Result<RunLock, EngineError> {
    let deadline = Instant::now() + SUCCESSION_PATIENCE;
    loop {
        match lock(id, files) {
            Err(EngineError::Lock { source: LockError::Owned { .. }, .. })
                if Instant::now() < deadline =>
            {
                std::thread::sleep(SUCCESSION_INTERVAL);
            }
            taken => return taken,
        }
    }
}

impl Host<'_> {
    /// Carries out orders until there are no senders and no steps left, or until a successor has taken over.
    pub fn run(
        mut self,
        report: &mut dyn FnMut(Report),
        observer: &mut dyn Observer,
    ) -> Result<(), EngineError> {
        loop {
            self.take_orders(observer)?;
            while let Some(Timer::Answer(id, answer)) = self.performer.timers().pop_due() {
                self.answer(&id, *answer, observer);
            }
            if self.checked.elapsed() >= CHECK_INTERVAL {
                self.checked = Instant::now();
                if !self.is_owner() {
                    return Ok(());
                }
                self.check(observer)?;
            }
            self.performer.tell_remarks(observer);
            for ended in self.reports.drain(..).filter(|_| !self.is_closed) {
                report(ended);
            }
            if self.is_closed {
                if self.steps.is_empty() {
                    self.leave(observer);
                    return Ok(());
                }
                self.lock = None;
            }
            let patience = self
                .performer
                .timers()
                .patience()
                .map_or(CHECK_INTERVAL, |timer| timer.min(CHECK_INTERVAL));
            if let Some(message) = self.inbox.next(Some(patience)) {
                self.handle(message, observer)?;
            }
        }
    }

    /// Closes the keeper, unless a successor uses it.
    fn leave(&mut self, observer: &mut dyn Observer) {
        if self.is_owner() {
            self.performer.steps().close(&self.inbox);
            self.performer.tell_remarks(observer);
        }
    }

    /// Whether no successor has taken over: it ends the steps whose deadlines have passed.
    fn is_owner(&mut self) -> bool {
        if self.lock.is_some() {
            return true;
        }
        let taken = RunLock::take(&self.files.lock);
        let is_owner = !matches!(taken, Err(LockError::Owned { .. }));
        self.lock = taken.ok();
        is_owner
    }

    fn take_orders(&mut self, observer: &mut dyn Observer) -> Result<(), EngineError> {
        loop {
            match self.orders.try_recv() {
                Ok(order) => self.carry_out(order, observer)?,
                Err(TryRecvError::Empty) => return Ok(()),
                Err(TryRecvError::Disconnected) => {
                    self.is_closed = true;
                    return Ok(());
                }
            }
        }
    }

    fn carry_out(&mut self, order: Order, observer: &mut dyn Observer) -> Result<(), EngineError> {
        match order {
            Order::Start(hosted) => {
                if let Some(id) = self.add(hosted) {
                    self.start(&id, observer)?;
                }
            }
            Order::Find(hosted) => {
                if let Some(id) = self.add(hosted) {
                    let own = &self.steps[&id];
                    if let Some((_, step)) = own.run.running_step(&id) {
                        self.performer.reattach(&id, step, observer);
                    }
                    self.look(&id, Unclaimed::Forbid, observer)?;
                }
            }
            Order::Extend { id, patience } => {
                if let Some(own) = self.steps.get_mut(&id) {
                    own.deadline = Instant::now() + patience;
                }
            }
            Order::End(id) => self.end(&id, observer)?,
            Order::Prepare { run, agent, fresh, mapping } => {
                self.performer.set_mapping(mapping);
                let input = self.performer.prepare_hosted(&run, &agent, fresh);
                self.reports.push(Report::Prepared(Box::new(input)));
            }
            Order::Locate { id, run, mapping } => {
                self.performer.set_mapping(mapping);
                let sessions = self.performer.sessions(&run, &id);
                self.reports.push(Report::Located { id, sessions });
            }
        }
        Ok(())
    }

    /// Adds a step; `None` if it is there already, and then its deadline is moved.
    fn add(&mut self, hosted: Hosted) -> Option<StepId> {
        let Hosted { id, run, patience, mapping } = hosted;
        let deadline = Instant::now() + patience;
        if let Some(own) = self.steps.get_mut(&id) {
            own.deadline = deadline;
            return None;
        }
        let own = OwnStep { run: *run, mapping, deadline, ending_since: None };
        self.steps.insert(id.clone(), own);
        Some(id)
    }

    fn start(&mut self, id: &StepId, observer: &mut dyn Observer) -> Result<(), EngineError> {
        let OwnStep { run, mapping, .. } = &self.steps[id];
        self.performer.set_mapping(mapping.clone());
        match self.performer.host(run, id, observer)? {
            Launched::Started => {}
            // It may have ended already, and then no message will come.
            Launched::Found => return self.look(id, Unclaimed::Wait, observer).map(drop),
            Launched::Answered(answer) if answer.after.is_zero() => {
                self.answer(id, *answer, observer);
            }
            Launched::Answered(answer) => self.performer.answer_later(id.clone(), answer),
            Launched::Failed(failure) => {
                let input = self.performer.failed(run, id, failure);
                self.over(id, vec![input]);
            }
            Launched::NoRoom(halt) => {
                let input = self.performer.not_started(run, id, observer);
                self.over(id, vec![Input::Halt(halt), input]);
            }
        }
        Ok(())
    }

    fn answer(&mut self, id: &StepId, answer: ReadyAnswer, observer: &mut dyn Observer) {
        if let Some(own) = self.steps.get(id) {
            self.performer.set_mapping(own.mapping.clone());
            let input = self.performer.answered(&own.run, id, answer, observer);
            self.over(id, vec![input]);
        }
    }

    fn over(&mut self, id: &StepId, mut inputs: Vec<Input>) {
        if let Some(own) = self.steps.remove(id) {
            for input in &mut inputs {
                self.performer.explain(&own.run, id, input);
            }
        }
        self.reports.push(Report::Ended { id: id.clone(), inputs });
    }

    /// Reports the end of a step, if it has ended; otherwise returns its state.
    fn look(
        &mut self,
        id: &StepId,
        unclaimed: Unclaimed,
        observer: &mut dyn Observer,
    ) -> Result<Option<Look>, EngineError> {
        let Some(own) = self.steps.get(id) else { return Ok(None) };
        self.performer.set_mapping(own.mapping.clone());
        match self.performer.look(&own.run, id, unclaimed, observer)? {
            Some(Look::Over { halt, input }) => {
                self.over(id, halt.map(Input::Halt).into_iter().chain([*input]).collect());
                Ok(None)
            }
            look => Ok(look),
        }
    }

    fn end(&mut self, id: &StepId, observer: &mut dyn Observer) -> Result<(), EngineError> {
        let since = match self.steps.get_mut(id) {
            Some(own) => *own.ending_since.get_or_insert_with(Instant::now),
            None => return Ok(()),
        };
        if let Some(Look::Runs(reaper)) = self.look(id, Unclaimed::Forbid, observer)? {
            self.performer.end(id, reaper, since.elapsed() >= END_PATIENCE);
        }
        Ok(())
    }

    /// Looks at all steps, in case a message about one was lost, and ends those whose deadline has passed.
    fn check(&mut self, observer: &mut dyn Observer) -> Result<(), EngineError> {
        self.performer.steps().check();
        let mut is_overdue = false;
        let ids: Vec<_> = self.steps.keys().cloned().collect();
        for id in ids {
            let Some(own) = self.steps.get(&id) else { continue };
            if own.ending_since.is_some() || Instant::now() >= own.deadline {
                self.end(&id, observer)?;
            } else if let Some(Look::Waits) = self.look(&id, Unclaimed::Wait, observer)? {
                is_overdue |= self.performer.is_overdue(&id);
            }
        }
        if is_overdue {
            self.performer.steps().reconnect();
            return self.handle(Message::ReaperGone, observer);
        }
        Ok(())
    }

    fn look_at_all(
        &mut self,
        unclaimed: Unclaimed,
        observer: &mut dyn Observer,
        is_meant: impl Fn(&Flight) -> bool,
    ) -> Result<(), EngineError> {
        let ids = self.performer.flights().ids(is_meant);
        ids.iter().try_for_each(|id| self.look(id, unclaimed, observer).map(drop))
    }

    fn handle(&mut self, message: Message, observer: &mut dyn Observer) -> Result<(), EngineError> {
        match message {
            Message::Step(name) => match self.performer.told(&name) {
                Some(id) => self.look(&id, Unclaimed::Lost, observer).map(drop),
                None => Ok(()),
            },
            Message::KeeperGone(connection) => {
                self.performer.steps().connection_is_over(connection);
                let unclaimed = self.performer.helper_is_lost();
                self.look_at_all(unclaimed, observer, |flight| flight.connection == connection)
            }
            Message::ReaperGone => {
                let unclaimed = self.performer.helper_is_lost();
                self.look_at_all(unclaimed, observer, |_| true)
            }
            Message::ProcessGone(process) => match self.performer.process_is_gone(process) {
                Some(id) => self.look(&id, Unclaimed::Forbid, observer).map(drop),
                None => Ok(()),
            },
            // An order: it is taken at the beginning of the loop. Signals are for whoever gives the orders, and so
            // are worktrees.
            Message::Door | Message::Interrupt | Message::Git => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
