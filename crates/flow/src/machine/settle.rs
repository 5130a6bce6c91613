//! Derives what follows from the state of a run, whatever led to it.
//!
//! Called after every decision until it decides nothing more, and once when a run is opened: a crash
//! between a decision and what follows from it changes nothing.

use super::{Decision, Effect, Halt, Record, Run, Status, join};

/// The next decision that follows from the state itself, if any.
pub fn settle(run: &Run) -> Decision {
    if run.status != Status::Running {
        return Decision::default();
    }
    // Before the end is looked for: agents that join do not count as active.
    if let Some(decision) = join::next(run) {
        return decision;
    }
    if let Some(status) = outcome(run) {
        return Decision { records: vec![Record::Finished { status }], effects: Vec::new() };
    }
    let next = run.queue.values().next().and_then(|agent| run.agents.get(agent));
    match next {
        Some(agent) if run.is_open() && run.has_room_for(agent) => Decision {
            records: vec![Record::Called { agent: agent.id.clone() }],
            effects: vec![Effect::Prepare { agent: agent.id.clone() }],
        },
        _ => Decision::default(),
    }
}

/// How the run ends; `None` while an agent can continue.
fn outcome(run: &Run) -> Option<Status> {
    if run.counts.active == 0 && run.counts.asking == 0 {
        // Every agent has stopped by itself: their outcomes count, not the reason for which the others
        // would have had to stop.
        return Some(match (run.counts.failed, run.counts.held) {
            (0, 0) => Status::Completed,
            (0, _) => Status::Stopped,
            _ => Status::Failed,
        });
    }
    let halt = run.halt.as_ref()?;
    // On a full disk work cannot be committed. It stays in its worktree, and is committed when the run is resumed.
    let can_wait = matches!(halt, Halt::DiskLow { .. });
    let waits = if can_wait { run.counts.leaving } else { 0 };
    if run.counts.running > waits {
        return None;
    }
    Some(match halt {
        Halt::ScriptFailed { .. } => Status::Failed,
        // Like a run that ends by itself: a failure is not hidden by a limit.
        Halt::Limit(_) if run.counts.failed > 0 => Status::Failed,
        Halt::Limit(_) => Status::Stopped,
        Halt::Interrupted | Halt::UsageLimit { .. } | Halt::DiskLow { .. } | Halt::Asks => {
            Status::Paused
        }
        Halt::Cancelled => Status::Cancelled,
    })
}
