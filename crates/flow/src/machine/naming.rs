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
//!
//! A worker that forks a worker, and so on, would get longer names with every generation, and a
//! journal that names them on every line would grow with the square of the depth. So a hash replaces a long
//! parent name: `main_h0123456789abcdef_worker1`. That part is longer than an abbreviation with a counter can
//! be, so it is never mistaken for one.

use std::collections::BTreeSet;

use crate::{
    id::{AgentId, StateName},
    scope::ENTRY_STEMS,
    source::fingerprint,
};

use super::Run;

/// Long enough to recognise, short enough to nest.
const ABBREVIATION_CHARS: usize = 6;

/// The longest name of a parent that its workers' names begin with: a dozen generations.
const PARENT_BYTES_MAX: usize = 100;

/// The digits of the hash that replaces a long name. With 64 bits, two names do not collide.
const HASH_DIGITS: usize = 16;

/// The most numbers that a parent may pass over for one worker. A million irregular names would have to be
/// in use; a name with a higher number is not one of this parent's.
const PASSED_OVER_MAX: u32 = 1_000_000;

/// Names that were never given in this run, for workers that `parent` forks to `states`.
pub(super) fn worker_names<'a>(
    run: &Run,
    parent: &AgentId,
    states: impl Iterator<Item = &'a StateName>,
) -> Vec<AgentId> {
    let prefix = prefix(parent);
    let mut counter = run.fork_counters.get(parent).copied().unwrap_or(0);
    // Of this decision: the run does not know them yet.
    let mut irregular = BTreeSet::new();
    let mut names = Vec::new();
    for state in states {
        let abbreviation = abbreviation(state);
        let is_regular = is_regular(&abbreviation);
        let given = counter;
        let name = loop {
            counter = counter.saturating_add(1);
            let name = AgentId::new(name(&prefix, &abbreviation, counter));
            let is_taken = run.irregular_names.contains(&name)
                || irregular.contains(&name)
                || (!is_regular && could_be_given(run, (parent, given), &name));
            // The last counter ends the search: four billion forks are not a workflow.
            if !is_taken || counter == u32::MAX {
                break name;
            }
        };
        if !is_regular {
            irregular.insert(name.clone());
        }
        names.push(name);
    }
    names
}

/// Records that `parent` forked `worker` to `state`: its counter continues at the number in that name.
pub(super) fn given(run: &mut Run, parent: &AgentId, worker: &AgentId, state: &StateName) {
    let abbreviation = abbreviation(state);
    let prefix = prefix(parent);
    let counter = run.fork_counters.entry(parent.clone()).or_default();
    let is_name = |number: &u32| *worker.as_str() == name(&prefix, &abbreviation, *number);
    let numbers = counter.saturating_add(1)..=counter.saturating_add(PASSED_OVER_MAX);
    *counter = numbers.clone().find(is_name).unwrap_or(*numbers.start());
    if !is_regular(&abbreviation) {
        run.irregular_names.insert(worker.clone());
    }
}

fn name(prefix: &str, abbreviation: &str, counter: u32) -> String {
    format!("{prefix}_{abbreviation}{counter}")
}

/// What the names of `parent`'s workers begin with.
fn prefix(parent: &AgentId) -> String {
    let parent = parent.as_str();
    if parent.len() <= PARENT_BYTES_MAX {
        return parent.to_owned();
    }
    let hash = fingerprint(parent.as_bytes());
    format!("{}_h{}", AgentId::main(), hash.get(..HASH_DIGITS).unwrap_or(&hash))
}

/// Of the state's own name; of its folder's, if it is the entry state of a subworkflow.
fn abbreviation(state: &StateName) -> String {
    let own = state.stem().rsplit('/').next().unwrap_or_default();
    let folder = state.folder().trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    let is_start = ENTRY_STEMS.contains(&own) && !folder.is_empty();
    let mut short = String::new();
    for c in (if is_start { folder } else { own }).chars().take(ABBREVIATION_CHARS) {
        // Agent names are also parts of file names and variables.
        let c = c.to_ascii_lowercase();
        short.push(if c.is_ascii_alphanumeric() { c } else { '_' });
    }
    short
}

fn is_regular(abbreviation: &str) -> bool {
    !abbreviation.contains('_') && !abbreviation.ends_with(|c: char| c.is_ascii_digit())
}

/// Whether `name`, which `forker` is about to give, is or was in use if it is read as a regular one:
/// its parent has counted that far. `given` is how far `forker` has.
fn could_be_given(run: &Run, (forker, given): (&AgentId, u32), name: &AgentId) -> bool {
    let Some((parent, own)) = name.as_str().rsplit_once('_') else {
        return false;
    };
    // A hash refers only to the agent that forks.
    let parent = if parent == prefix(forker) { forker.as_str() } else { parent };
    let letters = own.trim_end_matches(|c: char| c.is_ascii_digit());
    let counter = own.strip_prefix(letters).and_then(|digits| digits.parse::<u32>().ok());
    let forks = if parent == forker.as_str() {
        given
    } else {
        run.fork_counters.get(&AgentId::new(parent)).copied().unwrap_or(0)
    };
    !letters.is_empty() && counter.is_some_and(|counter| counter <= forks)
}
