//! Processes of coding agents that are kept for the next turn of their sessions.
//!
//! Starting a coding agent costs most of a second; a further turn of one that runs costs hardly
//! anything. What a kept process may be used for is decided here: only for the very session that it
//! leads, in the same directory, with the same model and permissions, and only if it cannot spend
//! more than is left.

use std::{
    fs::File,
    io,
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
    inbox::{Message, Outbox},
    keeper::{self, Link},
};

/// The processes that are kept.
#[derive(Debug)]
pub(crate) struct Warm {
    /// How many may wait for a turn at once.
    limit: usize,
    lines: Vec<Line>,
    /// Processes that were let go and have not left yet.
    leaving: Vec<Leaving>,
    /// How many there have been.
    count: u32,
    outbox: Outbox,
}

/// The line to a process that is kept. It ends when the line is dropped.
#[derive(Debug)]
struct Line {
    number: u32,
    agent: AgentId,
    session: SessionId,
    cwd: PathBuf,
    likeness: Vec<String>,
    /// What the process was allowed to spend in all its life.
    budget_usd: Option<Usd>,
    spent_usd: Usd,
    /// The same in the coding agent's own words.
    total: Option<String>,
    link: Link,
    /// The turn that it was started for.
    turn: Turn,
    first: StepId,
    /// The step that it has; nothing while it waits.
    step: Option<StepId>,
    /// The highest was used last.
    used: u64,
}

/// A process that has no step any more. It may still spend money by itself.
#[derive(Debug)]
pub(crate) struct Leaving {
    number: u32,
    /// A turn that it took.
    pub(crate) turn: Turn,
    /// Its first step, in whose folder it prints.
    pub(crate) first: StepId,
    /// What it had spent when its last turn ended, in the coding agent's own words.
    pub(crate) total: String,
}

impl Drop for Line {
    fn drop(&mut self) {
        // Another end of it is held by the thread that waits for the process to go.
        self.link.close();
    }
}

impl Line {
    fn is_idle(&self) -> bool {
        self.step.is_none()
    }

    fn leaving(&self) -> Option<Leaving> {
        let total = self.total.clone().filter(|_| self.is_idle())?;
        let (turn, first) = (self.turn.clone(), self.first.clone());
        Some(Leaving { number: self.number, turn, first, total })
    }

    /// Whether the process can be trusted to stop when the run's budget is spent.
    fn is_within(&self, budget_left_usd: Option<Usd>) -> bool {
        match (self.budget_usd, budget_left_usd) {
            (None, None) => true,
            (Some(own), Some(left)) => own.less(self.spent_usd) <= left,
            _ => false,
        }
    }
}

/// A kept process for a turn.
pub(crate) struct Found {
    number: u32,
    /// What it had spent before.
    pub(crate) total: Option<String>,
}

impl Warm {
    pub(crate) fn new(limit: usize, outbox: Outbox) -> Self {
        Self { limit, lines: Vec::new(), leaving: Vec::new(), count: 0, outbox }
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
        let line = self.lines.iter().find(|line| {
            line.is_idle()
                && line.session == *id
                && line.cwd == request.cwd
                && line.likeness == reuse.likeness
                && line.is_within(request.budget_left_usd)
        })?;
        Some(Found { number: line.number, total: line.total.clone() })
    }

    /// Hands a step to a process that waits.
    pub(crate) fn hand_over(
        &mut self,
        found: &Found,
        id: &StepId,
        launch: &keeper::Launch,
    ) -> io::Result<()> {
        let number = found.number;
        let line = self.lines.iter_mut().find(|line| line.number == number);
        let line = line.ok_or(io::ErrorKind::NotFound)?;
        line.link.send(launch)?;
        line.step = Some(id.clone());
        Ok(())
    }

