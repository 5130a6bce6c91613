//! The door of a run: how another process of the same user asks the run's orchestrator for something.
//!
//! ```text
//! workflows/ID/door/         only its owner can enter it
//!     NAME.request           what is asked for, one JSON object
//!     NAME.answer            the answer, one JSON object
//! ```
//!
//! The caller gives a request its name when it is complete, wakes the orchestrator through its inbox, and
//! waits for the answer. The orchestrator carries the request out, makes the records durable, removes the
//! request, and only then answers. So a confirmed request is in the journal, whichever process is killed at
//! whatever moment, and is not found again. If the orchestrator dies before it answers, the caller takes
//! the run's lock and does it itself: every request may be carried out twice, as long as its caller waits.
//!
//! A process that may write here can keep a copy of a request and put it back when the user has asked for something
//! else. Its seal is bound to its name, so an orchestrator passes over names that it has confirmed; and what was asked before
//! it opened the door is asked again by its caller, if that still waits.
//!
//! Files instead of a socket: they work on every system, a burst of requests needs no thread and no queue
//! with a limit, and the permissions of the directory keep other users out.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AgentId, AskId},
    machine::{self, Limits, Status},
    money::Usd,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    run::inbox::{Message, Outbox},
    sys::clock,
    trust::{private, regular, seal},
};

/// The directory of requests in the run's directory.
const DOOR: &str = "door";
const REQUEST: &str = "request";
const ANSWER: &str = "answer";

/// What the seals of requests and answers are for.
const SEAL: &str = "door";
/// The largest request or answer: a message whose every byte is escaped.
const BYTES_MAX: u64 = 512 * 1024;
/// How many requests are carried out at once. They share one `fdatasync`.
const BATCH_MAX: usize = 256;
/// How often a caller checks for its answer.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// How long a request is valid. One whose caller was killed must not take effect much later.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// Something that a run can be asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// Start nothing new, and pause when the running steps have ended. The run can be resumed.
    Stop {
        /// Whether running steps are ended, too.
        now: bool,
    },
    /// Cancel the run and end its steps.
    Cancel,
    /// Change limits.
    Limit(LimitChange),
    /// Keep a message for an agent, and give it to the agent's running turn if that takes messages.
    Tell {
        /// The agent.
        agent: AgentId,
        /// The message.
        message: machine::Message,
    },
    /// Look at the answer to a question. It is durable already.
    Answered {
        /// The question, as `AGENT.NUMBER`.
        ask: String,
    },
}

/// Limits to change; those that are `None` stay as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitChange {
    /// What all agents together may spend; 0 is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_usd: Option<Usd>,
    /// How many states may be entered; 0 is no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u64>,
    /// How many turns may run at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_parallel: Option<u32>,
    /// How often a turn is retried after a failure of an unknown kind, a timeout or a kill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u32>,
    /// How long a turn is retried after transient failures, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_for_ms: Option<u64>,
}

impl LimitChange {
    /// `limits` with the changes.
    #[must_use]
    pub fn apply(&self, mut limits: Limits) -> Limits {
        if let Some(budget) = self.budget_usd {
            limits.budget_usd = (budget > Usd::ZERO).then_some(budget);
        }
        if let Some(most) = self.max_iterations {
            limits.max_iterations = (most > 0).then_some(most);
        }
        limits.max_parallel = self.max_parallel.unwrap_or(limits.max_parallel);
        limits.max_retries = self.max_retries.unwrap_or(limits.max_retries);
        // No retries are none of either kind, unless the time is given, too.
        let none = (self.max_retries == Some(0)).then_some(0);
        limits.retry_for_ms = self.retry_for_ms.or(none).unwrap_or(limits.retry_for_ms);
        limits
    }
}

/// The answer to a request that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorAnswer {
    /// The status of the run.
    pub status: Status,
    /// The number of running steps.
    pub running_steps: usize,
}

/// A request on disk.
#[derive(Debug, Serialize, Deserialize)]
struct RequestFile {
    /// The identity of the run that is asked: a later run of the same name is another one.
    run: String,
    /// The end of its validity, in milliseconds since 1970.
    until_ms: u64,
    what: Request,
}

