//! Runs steps as separate processes under the run's keeper and its reapers.

use std::{
    collections::HashMap,
    ffi::OsString,
    io,
    time::{Duration, Instant},
};

use super::{ProcessNumber, RunPlace, Steps};
use crate::{
    exec::step::{StepFolder, StepState},
    keeper::{self, Keeper, LaunchKind, ReaperLink, SHORTAGE_INTERVAL, StepLaunch},
    run::inbox::{Inbox, Message, Outbox},
    sys::{self, Pid},
};

/// The number of checks in a row after which a stopped process is continued, and after which it is killed.
const STOPPED_WAKE: u32 = 2;
const STOPPED_KILL: u32 = 4;

/// How often to look for a keeper.
const CONNECT_TRIES: u32 = 5;

/// How long the keeper may take to leave: the grace period and the sweep of its last steps.
const KEEPER_PATIENCE: Duration = Duration::from_secs(15);

/// Hands steps to the reapers of a keeper, which is started with the first step.
pub(super) struct KeeperSteps {
    program: Vec<OsString>,
    place: RunPlace,
    outbox: Outbox,
    keeper: Option<Keeper>,
    /// Counts connections to keepers, so that a message about an earlier one can be ignored.
    connection: u32,
    /// The links to processes that can be given another turn.
    links: HashMap<ProcessNumber, ReaperLink>,
    /// The number of such processes so far.
    count: ProcessNumber,
    /// Stopped keepers and reapers, and in how many checks in a row they were stopped.
    stopped: HashMap<Pid, u32>,
    remarks: Vec<String>,
}

impl KeeperSteps {
    pub(super) fn new(program: Vec<OsString>, place: RunPlace, outbox: Outbox) -> Self {
        Self {
            program,
            place,
            outbox,
            keeper: None,
            connection: 0,
            links: HashMap::new(),
            count: 0,
            stopped: HashMap::new(),
            remarks: Vec::new(),
        }
    }

    /// Hands a step to a reaper, and starts a keeper if there is none.
    fn send(&mut self, launch: &StepLaunch) -> io::Result<ReaperLink> {
        // A leaving keeper may still accept the connection; its successor will not be leaving.
        let mut tries = 0;
        loop {
            tries += 1;
            match self.connected().and_then(|keeper| keeper.launch(launch)) {
                // The keeper has just left; a step that no reaper accepted has not been started.
                Err(error) if tries <= CONNECT_TRIES => {
                    match error.kind() {
                        io::ErrorKind::TimedOut => self.remarks.push(error.to_string()),
                        // The system cannot start a process or thread at the moment.
                        io::ErrorKind::WouldBlock => std::thread::sleep(SHORTAGE_INTERVAL * tries),
                        _ => {}
                    }
                    self.keeper = None;
                }
                sent => return sent,
            }
        }
    }

    fn connected(&mut self) -> io::Result<&mut Keeper> {
        let keeper = self.keeper.take().map_or_else(|| self.connect(), Ok)?;
        Ok(self.keeper.insert(keeper))
    }

    fn connect(&mut self) -> io::Result<Keeper> {
        let keeper = Keeper::connect(&self.place.folder, &self.program)?;
        self.connection += 1;
        let (wait, outbox) = (keeper.wait_until_gone()?, self.outbox.clone());
        let connection = self.connection;
        std::thread::Builder::new().spawn(move || {
            wait();
            outbox.send(&Message::KeeperGone(connection));
        })?;
        Ok(keeper)
    }

    /// Keeps the link to a process that can be given another turn.
    fn keep(&mut self, link: ReaperLink) -> io::Result<Option<ProcessNumber>> {
        let (number, outbox) = (self.count + 1, self.outbox.clone());
        let wait = link.wait_until_gone()?;
        let spawned = std::thread::Builder::new().spawn(move || {
            wait();
            outbox.send(&Message::ProcessGone(number));
        });
        if spawned.is_err() {
            // Without this thread the loop would not learn that the process is gone, so the process gets
            // only this turn.
            link.close();
            return Ok(None);
        }
        self.count = number;
        self.links.insert(number, link);
        Ok(Some(number))
    }
}

