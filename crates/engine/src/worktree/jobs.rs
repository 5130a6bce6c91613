//! Git at work for the run loop: in threads, because checking out a large repository takes long, and the loop must not wait.

use std::{
    collections::HashSet,
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
};

use raymond_flow::{
    id::{AgentId, RunId},
    machine::{Input, MadeWorktree, Run, SavedWork, Worktree},
    policy::WorktreePlan,
};

use super::{GitError, RunWorktrees, save::save};
use crate::{
    inbox::{Message, Outbox},
    layout::StateDir,
};

/// How many git commands work at once. Several that add worktrees to one repository at the same time get into each other's way.
const THREADS_MAX: usize = 1;

enum Job {
    Make(AgentId, Box<WorktreePlan>),
    Save(AgentId, Box<Worktree>),
}

/// Makes and saves worktrees. Dropped, it kills the git commands that are under way and waits for their end; what they left is
/// found when the run is resumed.
pub(crate) struct GitJobs {
    worktrees: RunWorktrees,
    run: RunId,
    outbox: Outbox,
    /// `None` until there is a job, and after the end.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    done: (Sender<Input>, Receiver<Input>),
    /// The agents that a job was given for and that were not reported.
    under_way: HashSet<AgentId>,
}

impl GitJobs {
    pub(crate) fn new(worktrees: RunWorktrees, run: RunId, outbox: Outbox) -> Self {
        Self {
            worktrees,
            run,
            outbox,
            jobs: None,
            threads: Vec::new(),
            stop: Arc::default(),
            done: mpsc::channel(),
            under_way: HashSet::new(),
        }
    }

    pub(crate) fn make(&mut self, agent: AgentId, plan: Box<WorktreePlan>) {
        // Asked for again when a usage limit is lifted.
        if self.under_way.insert(agent.clone()) {
            self.give(Job::Make(agent, plan));
        }
    }

    pub(crate) fn save(&mut self, agent: AgentId, worktree: Box<Worktree>) {
        if self.under_way.insert(agent.clone()) {
            self.give(Job::Save(agent, worktree));
        }
    }

    /// Whether a job is not reported yet.
    pub(crate) fn is_busy(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// The outcome of the next job that is done.
    pub(crate) fn next_done(&mut self) -> Option<Input> {
        let input = self.done.1.try_recv().ok()?;
        if let Input::WorktreeMade { agent, .. } | Input::WorktreeSaved { agent, .. } = &input {
            self.under_way.remove(agent);
        }
        Some(input)
    }

    fn give(&mut self, job: Job) {
        if self.jobs.is_none() {
            let (sender, receiver) = mpsc::channel();
            self.jobs = Some(sender);
            let receiver = Arc::new(Mutex::new(receiver));
            for _ in 0..THREADS_MAX {
                let worker = self.worker(Arc::clone(&receiver));
                self.threads.extend(thread::Builder::new().spawn(worker));
            }
        }
        // Without a single thread the job is only delayed: the run can be stopped and resumed.
        if let Some(jobs) = &self.jobs {
            let _ = jobs.send(job);
        }
    }

    fn worker(&self, jobs: Arc<Mutex<Receiver<Job>>>) -> impl FnOnce() + Send + 'static {
        let (worktrees, run, stop) =
            (self.worktrees.clone(), self.run.clone(), Arc::clone(&self.stop));
        let (done, outbox) = (self.done.0.clone(), self.outbox.clone());
        move || {
            loop {
                let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(job) = job else { return };
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let input = match job {
                    Job::Make(agent, plan) => Some(made(&worktrees, agent, &plan, &stop)),
                    Job::Save(agent, worktree) => save(&run, &agent, &worktree, &stop)
                        .ok()
                        .map(|saved| Input::WorktreeSaved { agent, saved }),
                };
                // What was killed at the end says nothing.
                let is_over = stop.load(Ordering::Relaxed);
                if let Some(input) = input.filter(|_| !is_over) {
                    let _ = done.send(input);
                    outbox.send(&Message::Git);
                }
            }
        }
    }
}

fn made(worktrees: &RunWorktrees, agent: AgentId, plan: &WorktreePlan, stop: &AtomicBool) -> Input {
    let made = worktrees.make(&agent, plan, stop);
    let made = made.map(|(worktree, cwd)| MadeWorktree { worktree: Box::new(worktree), cwd });
    Input::WorktreeMade { agent, made }
}

/// Makes or saves the worktree of `agent`, as `run` wants it, which another machine decides about; `None` if it wants neither.
/// The worktree is in the repository's own state directory, as that of a local run is: all machines see both.
pub fn work_for(run: &Run, agent: &AgentId) -> Option<Input> {
    let never = AtomicBool::new(false);
    if let Some(worktree) = run.worktrees.get(agent) {
        let problem = |error: GitError| SavedWork { head: None, problem: Some(error.to_string()) };
        let saved = save(&run.id, agent, worktree, &never).unwrap_or_else(problem);
        return Some(Input::WorktreeSaved { agent: agent.clone(), saved });
    }
    let plan = run.agents.get(agent)?.worktree_plan.as_ref()?;
    let files = StateDir::of_project(Path::new(&plan.repository)).run(&run.id);
    let worktrees = RunWorktrees::new(&files, &run.id, &run.identity);
    Some(made(&worktrees, agent.clone(), plan, &never))
}

impl Drop for GitJobs {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.jobs = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
