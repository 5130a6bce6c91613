//! Which script steps of a run keep their files.
//!
//! A workflow that polls runs hundreds of thousands of scripts, and each leaves a directory with three
//! files. A run keeps those of its latest finished script steps; directories of turns are all kept.
//!
//! Order: recovery reads the outcome of a step from its directory until the journal says durably that the
//! step ended. So a directory becomes a candidate only when the step's end is made durable. A process that
//! is killed in between leaves directories behind; the next orchestrator finds them when it resumes.
//!
//! Hazard: the directory of a step that never ran is what forbids it. A reaper that was told to start it and
//! comes late would claim it if the directory were gone. So only steps that ran are removed.

use std::{
    collections::{HashMap, VecDeque},
    fs,
    path::{Path, PathBuf},
    sync::mpsc::{self, Sender},
    thread::{self, JoinHandle},
};

use raymond_flow::{
    id::{AgentId, StepId},
    machine::{Agent, Run},
};

use crate::exec::step::StepFolder;

/// Removes the directories of old script steps.
#[derive(Debug)]
pub(crate) struct Retention {
    /// How many finished script steps keep their files; 0 keeps all.
    limit: usize,
    /// Steps that have ended, but perhaps not durably.
    ended: Vec<PathBuf>,
    /// Steps that have ended durably, oldest first.
    kept: VecDeque<PathBuf>,
    remover: Option<Remover>,
}

impl Retention {
    /// Keeps the files of `limit` steps; 0 keeps all.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, ended: Vec::new(), kept: VecDeque::new(), remover: None }
    }

    /// Finds the finished script steps that an earlier orchestrator of `run` left in `steps`.
    ///
    /// Only steps that the run knows count: an agent that is not in the run may have ended, or its birth may
    /// have been lost with the end of the journal, and then its steps are needed.
    pub(crate) fn find(&mut self, steps: &Path, run: &Run) {
        if self.limit == 0 {
            return;
        }
        let agents: HashMap<String, &Agent> =
            run.agents.iter().map(|(id, agent)| (prefix(steps, id), agent)).collect();
        let is_finished = |name: &str| {
            let known = name.rsplit_once('.').and_then(|(front, number)| {
                Some((*agents.get(front)?, number.parse::<u32>().ok()?))
            });
            known.is_some_and(|(agent, number)| {
                let in_flight = agent.phase.step().map(|step| step.number);
                number <= agent.steps && in_flight != Some(number)
            })
        };
        let mut found = Vec::new();
        for entry in fs::read_dir(steps).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_known = entry.file_name().to_str().is_some_and(is_finished);
            if is_known
                && StepFolder::is_script(&path)
                && let Ok(modified) = entry.metadata().and_then(|metadata| metadata.modified())
            {
                found.push((modified, path));
            }
        }
        found.sort();
        self.ended.extend(found.into_iter().map(|(_, path)| path));
    }

    /// Notes that a script step has ended. Its end need not be durable yet.
    pub(crate) fn ended(&mut self, folder: PathBuf) {
        if self.limit > 0 {
            self.ended.push(folder);
        }
    }

    /// Notes that everything so far is durable, and removes what is not kept.
    pub(crate) fn durable(&mut self) {
        if self.ended.is_empty() {
            return;
        }
        self.kept.extend(self.ended.drain(..));
        let old = self.kept.len().saturating_sub(self.limit);
        for folder in self.kept.drain(..old) {
            self.remover.get_or_insert_with(Remover::start).remove(folder);
        }
    }
}

/// What the directories of an agent's steps have in common, up to the dot before the number.
fn prefix(steps: &Path, agent: &AgentId) -> String {
    let mut name = StepFolder::new(steps, &StepId { agent: agent.clone(), number: 0 }).name();
    name.truncate(name.rfind('.').unwrap_or(name.len()));
    name
}

/// A thread that removes directories, so that the run loop does not wait for the disk. Dropping it waits for
/// the thread. What cannot be removed stays: nothing depends on it.
#[derive(Debug)]
struct Remover {
    folders: Option<Sender<PathBuf>>,
    thread: Option<JoinHandle<()>>,
}

impl Remover {
    fn start() -> Self {
        let (folders, waiting) = mpsc::channel::<PathBuf>();
        let remove_all = move || waiting.iter().for_each(|path| remove(&path));
        let thread = thread::Builder::new().name("remover".to_owned()).spawn(remove_all).ok();
        Self { folders: thread.is_some().then_some(folders), thread }
    }

    fn remove(&self, folder: PathBuf) {
        let left = match &self.folders {
            Some(folders) => folders.send(folder).err().map(|error| error.0),
            // No thread can be started.
            None => Some(folder),
        };
        if let Some(folder) = left {
            remove(&folder);
        }
    }
}

fn remove(folder: &Path) {
    if StepFolder::has_run(folder) {
        let _ = fs::remove_dir_all(folder);
    }
}

impl Drop for Remover {
    fn drop(&mut self) {
        self.folders = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests;
