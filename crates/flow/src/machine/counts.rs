//! The number of agents in each phase.
//!
//! `apply` updates them, one agent at a time, so that a decision costs the same with one agent as with ten
//! thousand.

use crate::money::Usd;

use super::{Action, Agent, Phase};

/// The number of agents in each phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Neither failed nor held, and not waiting for a person, for workers or for a place.
    pub(super) active: usize,
    /// With a running step, or leaving a worktree.
    pub(super) running: usize,
    /// Those of them that leave a worktree.
    pub(super) leaving: usize,
    /// With a turn that counts towards `max_parallel`.
    pub(super) turns: usize,
    /// Waiting for a person's answer.
    pub(super) asking: usize,
    /// Those of them that were called and are not running yet.
    pub(super) called: usize,
    /// Failed.
    pub(super) failed: usize,
    /// Held by a limit.
    pub(super) held: usize,
    /// The limits of the turns in flight, added up.
    pub(super) reserved_usd: Usd,
}

impl Counts {
    pub(super) fn of<'a>(agents: impl Iterator<Item = &'a Agent>) -> Self {
        let mut counts = Self::default();
        for agent in agents {
            counts.add(&agent.phase);
        }
        counts
    }

    pub(super) fn add(&mut self, phase: &Phase) {
        for counter in self.of_phase(phase).into_iter().flatten() {
            *counter += 1;
        }
        self.reserved_usd += reserved(phase);
    }

    pub(super) fn remove(&mut self, phase: &Phase) {
        for counter in self.of_phase(phase).into_iter().flatten() {
            *counter -= 1;
        }
        self.reserved_usd = self.reserved_usd.less(reserved(phase));
    }

    /// The counters that an agent in `phase` is counted in.
    fn of_phase(&mut self, phase: &Phase) -> [Option<&mut usize>; 3] {
        let Self { active, running, leaving, turns, asking, called, failed, held, reserved_usd: _ } =
            self;
        match phase {
            Phase::Ready { .. }
            | Phase::Queued { .. }
            | Phase::Waiting { .. }
            | Phase::Moving { .. } => [Some(active), None, None],
            // Not over before its work is committed, also in a run that is halted.
            Phase::Leaving { .. } => [Some(active), Some(running), Some(leaving)],
            Phase::Called { .. } => [Some(active), Some(called), Some(turns)],
            Phase::Running { step, .. } => match step.action {
                Action::Turn(_) => [Some(active), Some(running), Some(turns)],
                Action::Script { .. } => [Some(active), Some(running), None],
            },
            Phase::Asking { .. } => [Some(asking), None, None],
            Phase::Failed { passed: false, .. } => [Some(failed), None, None],
            Phase::Held { .. } => [Some(held), None, None],
            // They stop when the agents that they wait for stop. A failure that was handed over no longer counts.
            Phase::Joining { .. } | Phase::Parked { .. } | Phase::Failed { passed: true, .. } => {
                [None, None, None]
            }
        }
    }
}

/// The limit of the turn in flight.
fn reserved(phase: &Phase) -> Usd {
    match phase.step().map(|step| &step.action) {
        Some(Action::Turn(turn)) => turn.budget_usd.unwrap_or_default(),
        Some(Action::Script { .. }) | None => Usd::ZERO,
    }
}
