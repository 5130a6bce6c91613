//! A coding agent whose answers were written down beforehand: for tests and for the demo.
//!
//! It asks no model and starts no program. Everything else of a run is real.

use std::{cell::RefCell, collections::BTreeMap, io, rc::Rc, time::Duration};

use raymond_flow::{
    coding_agent::Capabilities,
    id::{AgentId, StateName},
    machine::{FailureClass, Spent, TurnFailure},
    money::Usd,
    turn::{Outcome, OwnQuestion},
};

use super::{
    CodingAgent, ReadyAnswer, TurnCommand, TurnEnd, TurnOutput, TurnRequest, misconfigured,
};

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptedReply {
    /// The answer, or the failure.
    pub answer: Result<String, TurnFailure>,
    /// What it asks with a tool of its own, instead of the answer; none if it does not ask.
    pub asks: Vec<OwnQuestion>,
    /// Its structured output, as JSON.
    pub output: Option<String>,
    /// What it costs.
    pub cost_usd: Usd,
    /// How long it takes.
    pub after: Duration,
    /// How often it is given; `None` is without a limit.
    pub times: Option<u64>,
}

impl ScriptedReply {
    /// An answer that costs nothing and comes at once.
    pub fn text(text: impl Into<String>) -> Self {
        let (cost_usd, after) = (Usd::ZERO, Duration::ZERO);
        let (answer, asks, output) = (Ok(text.into()), Vec::new(), None);
        Self { answer, asks, output, cost_usd, after, times: Some(1) }
    }
}

/// The answers of each state, in order. A state is named with or without its extension.
pub type Script = BTreeMap<String, Vec<ScriptedReply>>;

/// A prompt that was given to the scripted agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The agent of the run.
    pub agent: AgentId,
    /// The state of the prompt.
    pub state: StateName,
    /// The text of the prompt.
    pub prompt: String,
    /// The model that the turn asked for.
    pub model: Option<String>,
}

/// The coding agent `scripted`. Clones share their state.
#[derive(Clone, Debug, Default)]
pub struct ScriptedAgent {
    script: Rc<Script>,
    /// The number of answers given in each state.
    given: Rc<RefCell<BTreeMap<String, u64>>>,
    prompts: Rc<RefCell<Vec<Given>>>,
    /// The replies that were needed but are not in the script.
    missing: Rc<RefCell<Vec<String>>>,
}

impl ScriptedAgent {
    /// Gives the answers of `script`.
    pub fn new(script: Script) -> Self {
        Self { script: Rc::new(script), ..Self::default() }
    }

    /// The prompts so far, in order.
    pub fn prompts(&self) -> Vec<Given> {
        self.prompts.borrow().clone()
    }

    /// Answers that no turn needed: the state and the number. One without a limit is never left over.
    pub fn left_over(&self) -> Vec<(String, u64)> {
        let given = self.given.borrow();
        let left = self.script.iter().map(|(state, replies)| {
            let all: u64 = replies.iter().filter_map(|reply| reply.times).sum();
            (state.clone(), all.saturating_sub(given.get(state).copied().unwrap_or_default()))
        });
        left.filter(|(_, count)| *count > 0).collect()
    }

    /// The replies that were needed but are not in the script, for the user.
    pub fn missing(&self) -> Vec<String> {
        self.missing.borrow().clone()
    }

    fn failing(&self, message: String) -> ScriptedReply {
        self.missing.borrow_mut().push(message.clone());
        ScriptedReply { answer: Err(misconfigured(message)), ..ScriptedReply::text("") }
    }

    fn next(&self, state: &StateName) -> ScriptedReply {
        let stem = state.as_str().rsplit_once('.').map_or(state.as_str(), |(stem, _)| stem);
        let names = [state.as_str(), stem];
        let Some((name, replies)) = names.iter().find_map(|n| Some((n, self.script.get(*n)?)))
        else {
            return self.failing(format!("the script has no reply for {state}"));
        };
        let mut given = self.given.borrow_mut();
        let count = given.entry((*name).to_owned()).or_default();
        let mut before = 0;
        let reply = replies.iter().find(|reply| {
            before += reply.times.unwrap_or_default();
            reply.times.is_none() || before > *count
        });
        let Some(reply) = reply else {
            let replies = if before == 1 { "reply" } else { "replies" };
            return self.failing(format!("the script has only {before} {replies} for {state}"));
        };
        *count += 1;
        let mut reply = reply.clone();
        if reply.times.is_none() {
            // A reply without any delay is given before the loop reads its inbox: a workflow that only
            // loops could not be interrupted.
            reply.after = reply.after.max(Duration::from_nanos(1));
        }
        reply
    }
}

impl CodingAgent for ScriptedAgent {
    #[expect(clippy::unnecessary_literal_bound, reason = "the trait's names are configured")]
    fn name(&self) -> &str {
        "scripted"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FULL
    }

    fn answer(&self, request: &TurnRequest<'_>) -> Option<ReadyAnswer> {
        let state = &request.step.state;
        self.prompts.borrow_mut().push(Given {
            agent: request.agent.clone(),
            state: state.clone(),
            prompt: request.prompt.to_owned(),
            model: request.turn.settings.model.clone(),
        });
        let ScriptedReply { answer, asks: questions, output, cost_usd, after, .. } =
            self.next(state);
        let outcome = match answer {
            Ok(_) if !questions.is_empty() => Outcome::Asks { questions },
            Ok(text) => Outcome::Reply { text },
            Err(failure) => Outcome::Failed(failure),
        };
        let model = Some("scripted".to_owned());
        let spent = Spent { cost_usd, model, output, ..Spent::default() };
        Some(ReadyAnswer { after, end: TurnEnd { outcome, spent, total: None } })
    }

    fn command(&self, _request: &TurnRequest<'_>) -> Result<TurnCommand, TurnFailure> {
        Err(misconfigured("the scripted agent starts no program".to_owned()))
    }

    fn outcome(&self, _output: &TurnOutput<'_>) -> io::Result<TurnEnd> {
        let class = FailureClass::Other;
        let message = "the scripted agent starts no program".to_owned();
        let outcome = Outcome::Failed(TurnFailure { class, message });
        Ok(TurnEnd { outcome, spent: Spent::default(), total: None })
    }
}

#[cfg(test)]
mod tests;
