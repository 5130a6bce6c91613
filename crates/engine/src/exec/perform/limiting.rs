//! The provider's usage limit: looked for before each turn, told to the other runs of the user, waited for.

use std::time::Duration;

use raymond_flow::{
    machine::{FailureClass, Turn, TurnFailure},
    turn::Outcome,
};

use super::Performer;
use crate::{
    run::{
        timers::Timer,
        usage_limit::{self, SharedLimit},
    },
    sys::clock,
};

/// How often a wait looks at the clock, which may have been set or have counted the hours in which the machine slept,
/// and at what other runs know.
const LOOK_INTERVAL: Duration =
    if cfg!(test) { Duration::from_millis(20) } else { Duration::from_secs(5) };

/// The waits of a run for usage limits.
#[derive(Debug, Default)]
pub(super) struct LimitWaits {
    /// How often all agents have waited for a limit that this run has reached, since the last answered turn.
    count: u32,
    /// A limit that all runs know of, for the next wait.
    known: Option<KnownLimit>,
    /// The account whose limit is waited for, if other runs know of it.
    account: Option<String>,
    /// When the wait is over, in milliseconds since 1970.
    until_ms: u64,
}

#[derive(Debug)]
struct KnownLimit {
    account: String,
    until_ms: u64,
    /// Whether this run has reached it.
    is_own: bool,
}

impl Performer<'_> {
    /// The limit because of which a turn would be refused, as far as other runs know.
    pub(super) fn known_limit(&mut self, turn: &Turn) -> Option<SharedLimit> {
        self.limit_waits.known = None;
        let account = self.account(turn).filter(|_| !self.means.defies_limit)?;
        let limit = self.means.shared_limits.of(&account, clock::now_ms())?;
        let until_ms = limit.until_ms;
        self.limit_waits.known = Some(KnownLimit { account, until_ms, is_own: false });
        Some(limit)
    }

    /// Tells the other runs what the outcome of a turn says about the limit.
    pub(super) fn heed_limit(&mut self, turn: &Turn, outcome: &Outcome) {
        match outcome {
            Outcome::Reply { .. } => {
                self.limit_waits.count = 0;
                let defied = std::mem::take(&mut self.means.defies_limit);
                if let Some(account) = self.account(turn).filter(|_| defied) {
                    self.means.shared_limits.lifted(&account);
                }
            }
            Outcome::Failed(TurnFailure {
                class: FailureClass::UsageLimit { resets_at }, ..
            }) => {
                self.means.defies_limit = false;
                self.limit_waits.known = self.tell_limit(turn, *resets_at);
            }
            _ => {}
        }
    }

    /// Tells the other runs of a limit that this one has reached. A time in the past is none that they can wait for.
    fn tell_limit(&self, turn: &Turn, resets_at: Option<u64>) -> Option<KnownLimit> {
        let now_ms = clock::now_ms();
        if resets_at.is_some_and(|at| at.saturating_mul(1000) <= now_ms) {
            return None;
        }
        let account = self.account(turn)?;
        let until_ms = self.own_until_ms(resets_at, now_ms);
        let limit = SharedLimit { resets_at, until_ms };
        let is_told = self.means.shared_limits.reached(&account, limit, now_ms);
        is_told.then_some(KnownLimit { account, until_ms, is_own: true })
    }

    /// Waits for the limit that this run has reached or knows of.
    pub(crate) fn wait_for_usage_limit(&mut self, resets_at: Option<u64>) {
        // The wait may take hours.
        self.warm.drop_idle();
        self.let_released_go();
        let now_ms = clock::now_ms();
        let until_ms = self.own_until_ms(resets_at, now_ms);
        let waits = &mut self.limit_waits;
        // Coding agents that stand in for each other have limits of their own: the first that is lifted ends the wait.
        let earlier = (waits.until_ms > now_ms).then(|| (waits.account.take(), waits.until_ms));
        if let Some(KnownLimit { account, until_ms, is_own }) = waits.known.take() {
            (waits.account, waits.until_ms) = (Some(account), until_ms);
            waits.count += u32::from(is_own);
        } else {
            (waits.account, waits.until_ms) = (None, until_ms);
            waits.count += 1;
        }
        if let Some(earlier) = earlier.filter(|(_, until_ms)| *until_ms < waits.until_ms) {
            (waits.account, waits.until_ms) = earlier;
        }
        self.look_at_limit_later();
    }

    /// Whether the wait for the limit is over. If not, it is looked at again.
    pub(crate) fn is_limit_over(&mut self) -> bool {
        let now_ms = clock::now_ms();
        let account = self.limit_waits.account.as_ref();
        let is_lifted =
            account.is_some_and(|account| self.means.shared_limits.of(account, now_ms).is_none());
        let is_over = self.means.is_hurried || is_lifted || now_ms >= self.limit_waits.until_ms;
        if is_over {
            self.limit_waits.until_ms = 0;
        } else {
            self.look_at_limit_later();
        }
        is_over
    }

    fn look_at_limit_later(&mut self) {
        let left_ms = self.limit_waits.until_ms.saturating_sub(clock::now_ms());
        let wait = Duration::from_millis(left_ms).min(LOOK_INTERVAL);
        let delay = if self.means.is_hurried { Duration::ZERO } else { wait };
        self.timers.set(delay, Timer::UsageLimit);
    }

    fn own_until_ms(&self, resets_at: Option<u64>, now_ms: u64) -> u64 {
        let (margin, count) = (self.means.reset_margin, self.limit_waits.count);
        let wait = usage_limit::wait(resets_at, now_ms, margin, count);
        now_ms.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
    }

    fn account(&self, turn: &Turn) -> Option<String> {
        self.means.agents.for_turn(turn).ok()?.account(&turn.settings)
    }
}
