//! Questions to people: asking one, and following its answer.
//!
//! An `ask` is a `goto` in two halves. [`Record::Asked`] keeps the question with the agent, which then waits.
//! [`Record::Answered`] keeps the answer, and a `goto` to the state that it leads to follows from it in the same
//! decision, unless a limit holds the agent. The question is never asked again, and the answer is never lost.

use crate::{
    id::{AskId, SessionId},
    policy::{Question, Source, Transition},
    text::excerpt,
};

use super::{
    Agent, ApplyError, Decision, Effect, OnAsk, Phase, Record, Run, Session, Via, Work,
    decide::Draft,
};

/// The answer to a question, who gave it and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The label of a choice, or the text where there are no choices.
    pub result: String,
    /// A comment in addition to a choice; empty if there is none.
    pub comment: String,
    /// The absolute path of the directory with the files that were handed over, empty if there are none. `None` in
    /// journals of earlier versions.
    pub files: Option<String>,
    /// Who answered: the name of a user, or `raymond`.
    pub by: String,
    /// How: `terminal`, `command`, `timeout` and the like.
    pub how: String,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// The files that were shown with the question.
    pub attachments: Vec<Attachment>,
}

/// A file that was shown with a question, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Its path below the agent's directory.
    pub path: String,
    /// How large it was.
    pub bytes: u64,
    /// The SHA-256 of its bytes, in hexadecimal digits. Empty if it could not be shown.
    pub sha256: String,
}

impl Run {
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

/// Follows an answer. A late one, or one that does not fit the question, has no effect.
pub(super) fn decide_answered(run: &Run, id: &AskId, response: Response) -> Decision {
    let target = run.question(id).and_then(|question| question.target(&response.result)).cloned();
    let (Some(agent), Some(target)) = (run.agents.get(&id.agent), target) else {
        return Decision::default();
    };
    let mut draft = Draft::new(run, agent);
    let (agent, number) = (id.agent.clone(), id.number);
    draft.record(Record::Answered { agent, number, response: Box::new(response) });
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
    let transition = Box::new(Transition::Goto { target, input: None });
    agent.phase = Phase::Ready { work: Work::Follow { transition, source: Source::Answer } };
    agent.response = Some(Box::new(response.clone()));
    Ok(())
}