/// An answer on disk.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum AnswerFile {
    Done {
        status: StatusWord,
        running_steps: usize,
    },
    Refused {
        why: String,
    },
    /// It was asked before the door was opened, and not carried out since: ask again.
    Again {},
}

/// A status in an answer.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StatusWord {
    Running,
    Completed,
    Failed,
    Stopped,
    Paused,
    Cancelled,
}

impl From<Status> for StatusWord {
    fn from(status: Status) -> Self {
        match status {
            Status::Running => Self::Running,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Stopped => Self::Stopped,
            Status::Paused => Self::Paused,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

impl From<StatusWord> for Status {
    fn from(word: StatusWord) -> Self {
        match word {
            StatusWord::Running => Self::Running,
            StatusWord::Completed => Self::Completed,
            StatusWord::Failed => Self::Failed,
            StatusWord::Stopped => Self::Stopped,
            StatusWord::Paused => Self::Paused,
            StatusWord::Cancelled => Self::Cancelled,
        }
    }
}

/// The orchestrator's side.
#[derive(Debug)]
pub(crate) struct Door {
    folder: PathBuf,
    /// The identity of the run.
    run: String,
    opened_ms: u64,
    opened: Instant,
    /// The names of requests that were confirmed and are still valid, with the end of their validity.
    confirmed: BTreeMap<String, u64>,
}

/// A request that was not answered yet.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    name: String,
    until_ms: u64,
    pub(crate) what: Request,
}

impl Door {
    /// The door of the run with this identity in `run_folder`. Answers that no caller has fetched are removed.
    pub(crate) fn open(run_folder: &Path, run: &str) -> io::Result<Self> {
        let folder = run_folder.join(DOOR);
        private::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)?.flatten() {
            let age = entry.metadata().and_then(|metadata| metadata.modified());
            if age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > PATIENCE)) {
                let _ = fs::remove_file(entry.path());
            }
        }
        let (opened_ms, opened) = (clock::now_ms(), Instant::now());
        let confirmed = BTreeMap::new();
        Ok(Self { folder, run: run.to_owned(), opened_ms, opened, confirmed })
    }

    /// The requests that wait for an answer. Files that are not requests are refused here.
    pub(crate) fn requests(&self) -> Vec<PendingRequest> {
        let mut names = names_in(&self.folder);
        names.sort();
        names.truncate(BATCH_MAX);
        let mut requests = Vec::new();
        for name in names {
            match read::<RequestFile>(&self.folder.join(format!("{name}.{REQUEST}"))) {
                Ok(file)
                    if file.until_ms < clock::now_ms()
                        || file.run != self.run
                        || self.confirmed.contains_key(&name) =>
                {
                    self.remove(&name);
                }
                Ok(file) if self.is_earlier(&file) => {
                    self.remove(&name);
                    let _ = write(&self.folder, &name, ANSWER, &AnswerFile::Again {});
                }
                Ok(RequestFile { until_ms, what, .. }) => {
                    requests.push(PendingRequest { name, until_ms, what });
                }
                // Its caller has withdrawn it.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    let why = format!("cannot read the request: {error}");
                    self.remove(&name);
                    let _ = write(&self.folder, &name, ANSWER, &AnswerFile::Refused { why });
                }
            }
        }
        requests
    }

    /// Whether a request was made before this door was opened: an earlier orchestrator may have confirmed it. Later than
    /// a request is valid none can be, whatever the clock was set to meanwhile.
    fn is_earlier(&self, request: &RequestFile) -> bool {
        self.opened.elapsed() <= PATIENCE
            && request.until_ms < self.opened_ms.saturating_add(patience_ms())
    }

    /// Confirms a request. Its records must be durable.
    pub(crate) fn confirm(&mut self, request: &PendingRequest, answer: &DoorAnswer) {
        let now_ms = clock::now_ms();
        self.confirmed.retain(|_, until_ms| *until_ms >= now_ms);
        self.confirmed.insert(request.name.clone(), request.until_ms);
        // First remove: if this process is killed before it answers, the caller finds neither file and asks
        // again; a confirmed request is never carried out a second time.
        self.remove(&request.name);
        let &DoorAnswer { status, running_steps } = answer;
        let file = AnswerFile::Done { status: status.into(), running_steps };
        let _ = write(&self.folder, &request.name, ANSWER, &file);
    }

    fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.folder.join(format!("{name}.{REQUEST}")));
    }
}