impl Steps for KeeperSteps {
    fn standing(&mut self, step: &StepFolder) -> io::Result<StepState> {
        let kill = |reaper| keeper::kill(&self.place.folder, reaper);
        self.place.standing(step, kill, &mut self.remarks)
    }

    fn forbid(&mut self, step: &StepFolder) -> io::Result<bool> {
        step.forbid()
    }

    fn launch(&mut self, launch: &StepLaunch) -> io::Result<Option<ProcessNumber>> {
        let link = self.send(launch)?;
        match (&launch.kind, &mut self.keeper) {
            (LaunchKind::Turn { is_kept: true, .. }, _) => return self.keep(link),
            (LaunchKind::Script, Some(keeper)) => keeper.keep(launch.name(), link),
            _ => {}
        }
        Ok(None)
    }

    fn give(&mut self, process: ProcessNumber, launch: &StepLaunch) -> io::Result<()> {
        self.links.get(&process).ok_or(io::ErrorKind::NotFound)?.send(launch)
    }

    fn let_go(&mut self, process: ProcessNumber) {
        if let Some(link) = self.links.remove(&process) {
            // The thread that waits for the end of the process holds a copy of the link.
            link.close();
        }
    }

    fn end(&mut self, step: &StepFolder, reaper: Option<Pid>, by_force: bool) {
        let Some(reaper) = reaper else { return };
        if !by_force {
            // Also if the reaper is stopped, and also if its keeper is gone.
            sys::end_process(reaper, true);
        } else if keeper::kill(&self.place.folder, reaper).is_ok() {
            let name = step.name();
            let text = format!("step {name} could not be ended; its reaper {reaper} was killed");
            self.remarks.push(text);
        }
    }

    fn is_over(&mut self, step: &StepFolder, is_told: bool) {
        if let Some(keeper) = &mut self.keeper {
            keeper.step_is_over(&step.name(), is_told);
        }
    }

    fn sweep(&mut self, step: &StepFolder) -> io::Result<usize> {
        self.place.sweep(step)
    }

    fn connection(&self) -> u32 {
        self.connection
    }

    fn connection_is_over(&mut self, connection: u32) {
        if connection == self.connection {
            self.keeper = None;
        }
    }

    fn reconnect(&mut self) {
        // The reaper that has the step died unnoticed, or is stopped and blocks the others. A new greeting
        // makes the keeper fork another one.
        self.keeper = None;
    }

    /// Looks for stopped keepers and reapers: their steps have no timeout and cannot be ended. They are
    /// continued, and killed if that does not help. If they are found stopped only once, they may have been
    /// stopped together with the orchestrator, and may be continued next.
    fn check(&mut self) {
        let found = keeper::stopped(&self.place.folder);
        self.stopped.retain(|pid, _| found.contains(pid));
        for pid in found {
            let times = self.stopped.entry(pid).or_default();
            *times += 1;
            if *times == STOPPED_WAKE {
                sys::wake(pid);
                let text = format!("process {pid} of the run's keeper was stopped; it was woken");
                self.remarks.push(text);
            } else if *times >= STOPPED_KILL && keeper::kill(&self.place.folder, pid).is_ok() {
                let text = format!("process {pid} of the run's keeper stays stopped; killed");
                self.remarks.push(text);
            }
        }
    }

    fn remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.remarks)
    }

    fn outlive_us(&self) -> bool {
        true
    }

    fn close(&mut self, inbox: &Inbox) {
        for link in self.links.drain().map(|(_, link)| link) {
            link.close();
        }
        keeper::stopped(&self.place.folder).into_iter().for_each(sys::wake);
        let Some(mut keeper) = self.keeper.take() else { return };
        if keeper.shut_down().is_err() {
            return;
        }
        let deadline = Instant::now() + KEEPER_PATIENCE;
        while Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            // After an interrupt the keeper leaves by itself.
            if let Some(Message::KeeperGone(_) | Message::Interrupt) = inbox.next(Some(left)) {
                return;
            }
        }
        self.remarks.push(match keeper.kill(&self.place.folder) {
            Ok(()) => "the keeper did not go and was killed".to_owned(),
            Err(error) => format!("the keeper did not go, and could not be killed: {error}"),
        });
    }
}
