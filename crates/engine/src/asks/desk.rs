//! The orchestrator's side of questions: publishes them, keeps their deadlines, finds their answers.

use std::{collections::BTreeSet, io, path::PathBuf, time::Duration};

use raymond_flow::{
    id::{AskId, StateName},
    machine::{Due, RAYMOND, Response, Run},
    policy::Question,
};

use super::{
    CANCELLED, PublishedQuestion, Reply, UNREADABLE,
    folder::{AskFolder, GiveOutcome, GivenAnswer},
};
use crate::sys::clock;

/// The longest wait for a deadline before the clock is read again: the user may have set it, and a timer does
/// not advance while the machine sleeps.
const WAIT_MAX: Duration = Duration::from_mins(1);

/// Answers questions at once instead of people: for tests of workflows.
pub type Answerer<'a> = &'a dyn Fn(&PublishedQuestion) -> Option<Reply>;

/// A question that was published.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) question: PublishedQuestion,
    pub(crate) is_new: bool,
}

/// The open questions of a run.
#[derive(Debug)]
pub(crate) struct Desk {
    asks: PathBuf,
    identity: String,
    open: BTreeSet<AskId>,
}

impl Desk {
    pub(crate) fn new(asks: PathBuf, identity: &str) -> Self {
        Self { asks, identity: identity.to_owned(), open: BTreeSet::new() }
    }

    /// The questions that wait for an answer.
    pub(crate) fn open(&self) -> Vec<AskId> {
        self.open.iter().cloned().collect()
    }

    pub(crate) fn is_open(&self, id: &AskId) -> bool {
        self.open.contains(id)
    }

    pub(crate) fn has_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// Publishes a question, unless it is published already.
    pub(crate) fn publish(
        &mut self,
        (id, state): (&AskId, &StateName),
        question: &Question,
        cwd: &str,
    ) -> io::Result<Publication> {
        let name = (self.identity.as_str(), id, state);
        let published = self.folder(id).publish(name, question, cwd.as_ref());
        let (question, is_new) = published?;
        self.open.insert(id.clone());
        Ok(Publication { question, is_new })
    }

    /// The answer to a question of `run`, if there is one by now: from a person, from `answerer`, by the setting or
    /// by the deadline. If there is none, says how long to wait until it is looked at again.
    pub(crate) fn look(
        &mut self,
        run: &Run,
        id: &AskId,
        answerer: Option<Answerer<'_>>,
    ) -> io::Result<Result<Box<Response>, Option<Duration>>> {
        let Some((_, agent, asked)) = run.questions().find(|(own, ..)| own == id) else {
            self.open.remove(id);
            return Ok(Err(None));
        };
        let folder = self.folder(id);
        if folder.question()?.is_none() {
            return Ok(Err(Some(WAIT_MAX)));
        }
        // If another question is in its place, it is published again: an answer to that one is none to it.
        let published = self.publish((id, &agent.current_state), asked, &agent.cwd)?;
        let question = published.question;
        let mut answer = taken(&folder, asked)?;
        if answer.is_none() {
            let reply = match answerer.and_then(|answerer| answerer(&question)) {
                Some(reply) => reply,
                None => match run.default_answer(id, clock::now_ms()) {
                    Due::Now(response) => automatic(&response.result, &response.how),
                    Due::Later(ms) => {
                        return Ok(Err(Some(Duration::from_millis(ms).min(WAIT_MAX))));
                    }
                    Due::Never => return Ok(Err(None)),
                },
            };
            answer = Some(give(&folder, &reply)?);
        }
        self.open.remove(id);
        let answer = answer.filter(|answer| is_answer(asked, answer));
        Ok(answer.map(|answer| Box::new(question.response(answer))).ok_or(None))
    }

    /// The answer that was given to a question of `run`, if there is one. For a run that another machine decides about:
    /// that one also keeps the deadline.
    pub(crate) fn given(&self, run: &Run, id: &AskId) -> io::Result<Option<Box<Response>>> {
        let folder = self.folder(id);
        let Some((_, agent, asked)) = run.questions().find(|(own, ..)| own == id) else {
            return Ok(None);
        };
        let name = (self.identity.as_str(), id, &agent.current_state);
        let Some(question) = folder.published(name, asked)? else { return Ok(None) };
        let answer = taken(&folder, asked)?;
        Ok(answer.map(|answer| Box::new(question.response(answer))))
    }

    /// Closes a question with the answer that another machine has taken. One that was given here too late is moved aside.
    pub(crate) fn close(&mut self, id: &AskId, taken: &Response) -> io::Result<()> {
        self.open.remove(id);
        let folder = self.folder(id);
        if folder.question()?.is_none() {
            return Ok(());
        }
        let Response { result, comment, by, how, .. } = taken.clone();
        let reply = Reply { result, comment, by, how, files: Vec::new() };
        if let Some(given) = folder.answer()? {
            let is_same = (&given.result, &given.comment, &given.by, &given.how)
                == (&reply.result, &reply.comment, &reply.by, &reply.how);
            if is_same {
                return Ok(());
            }
            folder.reject(|found| *found == given)?;
        }
        give(&folder, &reply).map(drop)
    }

    /// Closes every open question of a cancelled run. Existing answers stay.
    pub(crate) fn withdraw(&self, run: &Run) -> io::Result<()> {
        for (id, ..) in run.questions() {
            let folder = self.folder(&id);
            if folder.question()?.is_some() && folder.answer()?.is_none() {
                give(&folder, &automatic("", CANCELLED))?;
            }
        }
        Ok(())
    }

    fn folder(&self, id: &AskId) -> AskFolder {
        AskFolder::new(&self.asks, id)
    }
}

/// The answer in the directory of a question. One that this program did not write, because it names no state to enter, is
/// moved aside.
fn taken(folder: &AskFolder, asked: &Question) -> io::Result<Option<GivenAnswer>> {
    let answer = folder.answer()?;
    if answer.as_ref().is_some_and(|answer| !is_answer(asked, answer)) {
        folder.reject(|found| !is_answer(asked, found))?;
        return Ok(None);
    }
    Ok(answer)
}

fn is_answer(asked: &Question, answer: &GivenAnswer) -> bool {
    asked.target(&answer.result).is_some() && answer.how != UNREADABLE
}

/// An answer that no person gave.
pub(super) fn automatic(result: &str, how: &str) -> Reply {
    let (result, by, how) = (result.to_owned(), RAYMOND.to_owned(), how.to_owned());
    Reply { result, by, how, ..Reply::default() }
}

/// The answer that counts: `reply`, or one that came just before it.
fn give(folder: &AskFolder, reply: &Reply) -> io::Result<GivenAnswer> {
    match folder.give(reply) {
        Ok(GiveOutcome::Given(answer) | GiveOutcome::Taken(answer)) => Ok(answer),
        Err(super::AnswerError::Io { source, .. } | super::AnswerError::File { source, .. }) => {
            Err(source)
        }
        Err(other) => Err(io::Error::other(other)),
    }
}
