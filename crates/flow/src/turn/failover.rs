//! Which coding agent takes a turn while the provider of another one is not available.
//!
//! A turn that begins a session goes to the next coding agent of the order that is available. A turn in a session waits,
//! because only the coding agent of that session can resume it; with `handoff` it begins a session of the next one, which
//! is given a summary.

use crate::{
    id::SessionId,
    machine::{Run, SessionPlan, StandIn, TurnSettings},
};

/// The coding agent and the session of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) settings: TurnSettings,
    pub(super) plan: SessionPlan,
    pub(super) stand_in: Option<StandIn>,
}

/// Who takes a turn that asks for `settings` and `plan`; `None` if it has to wait. `owner` is the coding agent of the
/// session, `fresh` the id of a new one, `can_take` whether a coding agent can take a turn.
pub(super) fn choose(
    run: &Run,
    owner: Option<&str>,
    (settings, plan): (TurnSettings, SessionPlan),
    fresh: &SessionId,
    can_take: impl Fn(&TurnSettings, &SessionPlan) -> bool,
) -> Option<Choice> {
    let failover = &run.settings.failover;
    let is_listed = |name: &str| failover.order.iter().any(|listed| listed == name);
    let Some(asked) = settings.agent.clone().filter(|name| is_listed(name)) else {
        return Some(Choice { settings, plan, stand_in: None });
    };
    let with = |name: &str| TurnSettings {
        agent: Some(name.to_owned()),
        // They are words of the coding agent that was asked for.
        model: None,
        effort: None,
        ..settings.clone()
    };
    let stand_in = |handoff_from| Some(StandIn { of: asked.clone(), handoff_from });
    let begins = matches!(plan, SessionPlan::Fresh { .. });
    // A session that another one began in its place stays with that one.
    let owner = owner.filter(|owner| !begins && is_listed(owner) && *owner != asked);
    let own = match owner {
        Some(owner) => {
            Choice { settings: with(owner), plan: plan.clone(), stand_in: stand_in(None) }
        }
        None => Choice { settings: settings.clone(), plan: plan.clone(), stand_in: None },
    };
    let name = own.settings.agent.as_deref().unwrap_or_default();
    if !run.stopped.contains_key(name) {
        return Some(own);
    }
    let handoff_from = match &plan {
        SessionPlan::Fresh { .. } => None,
        SessionPlan::Resume { id } | SessionPlan::Branch { from: id, .. } => Some(id.clone()),
    };
    if handoff_from.is_some() && !failover.handoff {
        return None;
    }
    let plan = if begins { plan } else { SessionPlan::Fresh { id: fresh.clone() } };
    let mut others = failover.order.iter().filter(|other| !run.stopped.contains_key(*other));
    let settings = others.find_map(|other| {
        let settings = if *other == asked { settings.clone() } else { with(other) };
        can_take(&settings, &plan).then_some(settings)
    })?;
    Some(Choice { settings, plan, stand_in: stand_in(handoff_from) })
}
