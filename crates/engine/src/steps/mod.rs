//! What the run loop needs of whatever runs its steps, and who can do that.
//!
//! | runner | what a step is | what survives the orchestrator |
//! |---|---|---|
//! | [`keeper`] | a process under a reaper of its own | the step |
//! | [`threads`] | a process under a thread of the orchestrator | its output |
//! | `memory` | what a test says | nothing |
//!
//! A runner tells the loop through the inbox that a step is worth a look
//! ([`Message::Step`](crate::inbox::Message::Step)); how it stands is then asked by
//! [`Steps::standing`]. Word may be lost or come twice: the loop also asks now and then.

mod flights;
#[cfg(not(portable))]
mod keeper;
#[cfg(test)]
pub(crate) mod memory;
mod place;
mod threads;

use std::{ffi::OsString, io};

use crate::{
    inbox::{Inbox, Outbox},
    keeper::StepLaunch,
    layout::RunFiles,
    step::{StepFolder, StepState},
    sys::Pid,
};

pub(crate) use flights::{Flight, Flights};
pub(crate) use place::RunPlace;

/// The number of a process that can be given more than one turn. Never used twice in a run loop.
pub(crate) type ProcessNumber = u32;

/// Runs the steps of one run.
pub(crate) trait Steps {
    /// How a step stands. A folder that another run left in its place is moved away first.
    fn standing(&mut self, step: &StepFolder) -> io::Result<StepState>;

    /// Makes sure that a step which was not started never will be: a request for it may still be on its
    /// way. Returns whether that was in time.
    fn forbid(&mut self, step: &StepFolder) -> io::Result<bool>;

    /// Starts a step. What asks for it must be durable. Returns the number of its process if that can be
    /// given another turn; [`Message::ProcessGone`](crate::inbox::Message::ProcessGone) tells when it is
    /// gone.
    fn launch(&mut self, launch: &StepLaunch) -> io::Result<Option<ProcessNumber>>;

    /// Gives another turn to a process that is done with its last one.
    fn give(&mut self, process: ProcessNumber, launch: &StepLaunch) -> io::Result<()>;

    /// Lets a process end that could be given another turn.
    fn let_go(&mut self, process: ProcessNumber);

    /// Ends a running step, with everything that it started. `reaper` is what [`standing`](Self::standing)
    /// said; `by_force` is for a step that was asked to end and did not.
    fn end(&mut self, step: &StepFolder, reaper: Option<Pid>, by_force: bool);

    /// Takes note that the loop has taken the outcome of a step. `is_told` if the runner had told of it.
    fn is_over(&mut self, _step: &StepFolder, _is_told: bool) {}

    /// Ends what a lost step has left. Returns how many processes that were.
    fn sweep(&mut self, step: &StepFolder) -> io::Result<usize>;

    /// The connection that launches go through. If it is lost, they may be lost with it.
    fn connection(&self) -> u32 {
        0
    }

    /// Takes note that a connection is over.
    fn connection_is_over(&mut self, _connection: u32) {}

    /// Connects anew for the next launch: some step was not taken for too long.
    fn reconnect(&mut self) {}

    /// Looks after whatever looks after steps. Called every few seconds while steps run.
    fn check(&mut self) {}

    /// What was done about helpers that did not do their work, to be told to the observer.
    fn remarks(&mut self) -> Vec<String>;

    /// Whether steps go on without the orchestrator. If not, they are ended with it.
    fn outlive_us(&self) -> bool;

    /// Ends everything that still runs, and waits for it. `inbox` may be read meanwhile: nothing in it
    /// matters any more.
    fn close(&mut self, inbox: &Inbox);
}

/// Who runs the steps of a run.
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
    /// Processes that outlive the orchestrator, where the system can have them; threads elsewhere.
    /// `program` is what to run as the keeper of those processes: this program and its hidden subcommand.
    #[cfg(not(portable))]
    pub fn here(program: Vec<OsString>) -> Self {
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
