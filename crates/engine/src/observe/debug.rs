//! Debug mode: a directory with everything that happened in a run.
//!
//! ```text
//! .raymond/debug/<id>_<YYYYMMDD_HHMMSS>/
//!     transitions.log
//!     <agent>_<state>_<number>.json          the output of a coding agent, as a list
//!     <agent>_<state>_<number>.stdout.txt    the output of a script
//!     <agent>_<state>_<number>.stderr.txt    of a script, and of a coding agent if it is not empty
//! ```
//!
//! Debug mode observes and never affects the run: a failed write leaves a gap and a warning, and the
//! run goes on. Of the environment, only the variables that Raymond itself sets are written, because
//! the others may hold secrets.

mod entry;
mod list;

use std::{
    collections::{HashMap, HashSet},
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

use jiff::{Timestamp, tz::TimeZone};
use raymond_flow::{
    id::{AgentId, RunId, StepId},
    machine::{Action, Record, Step},
    money::Usd,
};

use crate::{
    run::events::{Before, Event, Observer, Seen, StepEnd},
    sys::clock,
    trust::{private, regular},
};

/// Writes the debug directory of one run.
#[derive(Debug)]
pub struct DebugFiles {
    folder: PathBuf,
    /// `transitions.log`; `None` if the directory could not be created.
    log: Option<File>,
    /// Each agent's last step, until its outcome is logged.
    steps: HashMap<AgentId, LastStep>,
    /// The file name prefixes that are in use.
    names: HashSet<String>,
    /// The warning about a failed write, until the caller takes it.
    complaint: Option<String>,
    has_complained: bool,
}

/// An agent's last step.
#[derive(Debug, Default)]
struct LastStep {
    ended: Option<EndedStep>,
    environment: Vec<(String, String)>,
    cost_usd: Option<Usd>,
}

/// How the process of a step ended.
#[derive(Debug)]
struct EndedStep {
    /// The prefix of the names of its files.
    name: String,
    is_script: bool,
    exit_code: Option<i32>,
    duration_ms: u64,
}

impl DebugFiles {
    /// Creates the debug directory of run `id` below `root`, named after the current time.
    pub fn new(root: &Path, id: &RunId) -> Self {
        let folder = root.join(format!("{id}_{}", time("%Y%m%d_%H%M%S")));
        let made = private::refuse_link(root).and_then(|()| private::create_dir_all(&folder));
        let created = made.and_then(|()| {
            private::options().create(true).append(true).open(folder.join("transitions.log"))
        });
        let (log, complaint) = match created {
            Ok(log) => (Some(log), None),
            Err(error) => {
                let folder = folder.display();
                (None, Some(format!("--debug is disabled: cannot create {folder}: {error}")))
            }
        };
        Self {
            folder,
            log,
            steps: HashMap::new(),
            names: HashSet::new(),
            complaint,
            has_complained: false,
        }
    }

    /// The debug directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Copies the output of a step. Returns the prefix of its file names.
    fn keep_output(&mut self, id: &StepId, step: &Step, folder: &Path) -> String {
        // A file name cannot have the slash of a subworkflow.
        let state = step.state.stem().replace('/', "_");
        let name = self.unused(format!("{}_{state}_{:03}", id.agent, id.number));
        match step.action {
            Action::Turn(_) => {
                let about = list::About { id, state: &step.state, timestamp: &log_time() };
                self.write(&format!("{name}.json"), |to| {
                    list::write(&about, regular::open(&folder.join("stdout"))?, to)
                });
            }
            Action::Script { .. } => {
                self.write(&format!("{name}.stdout.txt"), |to| copy(&folder.join("stdout"), to));
            }
        }
        let stderr = folder.join("stderr");
        // Always write a script's, even if it is empty; most coding agents print nothing there.
        let is_script = matches!(step.action, Action::Script { .. });
        if is_script || fs::metadata(&stderr).is_ok_and(|metadata| metadata.len() > 0) {
            self.write(&format!("{name}.stderr.txt"), |to| copy(&stderr, to));
        }
        name
    }

    /// A prefix that no other step has. Names of agents and states may contain underscores, so two steps
    /// can have the same one: `main_b1` in `B`, and `main` in `b1_B`.
    fn unused(&mut self, name: String) -> String {
        let others = (2..).map(|n: u32| format!("{name}-{n}"));
        let mut names = std::iter::once(name.clone()).chain(others);
        names.find(|name| self.names.insert(name.clone())).unwrap_or(name)
    }

    fn write(&mut self, name: &str, write: impl FnOnce(&mut File) -> io::Result<()>) {
        if self.log.is_none() {
            return;
        }
        let mut options = private::options();
        let file = options.create(true).truncate(true).write(true).open(self.folder.join(name));
        let written = file.and_then(|mut file| write(&mut file));
        self.note(name, written);
    }

    fn log(&mut self, text: &str) {
        if let Some(log) = &mut self.log {
            let written = log.write_all(text.as_bytes());
            self.note("transitions.log", written);
        }
    }

    /// Records a failed write. A full disk must not stop the run for the sake of a log, but the user is
    /// warned, once.
    fn note(&mut self, name: &str, written: io::Result<()>) {
        if let Err(error) = written
            && !self.has_complained
        {
            self.has_complained = true;
            let path = self.folder.join(name);
            let text =
                format!("the --debug log is incomplete: cannot write {}: {error}", path.display());
            self.complaint = Some(text);
        }
    }

    fn record(&mut self, record: &Record, before: Option<&Before>, total_cost_usd: Usd) {
        if let Some((id, spent)) = record.ended() {
            self.steps.entry(id.agent).or_default().cost_usd = Some(spent.cost_usd);
            return;
        }
        let steps = &mut self.steps;
        let last = |agent: &AgentId| steps.remove(agent).unwrap_or_default();
        let text = before.and_then(|before| entry::of_agent(record, before, total_cost_usd, last));
        let text = text.or_else(|| entry::of_run(record, total_cost_usd));
        if let Some(text) = text {
            self.log(&text);
        }
    }
}

fn copy(from: &Path, to: &mut File) -> io::Result<()> {
    io::copy(&mut regular::open(from)?, to).map(drop)
}

impl Observer for DebugFiles {
    fn see(&mut self, seen: &Seen) {
        match &seen.event {
            Event::Opened { run, is_new: false, .. } => {
                let text = entry::of_opened(run);
                self.log(&text);
            }
            Event::StepStarted { id, environment, .. } => {
                let step = LastStep { environment: environment.clone(), ..LastStep::default() };
                self.steps.insert(id.agent.clone(), step);
            }
            Event::StepEnded { id, step, folder, end, duration_ms } if has_output(*end) => {
                let name = self.keep_output(id, step, folder);
                let is_script = matches!(step.action, Action::Script { .. });
                let (exit_code, duration_ms) = (end.code(), *duration_ms);
                let last = self.steps.entry(id.agent.clone()).or_default();
                last.ended = Some(EndedStep { name, is_script, exit_code, duration_ms });
            }
            Event::Recorded { record, before, total_cost_usd, .. } => {
                self.record(record, before.as_deref(), *total_cost_usd);
            }
            Event::Opened { is_new: true, .. }
            | Event::StepEnded { .. }
            | Event::Activity { .. }
            | Event::JournalTrimmed(_)
            | Event::Asked { .. }
            | Event::WaitsForPeople
            | Event::UnknownVariables { .. }
            | Event::StateFileWarning(_)
            | Event::Trouble(_) => {}
        }
    }

    fn complaint(&mut self) -> Option<String> {
        self.complaint.take()
    }
}

/// Whether a step that ended like this has output files that are complete enough to keep.
fn has_output(end: StepEnd) -> bool {
    match end {
        StepEnd::Code(_) | StepEnd::NoCode => true,
        StepEnd::Answered | StepEnd::NotStarted | StepEnd::Lost => false,
    }
}

/// The local time, as shown in entries.
fn log_time() -> String {
    time("%Y-%m-%d %H:%M:%S")
}

fn time(format: &str) -> String {
    let milliseconds = i64::try_from(clock::now_ms()).unwrap_or_default();
    let now = Timestamp::from_millisecond(milliseconds).unwrap_or_default();
    now.to_zoned(TimeZone::system()).strftime(format).to_string()
}

#[cfg(all(test, unix))]
mod tests;
