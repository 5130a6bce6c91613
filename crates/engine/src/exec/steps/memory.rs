//! Steps in memory, for tests of the code above them: no process is started, and the test defines the outcome
//! of each step.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, mpsc},
};

use super::{ProcessNumber, Steps};
use crate::{
    exec::step::{ExitRecord, HowEnded, StepFolder, StepState},
    keeper::{LaunchKind, StepLaunch},
    run::inbox::{Inbox, Message, Outbox},
    sys::Pid,
};

/// The outcome of a launched step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It prints this text and ends in this way.
    Ends(HowEnded, String),
    /// It runs until the loop ends it.
    Runs,
    /// It prints this and goes on until it is ended.
    Talks(String),
    /// No reaper claims it.
    Unclaimed,
    /// These messages arrive, then it has its fate.
    After(Vec<Message>, Box<Fate>),
    /// Its reaper is killed after it has printed this.
    Lost(String),
    /// The launch fails.
    Refused(io::ErrorKind),
}

impl Fate {
    /// It succeeds with this output.
    pub(crate) fn prints(text: &str) -> Self {
        Self::Ends(HowEnded::Code(0), text.to_owned())
    }

    /// The request is lost, and with it a reaper.
    pub(crate) fn vanishes() -> Self {
        Self::Unclaimed.after([Message::ReaperGone])
    }

    /// The same, when these messages have arrived.
    pub(crate) fn after<const N: usize>(self, messages: [Message; N]) -> Self {
        Self::After(messages.into(), Box::new(self))
    }
}

type Oracle = dyn FnMut(&StepLaunch) -> Fate + Send;

/// Steps and their outcomes. Clones share them: a test keeps one, and every run loop gets another.
#[derive(Clone)]
pub(crate) struct Memory {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    oracle: Box<Oracle>,
    /// The state of each step, by the name of its directory. A step that is not here was never claimed.
    standings: BTreeMap<String, MemoryStep>,
    /// The calls so far, in order.
    asked: Vec<String>,
    /// How many processes were kept for another turn.
    processes: ProcessNumber,
    /// Whether the disk is too full to forbid a step.
    is_full: bool,
    /// Why no step can be looked at, if none can.
    blind: Option<io::ErrorKind>,
    /// Whether steps end with the orchestrator.
    is_mortal: bool,
    connection: u32,
    /// How many processes a lost step has left.
    survivors: usize,
    /// What the runner has to say.
    remarks: Vec<String>,
    /// Told what was launched, when it has its fate.
    launched: Option<mpsc::Sender<StepLaunch>>,
    /// Told when a run loop finds that a step runs.
    found_running: Option<mpsc::Sender<()>>,
    /// The way to the latest run loop.
    words: Option<mpsc::Sender<Message>>,
}

enum MemoryStep {
    Running,
    Ended(ExitRecord),
    Lost,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").finish_non_exhaustive()
    }
}

impl Memory {
    /// Steps with the outcomes that `oracle` returns.
    pub(crate) fn new(oracle: impl FnMut(&StepLaunch) -> Fate + Send + 'static) -> Self {
        let shared = Shared {
            oracle: Box::new(oracle),
            standings: BTreeMap::new(),
            asked: Vec::new(),
            processes: 0,
            is_full: false,
            blind: None,
            is_mortal: false,
            connection: 0,
            survivors: 0,
            remarks: Vec::new(),
            launched: None,
            found_running: None,
            words: None,
        };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    /// The calls so far, in order: `launch NAME`, `forbid NAME`, `end NAME`, …
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared().asked.clone()
    }

    /// Ends a step that runs, without a word to the run loop.
    pub(crate) fn finish(&self, folder: &Path, how: HowEnded, text: &str) {
        print(folder, text).unwrap();
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        self.shared().standings.insert(name, MemoryStep::Ended(record(how, text)));
    }

    /// Kills the reaper of a step, without a word to the run loop.
    pub(crate) fn lose(&self, folder: &Path) {
        let name = folder.file_name().unwrap().to_str().unwrap().to_owned();
        self.shared().standings.insert(name, MemoryStep::Lost);
    }

    /// Tells of every launch from now on, when it has its fate.
    pub(crate) fn launches(&self) -> mpsc::Receiver<StepLaunch> {
        let (sender, receiver) = mpsc::channel();
        self.shared().launched = Some(sender);
        receiver
    }

    /// Tells once when a run loop finds that a step runs.
    pub(crate) fn tell_when_found_running(&self, sender: mpsc::Sender<()>) {
        self.shared().found_running = Some(sender);
    }

    /// Sends a message to the run loop.
    pub(crate) fn tell(&self, message: Message) {
        self.shared().words.as_ref().unwrap().send(message).unwrap();
    }

    /// Why no step can be looked at from now on, if none can.
    pub(crate) fn set_blind(&self, blind: Option<io::ErrorKind>) {
        self.shared().blind = blind;
    }

    /// Steps end with the orchestrator.
    pub(crate) fn set_mortal(&self) {
        self.shared().is_mortal = true;
    }

    /// What launches go through from now on.
    pub(crate) fn set_connection(&self, connection: u32) {
        self.shared().connection = connection;
    }

    /// How many processes each lost step has left.
    pub(crate) fn set_survivors(&self, count: usize) {
        self.shared().survivors = count;
    }

    /// Gives the runner something to say.
    pub(crate) fn remark(&self, text: &str) {
        self.shared().remarks.push(text.to_owned());
    }

