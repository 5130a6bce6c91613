//! Questions to people: asking one, and following its answer.
//!
//! An `ask` is a `goto` in two halves. [`Record::Asked`] keeps the question with the agent, which then waits.
//! [`Record::Answered`] keeps the answer, and a `goto` to the state that it leads to follows from it in the same
//! decision, unless a limit holds the agent. The question is never asked again, and the answer is never lost.
//!
//! A question that a coding agent asked with a tool of its own interrupted a turn. Its answer enters no state: it is
//! the next message of that turn's session, as a reminder is.

use serde::{Deserialize, Serialize};

use crate::{
    formats::is_default,
    id::{AskId, SessionId},
    policy::{ALLOW, Question, Source, Transition},
    prompt,
    text::excerpt,
};

use super::{
    Agent, ApplyError, Decision, Effect, Halt, OnAsk, Phase, Record, Reminder, Run, Session, Tries,
    Via, Work, decide::decide_halt, draft::Draft,
};

/// The name in [`Response::how`] of the answer that a deadline gives.
pub const TIMEOUT: &str = "timeout";
/// The name in [`Response::how`] of the answer that the setting `ask = default` gives.
pub const SETTING: &str = "setting";
/// The name in [`Response::by`] of answers that no person gave.
pub const RAYMOND: &str = "raymond";

/// The answer to a question, who gave it and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// The label of a choice, or the text where there are no choices.
    pub result: String,
    /// A comment in addition to a choice; empty if there is none.
    #[serde(default, skip_serializing_if = "is_default")]
    pub comment: String,
    /// The absolute path of the directory with the files that were handed over, empty if there are none. `None`
    /// if no person gave the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Who answered: the name of a user, or `raymond`.
    pub by: String,
    /// How: `terminal`, `command`, `timeout` and the like.
    pub how: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The files that were shown with the question.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attachments: Vec<Attachment>,
}

/// A file that was shown with a question, as it was then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its path below the agent's directory.
    pub path: String,
    /// How large it was.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal digits. Empty if it could not be shown.
    pub sha256: String,
}

/// When an open question gets its default as its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Now, unless a person has answered.
    Now(Box<Response>),
    /// After so many milliseconds, more than none.
    Later(u64),
    /// Never: only a person can answer.
    Never,
}

impl Run {
    /// When the open question with this id gets its default as its answer: at once by the setting `ask = default`,
    /// otherwise at its deadline. The caller gives a person's answer precedence.
    pub fn default_answer(&self, id: &AskId, now_ms: u64) -> Due {
        let Some(asked) = self.question(id) else { return Due::Never };
        let left = asked.deadline_ms.map(|at| at.saturating_sub(now_ms));
        let how = match (self.settings.on_ask, left) {
            (OnAsk::Default, _) => SETTING,
            (OnAsk::Wait | OnAsk::Pause | OnAsk::Fail, Some(0)) => TIMEOUT,
            (OnAsk::Wait | OnAsk::Pause | OnAsk::Fail, Some(left)) => return Due::Later(left),
            (OnAsk::Wait | OnAsk::Pause | OnAsk::Fail, None) => return Due::Never,
        };
        let Some(result) = asked.default.clone() else { return Due::Never };
        Due::Now(Box::new(Response {
            result,
            comment: String::new(),
            files: None,
            by: RAYMOND.to_owned(),
            how: how.to_owned(),
            at_ms: now_ms,
            attachments: Vec::new(),
        }))
    }

    /// Whether only an answer can advance the run: agents wait for answers, and no other agent can continue.
    pub fn waits_for_people(&self) -> bool {
        self.counts.asking > 0 && self.counts.active == 0
    }

    /// The open questions, in the order of their agents' birth.
    pub fn questions(&self) -> impl Iterator<Item = (AskId, &Agent, &Question)> {
        self.agents_by_birth().into_iter().filter_map(|agent| {
            let Phase::Asking { number, question } = &agent.phase else { return None };
            Some((AskId { agent: agent.id.clone(), number: *number }, agent, &**question))
        })
    }

    /// The open question with this id.
    pub fn question(&self, id: &AskId) -> Option<&Question> {
        let Phase::Asking { number, question } = &self.agents.get(&id.agent)?.phase else {
            return None;
        };
        Some(&**question).filter(|_| *number == id.number)
    }
}

/// The effect that a question waits for.
pub(super) fn effect(agent: &Agent, number: u32, question: &Question) -> Effect {
    Effect::Ask {
        id: AskId { agent: agent.id.clone(), number },
        state: agent.current_state.clone(),
        question: Box::new(question.clone()),
        cwd: agent.cwd.clone(),
    }
}

