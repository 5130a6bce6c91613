//! Reads the output of running turns in a process that does not own their run. Nothing is changed.

use std::collections::BTreeMap;

use raymond_flow::{id::StepId, machine::Turn};

use crate::{
    agent::{Activity, Agents},
    layout::RunFiles,
    step::StepFolder,
    tails::{Tail, glance},
};

/// How often the output of a turn is read to find its latest activity; this limits what is read of it.
const GLANCES_MAX: usize = 256;

/// Reads the outputs of turns, each from where the last call stopped.
#[derive(Debug)]
pub struct Watch {
    files: RunFiles,
    tails: BTreeMap<StepId, Option<Tail>>,
}

impl Watch {
    /// Watches the run with these files.
    pub fn new(files: RunFiles) -> Self {
        Self { files, tails: BTreeMap::new() }
    }

    /// What the turn of step `id` has done since the last call. Output that exceeds one read comes with
    /// later calls.
    pub fn activities(&mut self, id: &StepId, turn: &Turn, agents: &Agents) -> Vec<Activity> {
        let Ok(agent) = agents.for_turn(turn) else { return Vec::new() };
        let tail = self.tails.entry(id.clone()).or_default();
        glance(tail, &StepFolder::new(&self.files.steps, id), agent)
    }

    /// What the turn of step `id` did last.
    pub fn latest(&mut self, id: &StepId, turn: &Turn, agents: &Agents) -> Option<Activity> {
        let mut latest = None;
        for _ in 0..GLANCES_MAX {
            latest = self.activities(id, turn, agents).pop().or(latest);
            let tail = self.tails.get_mut(id).and_then(Option::as_mut);
            if tail.is_none_or(Tail::is_at_end) {
                break;
            }
        }
        latest
    }

    /// Forgets every step for which `is_running` does not hold.
    pub fn retain(&mut self, is_running: impl Fn(&StepId) -> bool) {
        self.tails.retain(|id, _| is_running(id));
    }
}
