//! Processes of coding agents that are kept for the next turn of their sessions.
//!
//! Starting a coding agent takes most of a second; another turn of a running one takes hardly any time.
//! This module decides what a kept process may be used for: only for its own session, in the same
//! directory, with the same model and permissions, and only if it cannot spend more than is left of the
//! budget.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use raymond_flow::{
    id::{AgentId, SessionId, StepId},
    machine::{Run, SessionPlan, Turn},
    money::Usd,
};

use crate::{agent::TurnRequest, exec::steps::ProcessNumber, keeper};

/// The kept processes, and what each can be used for.
#[derive(Debug)]
pub(crate) struct Warm {
    /// The most idle processes that are kept.
    limit: usize,
    kept: Vec<Kept>,
    /// Processes that were released and have not ended yet.
    leaving: Vec<Leaving>,
    /// Processes to release.
    released: Vec<ProcessNumber>,
}

/// A kept process.
#[derive(Debug)]
struct Kept {
    number: ProcessNumber,
    agent: AgentId,
    session: SessionId,
    cwd: PathBuf,
    likeness: Vec<String>,
    /// What the process may spend in its whole life.
    budget_usd: Option<Usd>,
    spent_usd: Usd,
    /// The same in the coding agent's own format.
    total: Option<String>,
    /// The turn that it was started for.
    turn: Turn,
    first: StepId,
    /// Whether it is idle.
    is_idle: bool,
    /// The process with the highest number was used last.
    used: u64,
}

/// A released process. It may still spend money by itself.
#[derive(Debug)]
pub(crate) struct Leaving {
    number: ProcessNumber,
    /// One of its turns.
    pub(crate) turn: Turn,
    /// Its first step, to whose directory it prints.
    pub(crate) first: StepId,
    /// What it had spent at the end of its last turn, in the coding agent's own format.
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

    /// Whether processes are kept at all.
    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    /// An idle process that can take this turn.
    pub(crate) fn find(&self, request: &TurnRequest<'_>, reuse: &[String]) -> Option<Found> {
        let SessionPlan::Resume { id } = &request.turn.session else {
            return None;
        };
        let kept = self.kept.iter().find(|kept| {
            kept.is_idle
                && kept.session == *id
                && kept.cwd == request.cwd
                && kept.likeness == reuse
                && kept.is_within(request.turn.budget_usd)
        })?;
        Some(Found { number: kept.number, total: kept.total.clone() })
    }

    /// Records that an idle process was given a step.
    pub(crate) fn take(&mut self, number: ProcessNumber) {
        if let Some(kept) = self.get_mut(number) {
            kept.is_idle = false;
        }
    }

    /// Adds a process that was just given its first turn.
    pub(crate) fn keep(
        &mut self,
        number: ProcessNumber,
        id: &StepId,
        request: &TurnRequest<'_>,
        likeness: Vec<String>,
    ) {
        self.kept.push(Kept {
            number,
            agent: id.agent.clone(),
            session: request.turn.session.id().clone(),
            cwd: request.cwd.to_owned(),
            likeness,
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

    /// Records that a process has finished its step and can be given another.
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

    /// Releases a process unless it is idle: its step failed.
    pub(crate) fn drop_busy(&mut self, number: ProcessNumber) {
        self.retain(|kept| kept.number != number || kept.is_idle);
    }

    /// Releases idle processes that use a session of `plan`: another process needs it.
    pub(crate) fn drop_sessions(&mut self, plan: &SessionPlan) {
        let is_needed = |session: &SessionId| match plan {
            SessionPlan::Branch { from, id, .. } => session == from || session == id,
            SessionPlan::Fresh { id } | SessionPlan::Resume { id } => session == id,
        };
        self.retain(|kept| !kept.is_idle || !is_needed(&kept.session));
    }

    /// Releases processes of `agent` whose sessions it will not return to.
    pub(crate) fn drop_forgotten(&mut self, run: &Run, agent: &AgentId) {
        let agent = run.agents.get(agent).ok_or(agent);
        self.retain(|kept| match agent {
            Ok(agent) if kept.agent == agent.id => !kept.is_idle || agent.remembers(&kept.session),
            Ok(_) => true,
            Err(gone) => kept.agent != *gone,
        });
    }

    /// Releases all idle processes.
    pub(crate) fn drop_idle(&mut self) {
        self.retain(|kept| !kept.is_idle);
    }

    /// The processes to release.
    pub(crate) fn released(&mut self) -> Vec<ProcessNumber> {
        std::mem::take(&mut self.released)
    }

    /// Records that a process is gone. Returns it if its last cost may still have to be read.
    pub(crate) fn gone(&mut self, number: ProcessNumber) -> Option<Leaving> {
        self.retain(|kept| kept.number != number);
        let leaving = self.leaving.iter().position(|leaving| leaving.number == number);
        leaving.map(|index| self.leaving.swap_remove(index))
    }

    /// Releases the processes for which `is_kept` does not hold.
    fn retain(&mut self, is_kept: impl Fn(&Kept) -> bool) {
        let gone = self.kept.iter().filter(|kept| !is_kept(kept));
        self.released.extend(gone.clone().map(|kept| kept.number));
        self.leaving.extend(gone.filter_map(Kept::leaving));
        self.kept.retain(is_kept);
    }
}

/// Waits a moment for the process that uses the session of `plan` to end: only then is the transcript of the
/// session complete.
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

/// The lock files of a session: the process that uses it holds them.
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

#[cfg(test)]
mod tests;
