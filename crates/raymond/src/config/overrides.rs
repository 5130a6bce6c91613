//! What files, the environment or the command line say about runs, and the one place where that is applied.

use raymond_engine::run::door::LimitChange;
use raymond_flow::{
    machine::{Limits, OnAsk, OnUsageLimit, Settings},
    money::Usd,
    source::Timeout,
};

/// The settings that are given; the others are `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overrides {
    pub(crate) agent: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) effort: Option<String>,
    pub(crate) timeout: Option<Timeout>,
    pub(crate) skip_permissions: Option<bool>,
    pub(crate) ask: Option<OnAsk>,
    pub(crate) no_wait: Option<bool>,
    pub(crate) usage_max: Option<u32>,
    pub(crate) failover_order: Option<Vec<String>>,
    pub(crate) failover_handoff: Option<bool>,
    pub(crate) limits: LimitChange,
    // A run does not remember these: they are read each time.
    pub(crate) claude_program: Option<String>,
    pub(crate) disk_reserve: Option<u64>,
    pub(crate) keep_script_steps: Option<usize>,
    pub(crate) notify_command: Option<Vec<String>>,
    pub(crate) notify_on: Option<Vec<String>>,
    pub(crate) reset_margin: Option<u64>,
    pub(crate) serve_max_budget: Option<Usd>,
    pub(crate) warm: Option<usize>,
}

impl Overrides {
    /// Changes what a run remembers.
    pub(crate) fn apply(&self, settings: &mut Settings, limits: &mut Limits) {
        fn set<T: Clone>(slot: &mut T, given: Option<&T>) {
            if let Some(given) = given {
                slot.clone_from(given);
            }
        }
        for (slot, given) in [
            (&mut settings.agent, &self.agent),
            (&mut settings.model, &self.model),
            (&mut settings.effort, &self.effort),
        ] {
            set(slot, given.is_some().then_some(given));
        }
        settings.timeout = self.timeout.or(settings.timeout);
        set(&mut settings.skip_permissions, self.skip_permissions.as_ref());
        set(&mut settings.on_ask, self.ask.as_ref());
        if self.no_wait == Some(true) {
            settings.on_usage_limit = OnUsageLimit::Pause;
            if settings.on_ask == OnAsk::Wait {
                settings.on_ask = OnAsk::Pause;
            }
        }
        if let Some(percent) = self.usage_max {
            settings.usage_max = (percent > 0).then_some(percent);
        }
        set(&mut settings.failover.order, self.failover_order.as_ref());
        set(&mut settings.failover.handoff, self.failover_handoff.as_ref());
        *limits = self.limits.apply(limits.clone());
    }
}
