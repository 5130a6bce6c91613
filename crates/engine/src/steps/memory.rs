//! Steps in memory, for tests of the code above them: no process is started, and the test defines the outcome
//! of each step.

#![allow(clippy::unwrap_used, reason = "in tests a panic is the message")]

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    sync::{Arc, Mutex, MutexGuard, mpsc},
};

use super::{ProcessNumber, Steps};
use crate::{
    inbox::{Inbox, Message, Outbox},
    keeper::{LaunchKind, StepLaunch},
    step::{ExitRecord, HowEnded, StepFolder, StepState},
    sys::Pid,
};

/// The outcome of a launched step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It prints this text and ends in this way.
    Ends(HowEnded, String),
    /// It runs until the loop ends it.
    Runs,
    /// The request is lost: no reaper claims it.
    Vanishes,
    /// Its reaper is killed after the step has printed this text.
    Lost(String),
    /// The launch fails.
    Refused(io::ErrorKind),
}

impl Fate {
    /// It succeeds with this output.
    pub(crate) fn prints(text: &str) -> Self {
        Self::Ends(HowEnded::Code(0), text.to_owned())
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
    standings: BTreeMap<String, Standing>,
    /// The calls so far, in order.
    asked: Vec<String>,
    /// How many processes were kept for another turn.
    processes: ProcessNumber,
    /// Whether the disk is too full to forbid a step.
    is_full: bool,
}

enum Standing {
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
        let (oracle, standings) = (Box::new(oracle), BTreeMap::new());
        let shared = Shared { oracle, standings, asked: Vec::new(), processes: 0, is_full: false };
        Self { shared: Arc::new(Mutex::new(shared)) }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap()
    }

    /// The calls so far, in order: `launch NAME`, `forbid NAME`, `end NAME`, …
    pub(crate) fn asked(&self) -> Vec<String> {
        self.shared().asked.clone()
    }

    /// Ends a running step while no run loop exists.
    pub(crate) fn finish(&self, folder: &StepFolder, text: &str) {
        fs::create_dir_all(folder.path()).unwrap();
        fs::write(folder.stdout(), text).unwrap();
        fs::write(folder.stderr(), "").unwrap();
        let ended = Standing::Ended(record(HowEnded::Code(0), text));
        self.shared().standings.insert(folder.name(), ended);
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
        let name = launch.name();
        let fate = (self.memory.shared().oracle)(launch);
        match fate {
            Fate::Ends(how, text) => {
                print(launch, &text)?;
                self.set(name, Standing::Ended(record(how, &text)));
            }
            Fate::Runs => {
                self.memory.shared().standings.insert(name, Standing::Running);
            }
            Fate::Vanishes => drop(self.words.send(Message::ReaperGone)),
            Fate::Lost(text) => {
                print(launch, &text)?;
                self.set(name, Standing::Lost);
            }
            Fate::Refused(kind) => return Err(kind.into()),
        }
        Ok(())
    }

    fn set(&self, step: String, standing: Standing) {
        self.memory.shared().standings.insert(step.clone(), standing);
        let _ = self.words.send(Message::Step(step));
    }
}

fn record(how: HowEnded, printed: &str) -> ExitRecord {
    ExitRecord { how, duration_ms: 1, stdout_bytes: printed.len() as u64 }
}

fn print(launch: &StepLaunch, text: &str) -> io::Result<()> {
    fs::create_dir_all(&launch.folder)?;
    fs::write(launch.folder.join("stdout"), text)?;
    fs::write(launch.folder.join("stderr"), "")
}

impl Steps for MemorySteps {
    fn standing(&mut self, step: &StepFolder) -> io::Result<StepState> {
        Ok(match self.memory.shared().standings.get(&step.name()) {
            None => StepState::Unclaimed,
            Some(Standing::Running) => StepState::Running(None),
            Some(Standing::Ended(record)) => StepState::Ended(record.clone()),
            Some(Standing::Lost) => StepState::Lost,
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
            shared.standings.insert(step.name(), Standing::Ended(record));
        }
        Ok(is_free)
    }

    fn launch(&mut self, launch: &StepLaunch) -> io::Result<Option<ProcessNumber>> {
        self.note("launch", &launch.name());
        self.meet_fate(launch)?;
        let mut shared = self.memory.shared();
        let is_kept = matches!(launch.kind, LaunchKind::Turn { reuse: Some(_), .. });
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
        fs::create_dir_all(step.path()).unwrap();
        fs::write(step.stdout(), "").unwrap();
        fs::write(step.stderr(), "").unwrap();
        self.set(step.name(), Standing::Ended(record(HowEnded::Interrupted, "")));
    }

    fn sweep(&mut self, step: &StepFolder) -> io::Result<usize> {
        self.note("sweep", &step.name());
        Ok(0)
    }

    fn remarks(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn outlive_us(&self) -> bool {
        true
    }

    fn close(&mut self, _inbox: &Inbox) {
        self.note("close", "all");
    }
}
