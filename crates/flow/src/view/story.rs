//! What a test of a workflow repeats and compares: paths, forks, reminders, failures and answers.

use std::collections::BTreeMap;

use crate::{
    id::AgentId,
    machine::{Halt, Record, Response},
};

/// What happened in a run, in the words of a test.
#[derive(Debug, Default)]
pub struct Story {
    /// The states that each agent has entered.
    pub paths: BTreeMap<String, Vec<String>>,
    /// The workers, in the order of their birth.
    pub forked: Vec<String>,
    /// What was wrong with each answer that was not accepted, after its agent in brackets.
    pub reminders: Vec<String>,
    /// Why agents failed, likewise.
    pub errors: Vec<String>,
    /// Why it halted.
    pub halts: Vec<Halt>,
    /// For each state the answers of people to its questions.
    pub answers: BTreeMap<String, Vec<Response>>,
}

impl Story {
    /// Adds the next record.
    pub fn add(&mut self, record: &Record) {
        if let Record::Intended { agent, step } = record {
            if step.digest.is_some() && step.attempt == 1 {
                let path = self.paths.entry(agent.to_string()).or_default();
                path.push(step.state.to_string());
            }
        } else if let Record::Followed { workers, .. } = record {
            self.forked.extend(workers.iter().map(ToString::to_string));
        } else if let Record::Reminded { agent, problem, .. } = record {
            self.reminders.push(format!("[{agent}] {problem}"));
        } else if let Record::Failed { agent, error, .. } = record {
            self.errors.push(format!("[{agent}] {error}"));
        } else if let Record::Halted { why } = record {
            self.halts.push(why.clone());
        } else if let Record::Answered { agent, response, .. } = record {
            let state = self.state(agent);
            self.answers.entry(state).or_default().push((**response).clone());
        }
    }

    /// The state that an agent has entered last.
    fn state(&self, agent: &AgentId) -> String {
        let path = self.paths.get(agent.as_str());
        path.and_then(|path| path.last()).cloned().unwrap_or_default()
    }
}
