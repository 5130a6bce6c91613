//! Steps as JSON: one by one, and as the bars of a timeline.

use std::collections::BTreeMap;

use raymond_flow::id::{AgentId, StepId};
use serde_json::{Value, json};

use crate::observe::overview::{Overview, StepFacts};

/// How many lanes a timeline has.
const LANES_MAX: usize = 500;

/// The name of a step, as its directory has it.
pub fn step_name(id: &StepId) -> String {
    format!("{}.{}", id.agent, id.number)
}

/// One step. `index` is its place among all steps of the run.
pub fn step(facts: &StepFacts, index: usize) -> Value {
    let end = facts.end.as_ref();
    let is_over = facts.ended_ms.is_some();
    json!({
        "step": step_name(&facts.id), "agent": facts.id.agent, "number": facts.id.number,
        "index": index, "state": facts.state, "kind": kind(facts), "attempt": facts.attempt,
        "started_at": facts.started_ms, "ended_at": facts.ended_ms,
        "duration_ms": facts.duration_ms, "cost_usd": is_over.then_some(facts.cost_usd),
        "tokens": is_over.then_some(facts.tokens), "model": facts.model, "version": facts.version,
        "end": end.map(|end| end.word), "tag": end.and_then(|end| end.tag),
        "to": end.and_then(|end| end.to.as_ref()), "worker": end.and_then(|end| end.worker.as_ref()),
        "text": end.and_then(|end| end.text.as_ref()), "denied": facts.denied,
        "offset": facts.offset,
    })
}

fn kind(facts: &StepFacts) -> &'static str {
    if facts.is_turn { "turn" } else { "script" }
}

/// One bar of a lane: a step, or neighbours that would be too short to be seen.
struct Bar<'a> {
    first: &'a StepFacts,
    steps: u64,
    /// `None` while its last step runs.
    to: Option<u64>,
    cost_usd: raymond_flow::money::Usd,
}

/// The steps between two times, in milliseconds since 1970, as one lane for each agent. If there are more than
/// `bars_max`, neighbours of a lane are merged.
pub fn lanes(overview: &Overview, from: u64, to: u64, bars_max: usize) -> Value {
    let is_within = |step: &&StepFacts| {
        step.started_ms <= to && step.ended_ms.is_none_or(|ended| ended >= from)
    };
    let mut by_agent: BTreeMap<&AgentId, Vec<&StepFacts>> = BTreeMap::new();
    let mut count = 0;
    for step in overview.steps.iter().filter(is_within) {
        by_agent.entry(&step.id.agent).or_default().push(step);
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
        json!({
            "agent": agent, "parent": facts.and_then(|facts| facts.parent.as_ref()),
            "born": facts.map(|facts| facts.born),
            "is_ended": facts.is_none_or(|facts| facts.ended.is_some()),
            "bars": bars(&steps, apart_ms).iter().map(bar).collect::<Vec<_>>(),
        })
    });
    let lanes: Vec<_> = lanes.collect();
    json!({ "from": from, "to": to, "lanes": lanes, "lanes_left_out": left_out })
}

/// Merges steps that begin in the same stretch of `apart_ms`.
fn bars<'a>(steps: &[&'a StepFacts], apart_ms: u64) -> Vec<Bar<'a>> {
    let mut bars: Vec<Bar<'a>> = Vec::new();
    for step in steps {
        let near = |bar: &Bar<'_>| {
            apart_ms > 0 && step.started_ms / apart_ms == bar.first.started_ms / apart_ms
        };
        match bars.last_mut().filter(|bar| near(bar)) {
            Some(bar) => {
                bar.steps += 1;
                bar.to = step.ended_ms;
                bar.cost_usd += step.cost_usd;
            }
            None => {
                bars.push(Bar {
                    first: step,
                    steps: 1,
                    to: step.ended_ms,
                    cost_usd: step.cost_usd,
                });
            }
        }
    }
    bars
}

fn bar(bar: &Bar<'_>) -> Value {
    let Bar { first, steps, to, cost_usd } = bar;
    json!({
        "step": step_name(&first.id), "steps": steps, "from": first.started_ms, "to": to,
        "state": first.state, "kind": kind(first), "cost_usd": cost_usd,
        "end": first.end.as_ref().map(|end| end.word),
    })
}
