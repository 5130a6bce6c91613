//! Processes of coding agents that are kept for the next turn of their sessions.
//!
//! Starting a coding agent costs most of a second; a further turn of one that runs costs hardly
//! anything. What a kept process may be used for is decided here: only for the very session that it
//! leads, in the same directory, with the same model and permissions, and only if it cannot spend
//! more than is left.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AgentId, SessionId, StepId},
    machine::{Agent, Run, Session, SessionPlan, Turn},
    money::Usd,
};

use crate::{
    agent::{Reuse, TurnRequest},
    keeper,
    steps::ProcessNumber,
};

/// The processes that are kept, and what each can be used for.
#[derive(Debug)]
pub(crate) struct Warm {
    /// How many may wait for a turn at once.
    limit: usize,
    kept: Vec<Kept>,
    /// Processes that were let go and have not left yet.
    leaving: Vec<Leaving>,
    /// Processes that are to be let go.
    released: Vec<ProcessNumber>,
}

/// A process that is kept.
#[derive(Debug)]
struct Kept {
    number: ProcessNumber,
    agent: AgentId,
    session: SessionId,
    cwd: PathBuf,
    likeness: Vec<String>,
    /// What the process was allowed to spend in all its life.
    budget_usd: Option<Usd>,
    spent_usd: Usd,
    /// The same in the coding agent's own words.
    total: Option<String>,
    /// The turn that it was started for.
    turn: Turn,
    first: StepId,
    /// Whether it waits for a turn.
    is_idle: bool,
    /// The highest was used last.
    used: u64,
}

/// A process that has no step any more. It may still spend money by itself.
#[derive(Debug)]
pub(crate) struct Leaving {
    number: ProcessNumber,
    /// A turn that it took.
    pub(crate) turn: Turn,
    /// Its first step, in whose folder it prints.
    pub(crate) first: StepId,
    /// What it had spent when its last turn ended, in the coding agent's own words.
    pub(crate) total: String,
}

impl Kept {
    fn leaving(&self) -> Option<Leaving> {
        let total = self.total.clone().filter(|_| self.is_idle)?;
        let (turn, first) = (self.turn.clone(), self.first.clone());
        Some(Leaving { number: self.number, turn, first, total })
    }

    /// Whether the process can take a turn that may spend `share`. The limit of the process is for all its life: what
    /// is left of it must not be more than the share, and not much less, or the turn would be stopped too soon.
    fn is_within(&self, share: Option<Usd>) -> bool {
        match (self.budget_usd, share) {
            (None, None) => true,
            (Some(own), Some(share)) => {
                let left = own.less(self.spent_usd);
                left <= share && left + left >= share
            }
            _ => false,
        }
    }
}

/// A kept process for a turn.
pub(crate) struct Found {
    pub(crate) number: ProcessNumber,
    /// What it had spent before.
    pub(crate) total: Option<String>,
}