/// Why `question` must not be asked under the settings of the run.
fn refusal(on_ask: OnAsk, question: &Question) -> Option<&'static str> {
    match on_ask {
        OnAsk::Fail => Some("nobody is there to answer (`ask = fail`)"),
        OnAsk::Default if question.default.is_none() => {
            Some("nobody is there to answer (`ask = default`), and the question has no default")
        }
        OnAsk::Default | OnAsk::Wait | OnAsk::Pause => None,
    }
}

impl Draft<'_> {
    /// Asks a person. If the settings say that no person is there, the agent fails, and asks when the run is
    /// resumed with other settings.
    pub(super) fn ask(
        &mut self,
        question: &Question,
        source: Source,
        via: Via,
        session: Option<SessionId>,
    ) {
        let (id, number) = (self.agent.id.clone(), self.agent.asks + 1);
        let asked = Box::new(question.clone());
        self.record(Record::Asked { agent: id, number, question: asked, via, session });
        match refusal(self.run.settings.on_ask, question) {
            Some(why) => {
                let error = format!("{why}: {}", excerpt(&question.text));
                let transition = Box::new(Transition::Ask(Box::new(question.clone())));
                self.fail(error, None, Work::Follow { transition, source }, None);
            }
            None if self.run.halt.is_none() => {
                self.decision.effects.push(effect(self.agent, number, question));
            }
            // It is asked when the run is resumed.
            None => {}
        }
    }
}

/// A run in which only people can go on rests if its settings do not let it wait for them. Decided only once nothing else
/// is left to do: an answer may be there already, and only looking for it finds that out.
pub(super) fn decide_idle(run: &Run) -> Decision {
    if run.waits_for_people() && run.halt.is_none() && run.settings.on_ask != OnAsk::Wait {
        return decide_halt(run, Halt::Asks);
    }
    Decision::default()
}

/// Follows an answer. A late one, or one that does not fit the question, has no effect.
pub(super) fn decide_answered(run: &Run, id: &AskId, response: Response) -> Decision {
    let question = run.question(id);
    let continues = question.is_some_and(|question| question.continues.is_some());
    let target = question.and_then(|question| question.target(&response.result)).cloned();
    let (Some(agent), Some(target)) = (run.agents.get(&id.agent), target) else {
        return Decision::default();
    };
    let mut draft = Draft::new(run, agent);
    let (agent, number) = (id.agent.clone(), id.number);
    draft.record(Record::Answered { agent, number, response: Box::new(response) });
    if continues {
        draft.prepare(id.agent.clone());
        return draft.decision;
    }
    draft.follow(Transition::Goto { target, input: None }, Source::Answer, None, None);
    draft.decision
}

/// The agent waits for an answer. Its session is kept for the state after the answer.
pub(super) fn asked(
    agent: &mut Agent,
    number: u32,
    question: &Question,
    session: Option<&SessionId>,
) -> Result<(), ApplyError> {
    if !matches!(agent.phase, Phase::Ready { .. } | Phase::Called { .. }) {
        return Err(ApplyError::WrongPhase { agent: agent.id.clone(), what: "ask" });
    }
    if let Some(session) = session {
        agent.session = Session::Open(session.clone());
    }
    agent.asks = number;
    agent.phase = Phase::Asking { number, question: Box::new(question.clone()) };
    Ok(())
}

/// The answer waits to be followed.
pub(super) fn answered(
    agent: &mut Agent,
    number: u32,
    response: &Response,
) -> Result<(), ApplyError> {
    let wrong = ApplyError::WrongPhase { agent: agent.id.clone(), what: "be answered" };
    let Phase::Asking { number: own, question } = &agent.phase else { return Err(wrong) };
    let target = question.target(&response.result).filter(|_| *own == number);
    let target = target.cloned().ok_or(wrong)?;
    if let Some(visit) = &question.continues {
        let Response { result, comment, files, .. } = response;
        let text = prompt::answered(result, comment, files.as_deref(), &visit.policy);
        let mut visit = (**visit).clone();
        visit.settings.granted.extend(question.grants.clone().filter(|_| *result == ALLOW));
        let reminder = Reminder { visit, text };
        agent.phase = Phase::Ready { work: Work::Remind(Box::new(reminder)) };
        agent.tries = Tries { reminders: agent.tries.reminders, ..Tries::default() };
        return Ok(());
    }
    let transition = Box::new(Transition::Goto { target, input: None });
    agent.phase = Phase::Ready { work: Work::Follow { transition, source: Source::Answer } };
    agent.response = Some(Box::new(response.clone()));
    Ok(())
}
