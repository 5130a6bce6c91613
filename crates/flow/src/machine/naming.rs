//! Names for forked agents: `{parent}_{abbreviation}{counter}`.
//!
//! The abbreviation is the first six characters of the worker's state in lower case, and every
//! parent counts its own forks, so a *regular* name (its abbreviation has no underscore and does
//! not end in a digit) can be read back in one way only and is never given twice.
//!
//! Other names can be read in several ways: `main_step11` may be fork 1 to `STEP1` or fork 11 to
//! `STEP`; `main_w1_x2` may be `main`'s fork 2 to `W1_X` or `main_w1`'s fork 2 to `X`. These
//! *irregular* names are remembered, and a name that could be one already given is passed over by
//! counting on. Normally there are none to remember.

use crate::id::{AgentId, StateName};

use super::Run;

/// Long enough to recognise, short enough to nest.
const ABBREVIATION_CHARS: usize = 6;

/// A name that was never given in this run.
pub(super) fn worker_name(run: &Run, parent: &AgentId, state: &StateName) -> AgentId {
    let abbreviation = abbreviation(state);
    let mut counter = run.fork_counters.get(parent).copied().unwrap_or(0);
    loop {
        counter = counter.saturating_add(1);
        let name = AgentId::new(format!("{parent}_{abbreviation}{counter}"));
        let is_taken = run.irregular_names.contains(&name)
            || (!is_regular(&abbreviation) && could_be_given(run, &name));
        // The last counter ends the search: four billion forks are not a workflow.
        if !is_taken || counter == u32::MAX {
            return name;
        }
    }
}

/// Notes that `parent` forked `worker` to `state`.
pub(super) fn given(run: &mut Run, parent: &AgentId, worker: &AgentId, state: &StateName) {
    let prefix_length = parent.as_str().len() + 1 + abbreviation(state).len();
    let digits = worker.as_str().get(prefix_length..).unwrap_or_default();
    let counter = run.fork_counters.entry(parent.clone()).or_default();
    *counter = digits.parse().unwrap_or(*counter + 1).max(*counter);
    if !is_regular(&abbreviation(state)) {
        run.irregular_names.insert(worker.clone());
    }
}

fn abbreviation(state: &StateName) -> String {
    let mut short = String::new();
    for c in state.stem().chars().take(ABBREVIATION_CHARS) {
        // Agent names are also parts of file names and variables.
        let c = c.to_ascii_lowercase();
        short.push(if c.is_ascii_alphanumeric() { c } else { '_' });
    }
    short
}

fn is_regular(abbreviation: &str) -> bool {
    !abbreviation.contains('_') && !abbreviation.ends_with(|c: char| c.is_ascii_digit())
}

/// Whether `name`, read as a regular one, is or was in use: its parent has counted that far.
fn could_be_given(run: &Run, name: &AgentId) -> bool {
    let Some((parent, own)) = name.as_str().rsplit_once('_') else {
        return false;
    };
    let letters = own.trim_end_matches(|c: char| c.is_ascii_digit());
    let counter = own.strip_prefix(letters).and_then(|digits| digits.parse::<u32>().ok());
    let forks = run.fork_counters.get(&AgentId::new(parent)).copied().unwrap_or(0);
    !letters.is_empty() && counter.is_some_and(|counter| counter <= forks)
}
