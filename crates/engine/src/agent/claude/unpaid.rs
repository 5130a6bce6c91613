//! What a turn has spent that ended without a result: Claude tells the cost of a turn with its result only, but a turn that was killed
//! has called its model, too.
//!
//! Since 2.1.277, a process that is asked to end writes what its session has cost to the transcript of the session. That is
//! exact. Otherwise the calls that the transcripts of the session and of its subagents name count, at list prices: an
//! estimate, because Claude also asks models for itself. A request that was not answered is in no transcript.

use std::collections::BTreeMap;

use raymond_flow::{
    machine::{Spent, Tokens},
    money::Usd,
};

use super::{
    event::{ClaudeMessage, ClaudeUsage, Total},
    prices,
};

/// Calls of models by the ids of their messages. Claude repeats a message for each of its blocks.
#[derive(Clone, Debug, Default)]
pub(super) struct Calls(BTreeMap<String, (String, ClaudeUsage)>);

impl Calls {
    /// Adds the call that `message` is of. What is seen later is known better.
    pub(super) fn see(&mut self, message: &ClaudeMessage) {
        if message.is_of_a_model() {
            let call = (message.model.clone(), message.usage.clone());
            self.0.insert(message.id.clone(), call);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn cost(&self) -> (Usd, Tokens) {
        let mut tokens = Tokens::default();
        for (_, usage) in self.0.values() {
            tokens += usage.tokens();
        }
        (self.0.values().map(|(model, usage)| prices::cost(model, usage)).sum(), tokens)
    }
}

/// What the transcripts of a session say of a turn.
#[derive(Debug, Default)]
pub(super) struct Written {
    /// The calls of models.
    pub(super) calls: Calls,
    /// What the session has cost, if its process said so when it left it.
    pub(super) saved: Option<Total>,
}

/// Adds to `spent` what was spent since a result that ended with the sums `known`, or since the prompt if there `is_no_result`.
/// Claude has `printed` these calls since then.
pub(super) fn add(
    spent: &mut Spent,
    printed: &Calls,
    known: &Total,
    is_no_result: bool,
    written: Written,
) {
    let saved = written.saved.and_then(|saved| saved.since(known));
    let (cost_usd, tokens) = saved.unwrap_or_else(|| {
        let mut calls = printed.clone();
        let meant = written.calls.0.into_iter();
        calls.0.extend(meant.filter(|(id, _)| is_no_result || printed.0.contains_key(id)));
        calls.cost()
    });
    spent.cost_usd += cost_usd;
    spent.tokens += tokens;
    spent.is_estimate = saved.is_none() && cost_usd > Usd::ZERO;
}
