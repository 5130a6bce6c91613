//! Questions to people: publishing one, and looking for its answer.

use raymond_flow::{
    id::{AskId, StateName},
    machine::{Halt, Input, Run},
    policy::Question,
};

use super::Performer;
use crate::{
    asks::Publication,
    run::{
        error::{EngineError, at_work},
        events::{Event, Observer},
        timers::Timer,
    },
};

impl Performer<'_> {
    /// Publishes a question that is durable in the journal. Returns why the run pauses if the disk is full.
    pub(crate) fn publish(
        &mut self,
        ask: (&AskId, &StateName),
        question: &Question,
        cwd: &str,
        observer: &mut dyn Observer,
    ) -> Result<Option<Halt>, EngineError> {
        match self.desk.publish(ask, question, cwd) {
            Ok(Publication { question, is_new }) => {
                observer.see(&Event::Asked { question: Box::new(question), is_new }.now());
                Ok(None)
            }
            Err(error) => match self.no_room(&error) {
                Some(halt) => Ok(Some(halt)),
                None => Err(at_work("publish a question", error)),
            },
        }
    }

    /// The answer to a question, if there is one by now. If there is none, it is looked at again later.
    pub(crate) fn answer_to(
        &mut self,
        run: &Run,
        id: &AskId,
    ) -> Result<Option<Input>, EngineError> {
        match self.desk.look(run, id, self.means.answerer) {
            Ok(Ok(response)) => Ok(Some(Input::Answered { id: id.clone(), response })),
            Ok(Err(wait)) => {
                if let Some(wait) = wait {
                    self.timers.set(wait, Timer::Ask(id.clone()));
                }
                Ok(None)
            }
            Err(error) => match self.no_room(&error) {
                Some(halt) => Ok(Some(Input::Halt(halt))),
                None => Err(at_work("look at the answer to a question", error)),
            },
        }
    }

    /// The questions that wait for an answer.
    pub(crate) fn open_questions(&self) -> Vec<AskId> {
        self.desk.open()
    }

    pub(crate) fn has_open_questions(&self) -> bool {
        self.desk.has_open()
    }

    /// Closes the questions of a run that was cancelled.
    pub(crate) fn withdraw_questions(&self, run: &Run, observer: &mut dyn Observer) {
        if let Err(error) = self.desk.withdraw(run) {
            let text = format!("a question of the cancelled run could not be closed: {error}");
            observer.see(&Event::Trouble(text).now());
        }
    }
}