impl Warm {
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), leaving: Vec::new(), released: Vec::new() }
    }

    /// Whether any process may be kept.
    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// A process that waits and can take this turn.
    pub(crate) fn find(&self, request: &TurnRequest<'_>, reuse: &Reuse) -> Option<Found> {
        let SessionPlan::Resume { id } = &request.turn.session else {
            return None;
        };
        let kept = self.kept.iter().find(|kept| {
            kept.is_idle
                && kept.session == *id
                && kept.cwd == request.cwd
                && kept.likeness == reuse.likeness
                && kept.is_within(request.turn.budget_usd)
        })?;
        Some(Found { number: kept.number, total: kept.total.clone() })
    }

    /// Notes that a process that waited has got a step.
    pub(crate) fn take(&mut self, number: ProcessNumber) {
        if let Some(kept) = self.get_mut(number) {
            kept.is_idle = false;
        }
    }

    /// Notes a process that has just been given its first turn.
    pub(crate) fn keep(
        &mut self,
        number: ProcessNumber,
        id: &StepId,
        request: &TurnRequest<'_>,
        reuse: Reuse,
    ) {
        self.kept.push(Kept {
            number,
            agent: id.agent.clone(),
            session: request.turn.session.id().clone(),
            cwd: request.cwd.to_owned(),
            likeness: reuse.likeness,
            budget_usd: request.turn.budget_usd,
            spent_usd: Usd::ZERO,
            total: None,
            turn: request.turn.clone(),
            first: id.clone(),
            is_idle: false,
            used: 0,
        });
    }

    fn get_mut(&mut self, number: ProcessNumber) -> Option<&mut Kept> {
        self.kept.iter_mut().find(|kept| kept.number == number)
    }

    /// Notes that a process is done with its step, well enough to be given another.
    pub(crate) fn turn_ended(
        &mut self,
        number: ProcessNumber,
        spent_usd: Usd,
        total: Option<String>,
    ) {
        let latest = self.kept.iter().map(|kept| kept.used).max().unwrap_or_default();
        if let Some(kept) = self.get_mut(number) {
            kept.is_idle = true;
            kept.spent_usd += spent_usd;
            kept.total = total;
            kept.used = latest + 1;
        }
        while self.kept.iter().filter(|kept| kept.is_idle).count() > self.limit {
            let oldest = self.kept.iter().filter(|kept| kept.is_idle).min_by_key(|l| l.used);
            let Some(number) = oldest.map(|kept| kept.number) else { return };
            self.retain(|kept| kept.number != number);
        }
    }

    /// Lets a process go unless it waits for a turn: its step did not come to a good end.
    pub(crate) fn drop_busy(&mut self, number: ProcessNumber) {
        self.retain(|kept| kept.number != number || kept.is_idle);
    }

    /// Lets processes go that lead one of these sessions and wait: another process needs it.
    pub(crate) fn drop_sessions(&mut self, plan: &SessionPlan) {
        let is_needed = |session: &SessionId| match plan {
            SessionPlan::Branch { from, id } => session == from || session == id,
            SessionPlan::Fresh { id } | SessionPlan::Resume { id } => session == id,
        };
        self.retain(|kept| !kept.is_idle || !is_needed(&kept.session));
    }

    /// Lets processes of `agent` go whose sessions it will not come back to.
    pub(crate) fn drop_forgotten(&mut self, run: &Run, agent: &AgentId) {
        let agent = run.agents.get(agent).ok_or(agent);
        self.retain(|kept| match agent {
            Ok(agent) if kept.agent == agent.id => !kept.is_idle || remembers(agent, &kept.session),
            Ok(_) => true,
            Err(gone) => kept.agent != *gone,
        });
    }

    /// Lets all go that wait.
    pub(crate) fn drop_idle(&mut self) {
        self.retain(|kept| !kept.is_idle);
    }

    /// The processes that are to be let go.
    pub(crate) fn released(&mut self) -> Vec<ProcessNumber> {
        std::mem::take(&mut self.released)
    }

    /// Notes that a process is gone. Returns what may be left to be paid for it.
    pub(crate) fn gone(&mut self, number: ProcessNumber) -> Option<Leaving> {
        self.retain(|kept| kept.number != number);
        let leaving = self.leaving.iter().position(|leaving| leaving.number == number);
        leaving.map(|index| self.leaving.swap_remove(index))
    }

    /// Lets the processes go for which `is_kept` does not hold.
    fn retain(&mut self, is_kept: impl Fn(&Kept) -> bool) {
        let gone = self.kept.iter().filter(|kept| !is_kept(kept));
        self.released.extend(gone.clone().map(|kept| kept.number));
        self.leaving.extend(gone.filter_map(Kept::leaving));
        self.kept.retain(is_kept);
    }
}

/// Whether `agent` may go on in `session`.
fn remembers(agent: &Agent, session: &SessionId) -> bool {
    let is_same =
        |of: &Session| matches!(of, Session::Open(id) | Session::Branch(id) if id == session);
    is_same(&agent.session)
        || agent.stack.iter().any(|frame| is_same(&frame.session))
        || agent.phase.work().is_some_and(|work| work.session() == Some(session))
}

/// Waits for the process that leads the session of `plan` to be gone, for a moment: only then does the
/// transcript tell what the session knows.
pub(crate) fn wait_until_left(folder: &Path, plan: &SessionPlan) {
    const PATIENCE: Duration = Duration::from_secs(1);
    const INTERVAL: Duration = Duration::from_millis(5);
    let Some(file) = File::open(lock_files(folder, plan).own).ok() else {
        return;
    };
    let deadline = Instant::now() + PATIENCE;
    while file.try_lock_shared().is_err() && Instant::now() < deadline {
        std::thread::sleep(INTERVAL);
    }
}

/// The lock files of a session: the process that leads it holds them.
pub(crate) fn lock_files(folder: &Path, plan: &SessionPlan) -> keeper::SessionFiles {
    let file = |id: &SessionId| folder.join("sessions").join(format!("{id}.lock"));
    keeper::SessionFiles {
        own: file(plan.id()),
        source: match plan {
            SessionPlan::Branch { from, .. } => Some(file(from)),
            SessionPlan::Fresh { .. } | SessionPlan::Resume { .. } => None,
        },
    }
}