    /// Notes a process that has just been given its first turn.
    pub(crate) fn keep(
        &mut self,
        link: Link,
        id: &StepId,
        request: &TurnRequest<'_>,
        reuse: Reuse,
    ) -> io::Result<()> {
        self.count += 1;
        let (number, outbox) = (self.count, self.outbox.clone());
        let wait = link.wait_until_gone()?;
        let spawned = std::thread::Builder::new().spawn(move || {
            wait();
            outbox.send(&Message::LineGone(number));
        });
        if spawned.is_err() {
            // Nobody would notice that it is gone: it has this turn only.
            return Ok(());
        }
        self.lines.push(Line {
            number,
            agent: id.agent.clone(),
            session: request.turn.session.id().clone(),
            cwd: request.cwd.to_owned(),
            likeness: reuse.likeness,
            budget_usd: request.budget_left_usd,
            spent_usd: Usd::ZERO,
            total: None,
            link,
            turn: request.turn.clone(),
            first: id.clone(),
            step: Some(id.clone()),
            used: 0,
        });
        Ok(())
    }

    /// Notes that the process of a step is done with it, well enough to be given another.
    pub(crate) fn turn_ended(&mut self, id: &StepId, spent_usd: Usd, total: Option<String>) {
        let latest = self.lines.iter().map(|line| line.used).max().unwrap_or_default();
        if let Some(line) = self.lines.iter_mut().find(|line| line.step.as_ref() == Some(id)) {
            line.step = None;
            line.spent_usd += spent_usd;
            line.total = total;
            line.used = latest + 1;
        }
        while self.lines.iter().filter(|line| line.is_idle()).count() > self.limit {
            let oldest = self.lines.iter().filter(|line| line.is_idle()).min_by_key(|l| l.used);
            let Some(number) = oldest.map(|line| line.number) else { return };
            self.retain(|line| line.number != number);
        }
    }

    /// Lets the process of a step go.
    pub(crate) fn drop_step(&mut self, id: &StepId) {
        self.retain(|line| line.step.as_ref() != Some(id));
    }

    /// Lets processes go that lead one of these sessions and wait: somebody else needs it.
    pub(crate) fn drop_sessions(&mut self, plan: &SessionPlan) {
        let is_needed = |session: &SessionId| match plan {
            SessionPlan::Branch { from, id } => session == from || session == id,
            SessionPlan::Fresh { id } | SessionPlan::Resume { id } => session == id,
        };
        self.retain(|line| !line.is_idle() || !is_needed(&line.session));
    }

    /// Lets processes of `agent` go whose sessions it will not come back to.
    pub(crate) fn drop_forgotten(&mut self, run: &Run, agent: &AgentId) {
        let agent = run.agents.get(agent).ok_or(agent);
        self.retain(|line| match agent {
            Ok(agent) if line.agent == agent.id => {
                !line.is_idle() || remembers(agent, &line.session)
            }
            Ok(_) => true,
            Err(gone) => line.agent != *gone,
        });
    }

    /// Lets all go that wait.
    pub(crate) fn drop_idle(&mut self) {
        self.retain(|line| !line.is_idle());
    }

    /// Notes that a process is gone; tells which step it was to have had, or what may be left to be
    /// paid for it.
    pub(crate) fn gone(&mut self, number: u32) -> (Option<StepId>, Option<Leaving>) {
        let of_line = self.lines.iter().find(|line| line.number == number);
        let step = of_line.and_then(|line| line.step.clone());
        self.retain(|line| line.number != number);
        let leaving = self.leaving.iter().position(|leaving| leaving.number == number);
        (step, leaving.map(|index| self.leaving.swap_remove(index)))
    }

    /// Lets the processes go for which `is_kept` does not hold.
    fn retain(&mut self, is_kept: impl Fn(&Line) -> bool) {
        let gone = self.lines.iter().filter(|line| !is_kept(line));
        self.leaving.extend(gone.filter_map(Line::leaving));
        self.lines.retain(is_kept);
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

/// Waits for whoever leads the session of `plan` to be gone, for a moment: only then does its
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

/// The lock file of a session: whoever leads it holds it.
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
