//! Divides the budget among the turns that run at the same time.
//!
//! Each turn has a limit of its own, its share, which is reserved while it runs. What was spent and what is reserved
//! never add up to more than the budget, so a run exceeds it at most by the one model request with which each
//! turn in flight crosses its own limit. What a turn does not spend is free again when it ends, and a turn
//! that has spent its share is continued with more.

use crate::money::Usd;

use super::{Agent, Run};

/// The least share is this part of the budget: smaller ones would be spent on reading the prompt. A turn that cannot
/// have so much waits until another one ends, so at most this many run at once under a budget.
const SHARES_MAX: u64 = 50;

/// What a turn may spend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// There is no budget.
    Unlimited,
    /// At most this.
    Limited(Usd),
    /// Nothing now: the turns in flight have reserved nearly everything.
    NoneFree,
}

impl Run {
    /// The share of a turn that starts now: what is free, divided by the number of agents that may take a turn
    /// beside those in flight. The only agent gets everything.
    pub(super) fn share(&self) -> Share {
        let (Some(budget), Some(left)) = (self.limits.budget_usd, self.budget_left()) else {
            return Share::Unlimited;
        };
        let reserved = self.counts.reserved_usd;
        let free = left.less(reserved);
        let least = budget.divided_by(SHARES_MAX).max(Usd::SMALLEST);
        if free < least && reserved > Usd::ZERO {
            return Share::NoneFree;
        }
        let in_flight = self.counts.turns - self.counts.called;
        let agents = self.counts.active - in_flight;
        let turns = agents.min(self.places().saturating_sub(in_flight)).max(1);
        let part = free.divided_by(u64::try_from(turns).unwrap_or(u64::MAX));
        // Alone, a turn gets what is left, however little: its first request spends it, and the run stops.
        Share::Limited(part.max(least).min(free))
    }

    /// Whether a queued turn of `agent` may start: there is a place, and money for it.
    pub(super) fn has_room_for(&self, agent: &Agent) -> bool {
        self.has_place_for(agent) && self.share() != Share::NoneFree
    }
}
