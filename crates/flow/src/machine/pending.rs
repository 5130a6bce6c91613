//! The effects that a run waits for, derived from its state.
//!
//! Effects are not journalled. The orchestrator that opens a run asks here which ones to perform (again).

use crate::id::StepId;

use super::{Effect, Phase, Run, Status, ask, worktree};

/// All outstanding effects, in the order of the agents' birth.
pub fn pending(run: &Run) -> Vec<Effect> {
    if run.status != Status::Running {
        return Vec::new();
    }
    let mut effects = Vec::new();
    if let Some(limit) = run.usage_limit {
        effects.push(Effect::WaitForUsageLimit { resets_at: limit.resets_at });
    }
    for limit in run.stopped.values() {
        effects.push(Effect::WaitForUsageLimit { resets_at: limit.resets_at });
    }
    for agent in run.agents_by_birth() {
        let id = &agent.id;
        match &agent.phase {
            Phase::Running { step, .. } => {
                effects.push(Effect::Reattach {
                    id: StepId { agent: id.clone(), number: step.number },
                    step: step.clone(),
                });
                effects.extend(agent.deliveries());
            }
            Phase::Ready { .. } | Phase::Called { .. } | Phase::Moving { .. } if run.is_open() => {
                effects.push(agent.first_effect());
            }
            Phase::Leaving { .. } => effects.extend(worktree::save(run, id)),
            Phase::Waiting { delay_ms, .. } if run.halt.is_none() => {
                effects.push(Effect::Wait { agent: id.clone(), delay_ms: *delay_ms });
            }
            Phase::Asking { number, question } if run.halt.is_none() => {
                effects.push(ask::effect(agent, *number, question));
            }
            // `settle` starts a queued turn, completes a join and places a worker; an agent that is held or failed
            // waits for the user.
            Phase::Ready { .. }
            | Phase::Called { .. }
            | Phase::Moving { .. }
            | Phase::Waiting { .. }
            | Phase::Queued { .. }
            | Phase::Joining { .. }
            | Phase::Parked { .. }
            | Phase::Asking { .. }
            | Phase::Held { .. }
            | Phase::Failed { .. } => {}
        }
    }
    effects
}
