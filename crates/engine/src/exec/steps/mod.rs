//! The interface between the run loop and the runner of its steps, and the runners.
//!
//! | runner | what a step is | what survives the orchestrator |
//! |---|---|---|
//! | [`keeper`] | a process under a reaper of its own | the step |
//! | [`threads`] | a process under a thread of the orchestrator | its output |
//! | `memory` | defined by a test | nothing |
//!
//! A runner reports through the inbox that the state of a step may have changed
//! ([`Message::Step`](crate::run::inbox::Message::Step)); the loop then reads it with [`Steps::standing`]. Reports
//! may be lost or come twice: the loop also checks all steps from time to time.

mod flights;
#[cfg(not(portable))]
mod keeper;
#[cfg(test)]
pub(crate) mod memory;
mod place;
mod threads;

use std::{ffi::OsString, io};

use crate::{
    exec::step::{StepFolder, StepState},
    keeper::StepLaunch,
    run::inbox::{Inbox, Outbox},
    store::layout::RunFiles,
    sys::Pid,
};

pub(crate) use flights::{Flight, Flights};
pub(crate) use place::RunPlace;

/// The number of a process that can be given more than one turn. Never used twice in a run loop.
pub(crate) type ProcessNumber = u32;

/// Runs the steps of one run.
pub(crate) trait Steps {
    /// The state of a step. A directory that another run left there is moved away first.
    fn standing(&mut self, step: &StepFolder) -> io::Result<StepState>;

    /// Makes sure that a step which was not started never will be: a request for it may still be on its way.
    /// Returns whether that was in time.
    fn forbid(&mut self, step: &StepFolder) -> io::Result<bool>;

    /// Starts a step. The records that ask for it must be durable. Returns the number of its process if it
    /// can be given another turn; [`Message::ProcessGone`](crate::run::inbox::Message::ProcessGone) reports its
    /// end.
    fn launch(&mut self, launch: &StepLaunch) -> io::Result<Option<ProcessNumber>>;

    /// Gives another turn to a process that has finished its last one.
    fn give(&mut self, process: ProcessNumber, launch: &StepLaunch) -> io::Result<()>;

    /// Releases a process that could be given another turn, so that it ends.
    fn let_go(&mut self, process: ProcessNumber);

    /// Ends a running step and all its processes. `reaper` comes from [`standing`](Self::standing);
    /// `by_force` is for a step that was asked to end and did not.
    fn end(&mut self, step: &StepFolder, reaper: Option<Pid>, by_force: bool);

    /// Records that the loop has handled the outcome of a step. `is_told` if the runner had reported it.
    fn is_over(&mut self, _step: &StepFolder, _is_told: bool) {}

    /// Kills the processes that a lost step has left. Returns their number.
    fn sweep(&mut self, step: &StepFolder) -> io::Result<usize>;

    /// The connection that launches go through. If it is lost, launches may be lost with it.
    fn connection(&self) -> u32 {
        0
    }

    /// Records that a connection is closed.
    fn connection_is_over(&mut self, _connection: u32) {}

    /// Opens a new connection for the next launch: a step stayed unclaimed for too long.
    fn reconnect(&mut self) {}

    /// Checks the keeper and the reapers. Called every few seconds while steps run.
    fn check(&mut self) {}

    /// What was done about keepers and reapers that did not work, for the observer.
    fn remarks(&mut self) -> Vec<String>;

    /// Whether steps outlive the orchestrator. If not, they end with it.
    fn outlive_us(&self) -> bool;

    /// Ends all running steps, and waits for their end. May read `inbox`, whose messages no longer matter.
    fn close(&mut self, inbox: &Inbox);
}

/// The implementation that runs the steps of a run.
#[derive(Clone, Debug)]
pub struct Runner(RunnerKind);

#[derive(Clone, Debug)]
enum RunnerKind {
    #[cfg(not(portable))]
    Keeper(Vec<OsString>),
    Threads,
    #[cfg(test)]
    Memory(memory::Memory),
}

impl Runner {
    /// Processes that outlive the orchestrator, where the system supports it; threads elsewhere. `program`
    /// is the command of the keeper: this program and its hidden subcommand.
    #[cfg(not(portable))]
    pub fn here(program: Vec<OsString>) -> Self {
        if is_told_to_use_threads() {
            return Self::threads();
        }
        Self(RunnerKind::Keeper(program))
    }

    /// Threads: this system has no keeper, and `program` is not needed.
    #[cfg(portable)]
    pub fn here(program: Vec<OsString>) -> Self {
        drop(program);
        Self::threads()
    }

    /// Threads of the orchestrator. Its steps end with it.
    pub fn threads() -> Self {
        Self(RunnerKind::Threads)
    }

    #[cfg(test)]
    pub(crate) fn memory(memory: memory::Memory) -> Self {
        Self(RunnerKind::Memory(memory))
    }

    /// The steps of the run whose identity and files are given.
    pub(crate) fn steps(&self, identity: &str, files: &RunFiles, outbox: Outbox) -> Box<dyn Steps> {
        let place = RunPlace::new(identity, files);
        match &self.0 {
            #[cfg(not(portable))]
            RunnerKind::Keeper(program) => {
                Box::new(keeper::KeeperSteps::new(program.clone(), place, outbox))
            }
            RunnerKind::Threads => Box::new(threads::ThreadSteps::new(place, outbox)),
            #[cfg(test)]
            RunnerKind::Memory(memory) => Box::new(memory.open(outbox)),
        }
    }
}

/// Whether the variable `RAYMOND_TEST_RUNNER` is `threads`. Tests set it to run on Linux what other systems run; a
/// program that users get does not read it.
#[cfg(not(portable))]
fn is_told_to_use_threads() -> bool {
    cfg!(debug_assertions)
        && std::env::var_os("RAYMOND_TEST_RUNNER").is_some_and(|runner| runner == "threads")
}
