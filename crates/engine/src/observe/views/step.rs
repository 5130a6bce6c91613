//! Steps as JSON: one by one, and as the bars of a timeline.

use std::collections::BTreeMap;

use raymond_flow::{
    id::{AgentId, StepId},
    view::{RunView, StepFacts},
};
use serde_json::Value;

use super::{shown, value};

/// How many lanes a timeline has.
const LANES_MAX: usize = 500;

/// The name of a step, as its directory has it.
pub fn step_name(id: &StepId) -> String {
    format!("{}.{}", id.agent, id.number)
}

/// The steps between two times, in milliseconds since 1970, as one lane for each agent. If there are more than
/// `bars_max`, neighbours of a lane are merged.
pub fn lanes(overview: &RunView, from: u64, to: u64, bars_max: usize) -> Value {
    let is_within = |step: &&StepFacts| {
        step.started_at <= to && step.ended_at.is_none_or(|ended| ended >= from)
    };
    let mut by_agent: BTreeMap<&AgentId, Vec<&StepFacts>> = BTreeMap::new();
    let mut count = 0;
    for step in overview.steps.iter().filter(is_within) {
        by_agent.entry(&step.agent).or_default().push(step);
        count += 1;
    }
    // So wide that at most `bars_max` bars fit into all lanes, each on average.
    let lanes = by_agent.len().max(1);
    let places = (bars_max / lanes).max(1) as u64;
    let apart_ms = if count <= bars_max { 0 } else { to.saturating_sub(from) / places + 1 };
    let born = |agent: &AgentId| overview.agents.get(agent).map_or(u64::MAX, |facts| facts.born);
    let mut lanes: Vec<_> = by_agent.into_iter().collect();
    lanes.sort_by_key(|(agent, _)| born(agent));
    let left_out = lanes.len().saturating_sub(LANES_MAX);
    let lanes = lanes.into_iter().take(LANES_MAX).map(|(agent, steps)| {
        let facts = overview.agents.get(agent);
        shown::Lane {
            agent: agent.clone(),
            parent: facts.and_then(|facts| facts.parent.clone()),
            born: facts.map(|facts| facts.born),
            is_ended: facts.is_none_or(|facts| facts.ended.is_some()),
            bars: bars(&steps, apart_ms),
        }
    });
    value(&shown::Timeline { from, to, lanes: lanes.collect(), lanes_left_out: left_out })
}

/// One bar for each step, or for steps that begin in the same stretch of `apart_ms`.
fn bars(steps: &[&StepFacts], apart_ms: u64) -> Vec<shown::Bar> {
    let mut bars: Vec<shown::Bar> = Vec::new();
    for step in steps {
        let is_near = |bar: &&mut shown::Bar| {
            apart_ms > 0 && step.started_at / apart_ms == bar.from / apart_ms
        };
        if let Some(bar) = bars.last_mut().filter(is_near) {
            bar.steps += 1;
            bar.to = step.ended_at;
            bar.cost_usd += step.cost_usd.unwrap_or_default();
        } else {
            bars.push(shown::Bar {
                step: step.step.clone(),
                steps: 1,
                from: step.started_at,
                to: step.ended_at,
                state: step.state.clone(),
                kind: step.kind,
                cost_usd: step.cost_usd.unwrap_or_default(),
                end: step.end,
            });
        }
    }
    bars
}
