//! Git at work for the run loop: in threads, because checking out a large repository takes long, and the loop must not wait.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Receiver, Sender},
    },
    thread::{self, JoinHandle},
};

use raymond_flow::{
    id::{AgentId, RunId},
    machine::{Input, MadeWorktree, Worktree},
    policy::WorktreePlan,
};

use super::{
    RunWorktrees,
    room::{Disks, NoRoom, disks_of},
    save::save,
};
use crate::run::inbox::{Message, Outbox};

/// How many git commands work at once. Several that add worktrees to one repository at the same time get into each other's way.
const THREADS_MAX: usize = 1;

enum Job {
    Make(AgentId, Box<WorktreePlan>),
    Save(AgentId, Box<Worktree>),
}

/// What became of a job.
pub(crate) enum GitDone {
    /// It is done, or cannot be done.
    Over(Box<Input>),
    /// There was no space for it. Neither it nor any other job is done before the run is resumed.
    NoRoom(NoRoom),
}

/// Makes and saves worktrees. Dropped, it kills the git commands that are under way and waits for their end; what they left is
/// found when the run is resumed.
pub(crate) struct GitJobs {
    worktrees: RunWorktrees,
    run: RunId,
    outbox: Outbox,
    /// How much space must be free on a disk.
    reserve_bytes: u64,
    /// `None` until there is a job, and after the end.
    jobs: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    done: (Sender<GitDone>, Receiver<GitDone>),
    /// The agents that a job was given for and that were not reported.
    under_way: HashSet<AgentId>,
    /// Whether there was no space for a job.
    is_stuck: bool,
}

impl GitJobs {
    pub(crate) fn new(
        worktrees: RunWorktrees,
        run: RunId,
        outbox: Outbox,
        reserve_bytes: u64,
    ) -> Self {
        Self {
            worktrees,
            run,
            outbox,
            reserve_bytes,
            jobs: None,
            threads: Vec::new(),
            stop: Arc::default(),
            done: mpsc::channel(),
            under_way: HashSet::new(),
            is_stuck: false,
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

    /// Whether nothing more is done until there is disk space and the run is resumed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// The outcome of the next job that is over.
    pub(crate) fn next_done(&mut self) -> Option<GitDone> {
        let done = self.done.1.try_recv().ok()?;
        match &done {
            GitDone::Over(input) => {
                if let Input::WorktreeMade { agent, .. } | Input::WorktreeSaved { agent, .. } =
                    &**input
                {
                    self.under_way.remove(agent);
                }
            }
            GitDone::NoRoom(_) => self.is_stuck = true,
        }
        Some(done)
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
        let (done, outbox, reserve) =
            (self.done.0.clone(), self.outbox.clone(), self.reserve_bytes);
        move || {
            loop {
                let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(job) = job else { return };
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let outcome = match job {
                    Job::Make(agent, plan) => {
                        Some(make_one(&worktrees, agent, &plan, reserve, &stop))
                    }
                    Job::Save(agent, worktree) => save_one(&run, agent, &worktree, reserve, &stop),
                };
                // What was killed at the end says nothing.
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let Some(outcome) = outcome else { continue };
                let is_stuck = matches!(outcome, GitDone::NoRoom(_));
                let _ = done.send(outcome);
                outbox.send(&Message::Git);
                if is_stuck {
                    return;
                }
            }
        }
    }
}

fn make_one(
    worktrees: &RunWorktrees,
    agent: AgentId,
    plan: &WorktreePlan,
    reserve: u64,
    stop: &AtomicBool,
) -> GitDone {
    let disks = Disks::new(worktrees.folder(), &plan.repository, reserve);
    if let Some(low) = disks.low() {
        return GitDone::NoRoom(low);
    }
    let made = match worktrees.make(&agent, plan, stop) {
        Ok((worktree, cwd)) => Ok(MadeWorktree { worktree: Box::new(worktree), cwd }),
        Err(why) => match disks.full_for(plan, &why) {
            Some(full) => return GitDone::NoRoom(full),
            None => Err(why),
        },
    };
    GitDone::Over(Box::new(Input::WorktreeMade { agent, made }))
}

fn save_one(
    run: &RunId,
    agent: AgentId,
    worktree: &Worktree,
    reserve: u64,
    stop: &AtomicBool,
) -> Option<GitDone> {
    let saved = save(run, &agent, worktree, stop).ok()?;
    let full = saved.problem.as_ref().and_then(|why| disks_of(worktree, reserve).full_after(why));
    Some(match full {
        Some(full) => GitDone::NoRoom(full),
        None => GitDone::Over(Box::new(Input::WorktreeSaved { agent, saved })),
    })
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
