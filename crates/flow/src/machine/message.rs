//! Messages that a person sends to an agent while it works.
//!
//! [`Record::Told`] keeps a message with its agent. It reaches the agent in its running turn, if the coding agent takes
//! messages then, or with the prompt of its next one. A turn that fails and is tried again in the session that it left
//! is given only what that session does not contain. [`Record::Heard`] comes with the end of a turn that has answered the message.

use serde::{Deserialize, Serialize};

use crate::id::{AgentId, StepId};

use super::{
    Action, Agent, Conclusion, Decision, Effect, Phase, Record, Run, Spent, Status, Turn, Work,
};

/// A message to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// A UUID that its sender has chosen, so that no message is taken twice.
    pub id: String,
    /// What it says.
    pub text: String,
    /// Who sent it: the name of a user.
    pub by: String,
}

impl Agent {
    /// The messages that have not reached it for certain, the oldest first.
    pub fn unheard(&self) -> impl Iterator<Item = &Message> {
        let is_heard = |message: &&Message| self.heard.contains(&message.id);
        self.messages.iter().filter(move |message| !is_heard(message))
    }

    /// The running turn of its state, which can be given messages. An evaluator's turn is none.
    fn own_turn(&self) -> Option<(StepId, &Turn)> {
        let Phase::Running { work, step } = &self.phase else { return None };
        let Action::Turn(turn) = &step.action else { return None };
        let id = StepId { agent: self.id.clone(), number: step.number };
        (!matches!(work, Work::Evaluate(_))).then_some((id, turn))
    }

    /// What its running turn can still be given.
    pub(super) fn deliveries(&self) -> impl Iterator<Item = Effect> {
        self.own_turn().into_iter().flat_map(|(step, turn)| {
            let is_new = |message: &&Message| !turn.given.contains(&message.id);
            let new = self.unheard().filter(is_new);
            new.map(move |message| Effect::Tell { step: step.clone(), message: message.clone() })
        })
    }
}

pub(super) fn decide_told(run: &Run, id: &AgentId, message: Message) -> Decision {
    let agent = run.agents.get(id).filter(|agent| !agent.phase.is_passed());
    let Some(agent) = agent.filter(|_| run.status.can_resume()) else {
        return Decision::default();
    };
    if agent.messages.iter().any(|known| known.id == message.id) {
        return Decision::default();
    }
    let step = agent.own_turn().map(|(step, _)| step).filter(|_| run.status == Status::Running);
    let tell = step.map(|step| Effect::Tell { step, message: message.clone() });
    Decision {
        records: vec![Record::Told { agent: id.clone(), message }],
        effects: tell.into_iter().collect(),
    }
}

/// The record of the messages that the turn of `agent` has heard, if it was answered.
pub(super) fn heard(agent: &Agent, spent: &Spent, conclusion: &Conclusion) -> Option<Record> {
    let (_, turn) = agent.own_turn()?;
    let is_given = |id: &String| turn.given.contains(id) || spent.heard.contains(id);
    let ids = agent.unheard().map(|message| message.id.clone());
    let messages: Vec<_> = ids.filter(is_given).collect();
    let is_answered = !matches!(conclusion, Conclusion::Again { .. });
    (is_answered && !messages.is_empty())
        .then(|| Record::Heard { agent: agent.id.clone(), messages })
}