    /// Sets whether the disk is too full to forbid a step.
    pub(crate) fn set_full(&self, is_full: bool) {
        self.shared().is_full = is_full;
    }

    /// Changes the outcomes of later launches.
    pub(crate) fn change(&self, oracle: impl FnMut(&StepLaunch) -> Fate + Send + 'static) {
        self.shared().oracle = Box::new(oracle);
    }

    pub(super) fn open(&self, outbox: Outbox) -> MemorySteps {
        // A separate thread sends the messages in order: the loop does not read its inbox while it launches.
        let (words, heard) = mpsc::channel();
        std::thread::spawn(move || heard.iter().for_each(|message| outbox.send(&message)));
        self.shared().words = Some(words.clone());
        MemorySteps { memory: self.clone(), words }
    }
}

/// The steps of one run loop.
pub(super) struct MemorySteps {
    memory: Memory,
    words: mpsc::Sender<Message>,
}

impl MemorySteps {
    fn note(&self, what: &str, step: &str) {
        self.memory.shared().asked.push(format!("{what} {step}"));
    }

    fn meet_fate(&self, launch: &StepLaunch) -> io::Result<()> {
        let fate = (self.memory.shared().oracle)(launch);
        self.meet(launch, fate)?;
        if let Some(launched) = &self.memory.shared().launched {
            let _ = launched.send(launch.clone());
        }
        Ok(())
    }

    fn meet(&self, launch: &StepLaunch, fate: Fate) -> io::Result<()> {
        let name = launch.name();
        match fate {
            Fate::Ends(how, text) => {
                print(&launch.folder, &text)?;
                self.set(name, MemoryStep::Ended(record(how, &text)));
            }
            Fate::Runs => {
                self.memory.shared().standings.insert(name, MemoryStep::Running);
            }
            Fate::Talks(text) => {
                print(&launch.folder, &text)?;
                self.memory.shared().standings.insert(name, MemoryStep::Running);
            }
            Fate::Unclaimed => {}
            Fate::After(messages, fate) => {
                for message in messages {
                    let _ = self.words.send(message);
                }
                return self.meet(launch, *fate);
            }
            Fate::Lost(text) => {
                print(&launch.folder, &text)?;
                self.set(name, MemoryStep::Lost);
            }
            Fate::Refused(kind) => return Err(kind.into()),
        }
        Ok(())
    }

    fn set(&self, step: String, standing: MemoryStep) {
        self.memory.shared().standings.insert(step.clone(), standing);
        let _ = self.words.send(Message::Step(step));
    }
}

fn record(how: HowEnded, printed: &str) -> ExitRecord {
    ExitRecord { how, duration_ms: 1, stdout_bytes: printed.len() as u64 }
}

fn print(folder: &Path, text: &str) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join("stdout"), text)?;
    fs::write(folder.join("stderr"), "")
}

impl Steps for MemorySteps {
    fn standing(&mut self, step: &StepFolder) -> io::Result<StepState> {
        let mut shared = self.memory.shared();
        if let Some(blind) = shared.blind {
            return Err(blind.into());
        }
        let shared = &mut *shared;
        Ok(match shared.standings.get(&step.name()) {
            None => StepState::Unclaimed,
            Some(MemoryStep::Running) => {
                shared.found_running.take().map(|found| found.send(()));
                StepState::Running(None)
            }
            Some(MemoryStep::Ended(record)) => StepState::Ended(record.clone()),
            Some(MemoryStep::Lost) => StepState::Lost,
        })
    }

    fn forbid(&mut self, step: &StepFolder) -> io::Result<bool> {
        self.note("forbid", &step.name());
        let mut shared = self.memory.shared();
        if shared.is_full {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let is_free = !shared.standings.contains_key(&step.name());
        if is_free {
            let record = record(HowEnded::Forbidden, "");
            shared.standings.insert(step.name(), MemoryStep::Ended(record));
        }
        Ok(is_free)
    }

    fn launch(&mut self, launch: &StepLaunch) -> io::Result<Option<ProcessNumber>> {
        self.note("launch", &launch.name());
        self.meet_fate(launch)?;
        let mut shared = self.memory.shared();
        let is_kept = matches!(launch.kind, LaunchKind::Turn { is_kept: true, .. });
        shared.processes += u32::from(is_kept);
        Ok(is_kept.then_some(shared.processes))
    }

    fn give(&mut self, process: ProcessNumber, launch: &StepLaunch) -> io::Result<()> {
        self.note(&format!("give {process}"), &launch.name());
        self.meet_fate(launch)
    }

    fn let_go(&mut self, process: ProcessNumber) {
        self.note("let go", &process.to_string());
    }

    fn end(&mut self, step: &StepFolder, _reaper: Option<Pid>, _by_force: bool) {
        self.note("end", &step.name());
        print(step.path(), "").unwrap();
        self.set(step.name(), MemoryStep::Ended(record(HowEnded::Interrupted, "")));
    }

    fn sweep(&mut self, step: &StepFolder) -> io::Result<usize> {
        self.note("sweep", &step.name());
        Ok(self.memory.shared().survivors)
    }

    fn reconnect(&mut self) {
        self.note("reconnect", "all");
    }

    fn connection(&self) -> u32 {
        self.memory.shared().connection
    }

    fn remarks(&mut self) -> Vec<String> {
        std::mem::take(&mut self.memory.shared().remarks)
    }

    fn outlive_us(&self) -> bool {
        !self.memory.shared().is_mortal
    }

    fn close(&mut self, _inbox: &Inbox) {
        self.note("close", "all");
    }
}