/// Tells the orchestrator of the run with this identity in `run_folder`, if there is one, that a question was answered. Does
/// not wait: the answer counts in any case.
pub(crate) fn tell_answered(run_folder: &Path, run: &str, ask: &AskId) {
    if let Ok(letter) = Letter::post(run_folder, run, &Request::Answered { ask: ask.to_string() }) {
        letter.leave();
    }
}

/// Whether there is a request at the door of the run in `run_folder`. For an inbox that other processes
/// cannot wake.
#[cfg(any(portable, test))]
pub(crate) fn has_requests(run_folder: &Path) -> bool {
    !names_in(&run_folder.join(DOOR)).is_empty()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let name = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_suffix(REQUEST)?.strip_suffix('.')?.to_owned())
    };
    entries.filter_map(name).collect()
}

/// A caller's request. It is withdrawn when this is dropped.
#[derive(Debug)]
pub(crate) struct Letter {
    run_folder: PathBuf,
    folder: PathBuf,
    name: String,
}

impl Letter {
    /// Puts a request at the door of the run with this identity in `run_folder`.
    pub(crate) fn post(run_folder: &Path, run: &str, request: &Request) -> io::Result<Self> {
        let folder = run_folder.join(DOOR);
        private::create_dir_all(&folder)?;
        let until_ms = clock::now_ms().saturating_add(patience_ms());
        // In the order of the clock.
        let name = format!("{:016}-{}", clock::now_ms(), uuid::Uuid::new_v4().simple());
        let file = RequestFile { run: run.to_owned(), until_ms, what: request.clone() };
        write(&folder, &name, REQUEST, &file)?;
        Ok(Self { run_folder: run_folder.to_owned(), folder, name })
    }

    /// Wakes the orchestrator, and leaves the request to it.
    fn leave(self) {
        self.wake();
        std::mem::forget(self);
    }

    fn wake(&self) {
        if let Ok(outbox) = Outbox::to(&self.run_folder) {
            outbox.send(&Message::Door);
        }
    }

    /// Wakes the orchestrator, and waits for its answer for at most `patience`. To be repeated: the
    /// orchestrator may not be listening yet.
    pub(crate) fn wait(&self, patience: Duration) -> Option<io::Result<DoorAnswer>> {
        self.wake();
        let deadline = Instant::now() + patience;
        loop {
            let answer = self.answer();
            if answer.is_some() || self.is_too_early() || Instant::now() >= deadline {
                return answer;
            }
            std::thread::sleep(LOOK_INTERVAL);
        }
    }

    /// The answer, if there is one: the result of the request, or why it was refused.
    pub(crate) fn answer(&self) -> Option<io::Result<DoorAnswer>> {
        match read(&self.path(ANSWER)) {
            Ok(AnswerFile::Done { status, running_steps }) => {
                Some(Ok(DoorAnswer { status: status.into(), running_steps }))
            }
            Ok(AnswerFile::Refused { why }) => Some(Err(io::Error::other(why))),
            Ok(AnswerFile::Again {}) => None,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// Whether the door was opened after the request was made, so that it must be made again.
    pub(crate) fn is_too_early(&self) -> bool {
        matches!(read(&self.path(ANSWER)), Ok(AnswerFile::Again {}))
    }

    fn path(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }
}

impl Drop for Letter {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.path(REQUEST));
        let _ = fs::remove_file(self.path(ANSWER));
    }
}

fn patience_ms() -> u64 {
    u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX)
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    seal::from_json(SEAL, path, &regular::read(path, BYTES_MAX)?)
}

/// Writes a file and gives it its name when it is complete.
fn write<T: Serialize>(folder: &Path, name: &str, extension: &str, value: &T) -> io::Result<()> {
    // Not a name that could be taken for a request.
    let draft = folder.join(format!("{name}.{extension}.draft"));
    let path = folder.join(format!("{name}.{extension}"));
    private::write(&draft, seal::to_json(SEAL, &path, value)?)?;
    fs::rename(&draft, path)
}

#[cfg(test)]
mod tests;
